"""Is this machine fit for real time? What `rtmw doctor` looks at beyond what rtmw needs; docs/realtime.md says why."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from rtmw import realtime
from rtmw.cli.environment import Check
from rtmw.cli.terminal import size

CPUS = Path("/sys/devices/system/cpu")
CLOCK_SOURCE = Path("/sys/devices/system/clocksource/clocksource0/current_clocksource")
THROTTLE = Path("/proc/sys/kernel/sched_rt_runtime_us")
HUGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")
QUICK_CLOCKS = ("tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter")
"""Read without a system call."""


def fitness(mapped_bytes: int | None) -> list[Check]:
    """All checks; what they advise is a remark, since rtmw works without. `mapped_bytes`: what `lock_memory` of the
    domain would lock; None without a domain."""
    found = [
        _cores(),
        _preemption(),
        _governors(),
        _throttling(),
        _priority(),
        _memory(mapped_bytes),
        _swap(),
        _huge_pages(),
        _clock(),
    ]
    return [replace(check, remark=True) for check in found]


def _read(path: Path) -> str:
    """The content of a file of the kernel; empty where there is no such file."""
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def _cores() -> Check:
    mine, isolated = sorted(os.sched_getaffinity(0)), _read(CPUS / "isolated")
    found = f"{len(mine)} for this process, isolated: {isolated or 'none'}"
    few = len(mine) < 2
    return Check("cores", found, "a subscriber that spins takes the core from the publisher; use spin=0" if few else "")


def _preemption() -> Check:
    if _read(Path("/sys/kernel/realtime")) == "1":
        return Check("preemption", "PREEMPT_RT")
    return Check("preemption", "no PREEMPT_RT", "for bounds below a millisecond, boot a kernel with PREEMPT_RT")


def _governors() -> Check:
    found = {_read(path) for path in CPUS.glob("cpu[0-9]*/cpufreq/scaling_governor")} - {""}
    slow = found - {"performance"}
    advice = "cores that sleep deep wake late; `cpupower frequency-set -g performance`" if slow else ""
    return Check("frequency governor", ", ".join(sorted(found)) or "none; the clock of the cores is not ours", advice)


def _throttling() -> Check:
    runtime = _read(THROTTLE)
    if runtime in ("", "-1"):
        return Check("real-time throttling", "off")
    advice = "a SCHED_FIFO thread that never sleeps is stopped for a part of each second; use spin=0, or write -1 there"
    return Check("real-time throttling", f"{runtime} of 1000000 µs", advice)


def _priority() -> Check:
    limit = realtime.priority_limit()
    if os.geteuid() == 0 or limit > 0:
        return Check("SCHED_FIFO", "allowed" if os.geteuid() == 0 else f"up to {limit}")
    return Check("SCHED_FIFO", "not allowed", "rtprio in /etc/security/limits.conf, or LimitRTPRIO=99 in the unit")


def _memory(mapped_bytes: int | None) -> Check:
    limit = realtime.memory_limit()
    found = "no limit" if limit is None else f"up to {size(limit)}"
    short = limit is not None and mapped_bytes is not None and limit < mapped_bytes and os.geteuid() != 0
    advice = f"lock_memory needs {size(mapped_bytes or 0)}; memlock in limits.conf, or LimitMEMLOCK=" if short else ""
    return Check("locked memory", "allowed" if os.geteuid() == 0 else found, advice)


def _swap() -> Check:
    areas = len(_read(Path("/proc/swaps")).splitlines()) - 1
    if areas < 1:
        return Check("swap", "none")
    return Check("swap", f"{areas} areas", "what is not locked may be swapped out; lock_memory, mlockall, or swapoff")


def _huge_pages() -> Check:
    found = _read(HUGE_PAGES).partition("[")[2].partition("]")[0] or "none"
    advice = "khugepaged may hold up a page fault; write madvise there" if found == "always" else ""
    return Check("transparent huge pages", found, advice)


def _clock() -> Check:
    found = _read(CLOCK_SOURCE) or "unknown"
    advice = "" if found in QUICK_CLOCKS else "reading this clock is a system call, at each publish and take; use tsc"
    return Check("clock source", found, advice)
