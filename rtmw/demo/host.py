"""The state of this machine, read with psutil, in the types of `topics.telemetry`."""

from __future__ import annotations

import platform
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

import psutil

from rtmw.clock import CLOCK, Clock
from rtmw.demo.topics.telemetry import Cpu, Disk, Memory, Network, Process

HOST = platform.node()
WINDOW_S = 0.5
"""The kernel counts processor time in hundredths of a second: a share needs a window of many of them."""


class CpuMeter:
    """Load over the last half second, anew at every reading; over more, where the reading before is older."""

    def __init__(self, clock: Clock = CLOCK) -> None:
        self._clock = clock
        self._times: deque[tuple[float, list[Any]]] = deque()

    def read(self) -> Cpu:
        """The load now."""
        now_s, cores = self._clock.monotonic(), psutil.cpu_times(percpu=True)
        self._times.append((now_s, cores))
        while len(self._times) > 2 and now_s - self._times[1][0] >= WINDOW_S:
            self._times.popleft()
        before = self._times[0][1]
        return Cpu(
            host=HOST,
            percent=share(before, cores, ("user", "nice", "system", "irq", "softirq")),
            user_percent=share(before, cores, ("user", "nice")),
            system_percent=share(before, cores, ("system", "irq", "softirq")),
            cores=[
                100.0 - share([old], [new], ("idle", "iowait", "steal"))
                for old, new in zip(before, cores, strict=False)
            ],
            load_1_min=psutil.getloadavg()[0],
            context_switches=psutil.cpu_stats().ctx_switches,
        )


def share(before: Iterable[Any], after: Iterable[Any], kinds: tuple[str, ...]) -> float:
    """Percentage of the time between two readings that went to these kinds of work, over all cores given."""
    part = total = 0.0
    for old, new in zip(before, after, strict=False):
        total += sum(new) - sum(old)
        part += sum(getattr(new, kind, 0.0) - getattr(old, kind, 0.0) for kind in kinds)
    return min(100.0, max(0.0, 100.0 * part / total)) if total > 0 else 0.0


def memory() -> Memory:
    """Main memory and swap now."""
    main, swap = psutil.virtual_memory(), psutil.swap_memory()
    return Memory(
        host=HOST,
        total=main.total,
        available=main.available,
        used=main.used,
        cached=getattr(main, "cached", 0),
        swap_total=swap.total,
        swap_used=swap.used,
    )


def disks() -> list[Disk]:
    """Counters of the block devices that have done anything."""
    counters: dict[str, Any] = psutil.disk_io_counters(perdisk=True) or {}
    return [
        Disk(
            host=HOST,
            device=name,
            reads=io.read_count,
            writes=io.write_count,
            read_bytes=io.read_bytes,
            written_bytes=io.write_bytes,
            busy_ms=getattr(io, "busy_time", 0),
        )
        for name, io in counters.items()
        if io.read_count or io.write_count
    ]


def networks() -> list[Network]:
    """Counters of the network interfaces."""
    return [
        Network(
            host=HOST,
            link=name,
            sent_bytes=io.bytes_sent,
            received_bytes=io.bytes_recv,
            sent_packets=io.packets_sent,
            received_packets=io.packets_recv,
            errors=io.errin + io.errout,
            drops=io.dropin + io.dropout,
        )
        for name, io in psutil.net_io_counters(pernic=True).items()
    ]


def process_table() -> Iterator[Process]:
    """Rows of the process table, one at a time, round and round, for ever."""
    before: dict[int, tuple[float, float]] = {}
    while True:
        pids = psutil.pids()
        before = {pid: before[pid] for pid in pids if pid in before}
        for pid in pids:
            row = _row(pid, before)
            if row is not None:
                yield row


def _row(pid: int, before: dict[int, tuple[float, float]]) -> Process | None:
    """None for a process that has ended meanwhile, or that may not be looked at."""
    try:
        process = psutil.Process(pid)
        with process.oneshot():
            times = process.cpu_times()
            row = Process(
                host=HOST,
                pid=pid,
                name=process.name(),
                state=process.status(),
                cpu_seconds=times.user + times.system,
                resident_bytes=process.memory_info().rss,
                threads=process.num_threads(),
            )
    except psutil.Error:
        return None
    now_s = CLOCK.monotonic()
    if pid in before and now_s > before[pid][0]:
        row.cpu_percent = max(0.0, 100.0 * (row.cpu_seconds - before[pid][1]) / (now_s - before[pid][0]))
    before[pid] = (now_s, row.cpu_seconds)
    return row
