"""The rules that make alarms out of telemetry. They compare real values with each other, and so fit any machine."""

from __future__ import annotations

from rtmw.demo.topics.telemetry import Alarm, Cpu, Process, Severity

MARGIN = 10.0
"""Percentage points above the mean at which the load is an alarm."""
LEAST_PERCENT = 1.0
"""A process below this is not busy, even if all others are idler."""


class LoadAlarm:
    """The processor load rose well above its own running mean. Raised once; armed again when it is back at the mean."""

    def __init__(self, weight: float = 0.01) -> None:
        self._weight = weight
        self._mean: float | None = None
        self._armed = True

    def check(self, cpu: Cpu) -> Alarm | None:
        """The alarm that this reading raises, if any."""
        mean = cpu.percent if self._mean is None else self._mean
        self._mean = mean + self._weight * (cpu.percent - mean)
        if cpu.percent <= mean:
            self._armed = True
        if not self._armed or cpu.percent <= mean + MARGIN:
            return None
        self._armed = False
        return Alarm(
            host=cpu.host,
            source="cpu",
            severity=Severity.WARNING,
            text=f"load is {cpu.percent:.0f} %, {cpu.percent - mean:.0f} points above its mean",
            value=cpu.percent,
            threshold=mean + MARGIN,
        )


class BusiestAlarm:
    """Another process than before takes the most processor time."""

    def __init__(self) -> None:
        self._percent: dict[int, float] = {}
        self._busiest: int | None = None

    def check(self, row: Process) -> Alarm | None:
        """The alarm that this row of the process table raises, if any."""
        self._percent[row.pid] = row.cpu_percent
        before = self._percent.get(self._busiest, 0.0) if self._busiest is not None else 0.0
        if row.pid == self._busiest or row.cpu_percent <= max(before, LEAST_PERCENT):
            return None
        self._busiest = row.pid
        return Alarm(
            host=row.host,
            source="process",
            severity=Severity.NOTICE,
            text=f"busiest process is now {row.name} (pid {row.pid}) with {row.cpu_percent:.0f} % of a core",
            value=row.cpu_percent,
            threshold=before,
        )
