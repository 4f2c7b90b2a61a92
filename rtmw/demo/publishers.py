"""The four publishing processes: each reads the machine a hundred times a second.

The rules that make alarms out of it compare real values with each other, and so fit any machine. What is recorded on
the other host has no lifetime, and is RELIABLE or rare: nothing of it may be missing.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import rtmw
from rtmw.demo import host
from rtmw.demo.child import ended, report, ticks
from rtmw.demo.topics import Topic, telemetry
from rtmw.demo.topics.telemetry import Alarm, Cpu, Process, Severity
from rtmw.qos import Reliability

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


MEET_S = 30.0
"""How long the other host may take to be found."""


class Outlets:
    """Publishers that count what they accepted and what they refused, and report it at the end."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._stack = ExitStack()
        self._publishers: dict[str, rtmw.Publisher[Any]] = {}
        self._counts: dict[str, dict[str, int]] = {}

    def __enter__(self) -> Outlets:
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def open(self, topic: Topic[Any], readers: int = 0, **qos: Any) -> None:
        """Open a publisher, and wait until so many subscribers are there: the node is one, if somebody far reads."""
        self._publishers[topic.name] = self._stack.enter_context(topic.publisher(domain=self._number, **qos))
        self._counts[topic.name] = {"published": 0, "refused": 0}
        self._publishers[topic.name].wait_for_subscribers(readers, timeout=MEET_S)

    def publish(self, topic: Topic[Any], value: Any) -> None:
        """Publish, unless there is nothing."""
        if value is not None:
            accepted = self._publishers[topic.name].publish(value)
            self._counts[topic.name]["published" if accepted else "refused"] += 1

    def finish(self) -> None:
        """Report the counts."""
        report("done", topics=self._counts)


def cpu(number: int) -> None:
    """Processor load, and an alarm when it rises above its mean."""
    meter, alarm, end = host.CpuMeter(), LoadAlarm(), ended()
    with Outlets(number) as out:
        out.open(telemetry.CPU, readers=3, reliability=Reliability.RELIABLE, lifetime=None)
        out.open(telemetry.ALARM, readers=2, priority=7)
        report("ready")
        meter.read()
        end.wait(host.WINDOW_S)  # the first share needs a whole window, too
        for _ in ticks(end):
            reading = meter.read()
            out.publish(telemetry.CPU, reading)
            out.publish(telemetry.ALARM, alarm.check(reading))
        out.finish()


def memory(number: int) -> None:
    """Memory, RELIABLE: it waits a little for the slow reader, and then knows that the message was refused."""
    end = ended()
    with Outlets(number) as out:
        out.open(telemetry.MEMORY, readers=2, reliability=Reliability.RELIABLE, lifetime=None, max_blocking=0.002)
        report("ready")
        for _ in ticks(end):
            out.publish(telemetry.MEMORY, host.memory())
        out.finish()


def devices(number: int) -> None:
    """Disks and networks."""
    end = ended()
    with Outlets(number) as out:
        out.open(telemetry.DISK)
        out.open(telemetry.NETWORK, reliability=Reliability.ADAPTIVE)
        report("ready")
        for _ in ticks(end):
            for disk in host.disks():
                out.publish(telemetry.DISK, disk)
            for network in host.networks():
                out.publish(telemetry.NETWORK, network)
        out.finish()


def processes(number: int) -> None:
    """A row of the process table at a time, and an alarm when another process is the busiest."""
    rows, alarm, end = host.process_table(), BusiestAlarm(), ended()
    with Outlets(number) as out:
        out.open(telemetry.PROCESS)
        out.open(telemetry.ALARM, readers=2, priority=7)
        report("ready")
        for _ in ticks(end):
            row = next(rows)
            out.publish(telemetry.PROCESS, row)
            out.publish(telemetry.ALARM, alarm.check(row))
        out.finish()
