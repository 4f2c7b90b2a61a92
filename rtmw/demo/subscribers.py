"""The subscribing processes: a display, a watchdog, alarms, asyncio, and a slow one on each reliability."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import rtmw
from rtmw.clock import CLOCK
from rtmw.demo.child import ended, report
from rtmw.demo.topics import Topic, telemetry
from rtmw.qos import Reliability

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
