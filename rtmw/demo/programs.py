"""The processes of the demonstration: four publish what they read of the machine a hundred times a second; the others
are a display, a watchdog, alarms, asyncio, and a slow one on each reliability.

The rules that make alarms out of readings compare real values with each other, and so fit any machine. What is recorded
on the other host has no lifetime, and is RELIABLE or rare: nothing of it may be missing.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import rtmw
from rtmw.clock import CLOCK
from rtmw.demo import host
from rtmw.demo.crew import ended, report, ticks
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


PATIENCE_S = 0.1
"""How long a wait may last before the end is looked for."""
DRAIN_S = 5.0
"""How long the rest of a queue may take; a hundred times more than it needs."""
TRAVEL_S = 2.0
"""When nothing has come from the other host for so long, nothing more is on its way."""
SLOW_S = 0.025
"""A slow subscriber works so long on a message: four times too long for a hundred a second."""


class Inlet:
    """A subscriber, and what its program saw: messages counted and latencies, from publishing to taking."""

    def __init__(self, number: int, topic: Topic[Any], **qos: Any) -> None:
        self.subscriber: rtmw.Subscriber[Any] = topic.subscriber(domain=number, **qos)
        self._topic = topic.name
        self._latencies_ns: list[int] = []
        self._silent = True
        self._silences = 0

    def note(self, sample: rtmw.Sample[Any]) -> Any:
        """Count a sample and give its value."""
        self._latencies_ns.append(CLOCK.wall_ns() - sample.source_time_ns)
        self._silent = False
        return sample.value

    def fall_silent(self) -> None:
        """The deadline passed. A silence counts once, however long it is, and not before the first message."""
        self._silences += not self._silent
        self._silent = True

    def finish(self, quiet_s: float = 0.0) -> dict[str, Any]:
        """Take what is left, now that nobody publishes any more, until nothing comes for so long; give the account."""
        last = CLOCK.monotonic()
        end = last + DRAIN_S + quiet_s
        while CLOCK.monotonic() < end:
            sample = self.subscriber.take()
            if sample is not None:
                self.note(sample)
                last = CLOCK.monotonic()
            elif self.subscriber.stats().waiting == 0 and CLOCK.monotonic() - last >= quiet_s:
                break
            else:
                time.sleep(0.01)
        stats = self.subscriber.stats()
        self.subscriber.close()
        account = {name: getattr(stats, name) for name in ("received", "missed", "expired", "thinned", "unmatched")}
        own = {"topic": self._topic, "seen": len(self._latencies_ns), "silences": self._silences}
        return {**own, "latency_us": self._percentiles(), **account}

    def _percentiles(self) -> list[float]:
        """50, 90 and 99 %, in microseconds; nothing without messages."""
        ordered = sorted(self._latencies_ns)
        return [ordered[min(len(ordered) - 1, len(ordered) * p // 100)] / 1000 for p in (50, 90, 99)] if ordered else []


def display(number: int) -> None:
    """Wants a reading every half second and no more, as a person does: the rest is thinned out for it."""
    _receive(Inlet(number, telemetry.CPU, min_interval=0.5))


def watchdog(number: int) -> None:
    """Wants to be told when no reading came for 50 ms: the machine, or the publisher, is stuck."""
    _receive(Inlet(number, telemetry.CPU, deadline=0.05))


def alarms(number: int) -> None:
    """Passes each alarm on to the parent."""
    inlet, end = Inlet(number, telemetry.ALARM), ended()
    report("ready")
    while not end.is_set():
        try:
            alarm = inlet.note(inlet.subscriber.receive(PATIENCE_S))
        except TimeoutError:
            continue
        report("alarm", text=alarm.text, severity=alarm.severity.name)
    report("done", accounts=[inlet.finish()])


def archive(number: int) -> None:
    """Runs on the other host. It wants every message, and gets it, or the publisher is told."""
    _receive(Inlet(number, telemetry.MEMORY, reliability=Reliability.RELIABLE, depth=64), quiet_s=TRAVEL_S)


def far_alarms(number: int) -> None:
    """Takes alarms on the other host, where nobody takes part in what happens here."""
    _receive(Inlet(number, telemetry.ALARM), quiet_s=TRAVEL_S)


def slow(number: int, reliability: Reliability) -> None:
    """Works too long on each message. What gives way is what its reliability says."""
    topics: dict[Reliability, Topic[Any]] = {
        Reliability.RELIABLE: telemetry.MEMORY,
        Reliability.ADAPTIVE: telemetry.NETWORK,
        Reliability.TIMELY: telemetry.PROCESS,
    }
    _receive(Inlet(number, topics[reliability], reliability=reliability, depth=8), work_s=SLOW_S)


def _receive(inlet: Inlet, work_s: float = 0.0, quiet_s: float = 0.0) -> None:
    end = ended()
    report("ready")
    while not end.is_set():
        try:
            inlet.note(inlet.subscriber.receive(PATIENCE_S))
        except TimeoutError:
            continue
        except rtmw.DeadlineMissed:
            inlet.fall_silent()
            continue
        end.wait(work_s)
    report("done", accounts=[inlet.finish(quiet_s)])


def asynchronous(number: int) -> None:
    """Two topics in one thread, on uvloop."""
    import uvloop

    uvloop.run(_asynchronous(number))


async def _asynchronous(number: int) -> None:
    inlets = [Inlet(number, telemetry.DISK), Inlet(number, telemetry.PROCESS)]
    loop, end = asyncio.get_running_loop(), asyncio.Event()
    ended(then=lambda: loop.call_soon_threadsafe(end.set))
    tasks = [asyncio.create_task(_follow(inlet)) for inlet in inlets]
    report("ready")
    await end.wait()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    report("done", accounts=[inlet.finish() for inlet in inlets])


async def _follow(inlet: Inlet) -> None:
    async for sample in inlet.subscriber:
        inlet.note(sample)


PUBLISHERS: dict[str, Callable[[int], None]] = {
    "cpu": cpu,
    "memory": memory,
    "devices": devices,
    "processes": processes,
}
SUBSCRIBERS: dict[str, Callable[[int], None]] = {
    "display": display,
    "watchdog": watchdog,
    "alarms": alarms,
    "asyncio": asynchronous,
    "slow-reliable": lambda number: slow(number, Reliability.RELIABLE),
    "slow-adaptive": lambda number: slow(number, Reliability.ADAPTIVE),
    "slow-timely": lambda number: slow(number, Reliability.TIMELY),
}
FAR: dict[str, Callable[[int], None]] = {
    "far-archive": archive,
    "far-alarms": far_alarms,
}
"""Roles of processes on the other host."""
ROLES = {**PUBLISHERS, **SUBSCRIBERS, **FAR}
