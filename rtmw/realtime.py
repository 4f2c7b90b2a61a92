"""Real-time rights of this process: what the system allows, and what to do where it does not (docs/realtime.md)."""

from __future__ import annotations

import os

from rtmw.errors import NotPermitted


def run_fifo(priority: int = 50) -> None:
    """Make the calling thread a real-time one: it runs before every ordinary thread, until it sleeps.

    `priority`: 1 to 99, of SCHED_FIFO; interrupts that are threads have 50. A thread that never sleeps starves its
    core: use a `spin` of 0, or leave it a core of its own.

    Errors: ValueError, NotPermitted.
    """
    lowest, highest = os.sched_get_priority_min(os.SCHED_FIFO), os.sched_get_priority_max(os.SCHED_FIFO)
    if not lowest <= priority <= highest:
        raise ValueError(f"{priority!r} is not a real-time priority; they go from {lowest} to {highest}")
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(priority))
    except PermissionError as error:
        raise NotPermitted(
            error.errno,
            f"SCHED_FIFO with priority {priority} was asked for, and this process may go up to {priority_limit()}; "
            "raise that with `ulimit -r 99`, `LimitRTPRIO=99` in the systemd unit, an `rtprio` line in "
            "/etc/security/limits.conf, or `--cap-add=SYS_NICE` for a container",
        ) from None


def priority_limit() -> int:
    """The highest real-time priority that this process may take without privileges; 0: none."""
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_RTPRIO)
    return 99 if soft == resource.RLIM_INFINITY else soft


def memory_limit() -> int | None:
    """Bytes that this process may lock into memory without privileges; None: no limit."""
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    return None if soft == resource.RLIM_INFINITY else soft


def memory_not_locked(domain: int, size: int, error: OSError) -> NotPermitted:
    """Why the memory of a domain could not be locked, and what to do."""
    limit = memory_limit()
    allowed = "no limit is set" if limit is None else f"this process may lock {limit}"
    return NotPermitted(
        error.errno,
        f"domain {domain}: {size} bytes were to be locked into memory, and {allowed}; raise that with `ulimit -l "
        f"{-(-size // 1024)}` (or unlimited), `LimitMEMLOCK=infinity` in the systemd unit, a `memlock` line in "
        "/etc/security/limits.conf, or `--ulimit memlock=-1` for a container",
    )
