"""The thread that takes messages from the bus into chunks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import rtmw
from rtmw.recorder.sources import Collector
from rtmw.recording._mcap import ChunkBuilder
from rtmw.recording.contents import Cause
from rtmw.types import resolve
from tests.child import Spawn
from tests.wall_clock import WallClock, wall_clock

LONG_S = 60.0
CHUNK = 4096
TYPES = 256
"""Of a region, at a time."""


class Fixture:
    """A collector with a few chunks that come back only when the test says so."""

    def __init__(self, domain: int, chunks: int = 4, budget: int = 1 << 20, age_ns: int = 10**12) -> None:
        self.core = Collector(domain, age_ns, budget)
        self.chunks = {chunk.address: chunk for chunk in (ChunkBuilder(CHUNK) for _ in range(chunks))}
        for address in self.chunks:
            self.core.lend(address)

    def add(self, topic: str, reliability: rtmw.Reliability = rtmw.Reliability.ADAPTIVE, is_new: bool = False) -> int:
        return self.core.add(topic, int(reliability), 1000, 1000 if is_new else 0, is_new)

    def next(self) -> ChunkBuilder:
        address = self.core.next(int(LONG_S * 1e9))
        assert address is not None
        return self.chunks[address]

    def give(self, chunk: ChunkBuilder) -> None:
        chunk.clear()
        self.core.give(chunk.address)

    def seen(self, source: int = 0) -> dict[str, int]:
        taken, _, *missing = self.core.counters()[source]
        return {
            "taken": taken,
            **{cause.name: count for cause, count in zip(Cause, (*missing, 0), strict=True) if count},
        }

    def until(self, condition: Callable[[], bool]) -> None:
        until = time.monotonic() + LONG_S
        while not condition():
            assert time.monotonic() < until, self.core.counters()
            time.sleep(0.001)


@pytest.fixture
def collector(domain: rtmw.Domain) -> Iterator[Fixture]:
    made = Fixture(domain.id)
    yield made
    made.core.close()


def rows_of(chunk: ChunkBuilder) -> int:
    return len(chunk)


def test_messages_come_in_chunks_in_their_order(domain: rtmw.Domain, collector: Fixture) -> None:
    collector.add("a")
    with rtmw.Publisher("a", domain=domain) as publisher:
        for i in range(150):
            publisher.publish(b"%03d" % i * 20)
    found: list[bytes] = []
    collector.core.stop()
    while (address := collector.core.next(int(LONG_S * 1e9))) is not None:
        chunk = collector.chunks[address]
        data, at = bytes(memoryview(chunk)), 0
        for _ in range(rows_of(chunk)):
            found.append(data[at + 31 : at + 91])
            at += 91
        collector.give(chunk)
    assert found == [b"%03d" % i * 20 for i in range(150)]


def test_nobody_waits_while_no_chunk_is_given_back(domain: rtmw.Domain, collector: Fixture) -> None:
    collector.add("a")
    with rtmw.Publisher("a", domain=domain, reliability=rtmw.Reliability.RELIABLE, max_blocking=0.0) as publisher:
        for i in range(500):
            assert publisher.publish(bytes(100)), f"message {i} was refused"
    collector.until(lambda: sum(collector.seen().values()) == 500)
    seen = collector.seen()
    fitting = CHUNK // 131
    assert (seen["taken"], seen["OVERFLOWED"]) == (4 * fitting, 500 - 4 * fitting)


def test_a_reliable_source_makes_its_publisher_wait_for_a_chunk(domain: rtmw.Domain, collector: Fixture) -> None:
    collector.core.add("a", int(rtmw.Reliability.RELIABLE), 10, 0, False)
    refusals = 0
    with rtmw.Publisher("a", domain=domain, reliability=rtmw.Reliability.RELIABLE, max_blocking=0.001) as publisher:
        for _ in range(200):
            until = time.monotonic() + LONG_S
            while not publisher.publish(bytes(1000)):
                assert time.monotonic() < until
                refusals += 1
                address = collector.core.next(0)
                if address is not None:
                    collector.give(collector.chunks[address])
    assert refusals > 0
    collector.core.stop()
    while (address := collector.core.next(int(LONG_S * 1e9))) is not None:
        collector.give(collector.chunks[address])
    assert collector.seen() == {"taken": 200}


def test_what_is_missing_is_told_once(domain: rtmw.Domain, collector: Fixture) -> None:
    collector.add("a")
    with rtmw.Publisher("a", domain=domain) as publisher:
        for _ in range(500):
            publisher.publish(bytes(100))
        collector.until(lambda: sum(collector.seen().values()) == 500)
        told = collector.core.missing()
        expected = 500 - 4 * (CHUNK // 131)
        while sum(row[3] for row in told) < expected:
            told += collector.core.missing()
    assert {(source, channel, cause) for source, channel, cause, _ in told} == {(0, 1, Cause.OVERFLOWED)}
    assert sum(row[3] for row in told) == expected
    assert collector.core.missing() == []


def test_each_type_of_a_topic_has_a_channel(domain: rtmw.Domain, collector: Fixture) -> None:
    first, second = collector.add("a"), collector.add("b")
    for topic, type, value in (("a", bytes, b"1"), ("a", "<f8", 1.0), ("b", bytes, b"2")):
        import numpy as np

        kind = bytes if type is bytes else np.dtype(type)
        with rtmw.Publisher(topic, kind, domain=domain) as publisher:
            publisher.publish(value if type is bytes else np.array(value))
        collector.until(lambda: collector.seen(first)["taken"] + collector.seen(second)["taken"] > 0)
    collector.core.stop()
    chunk = collector.next()
    channels = [number for number, _, _ in chunk.channels()]
    assert [collector.core.channel(number)[0] for number in channels].count(first) == 2
    assert len({collector.core.channel(number) for number in channels}) == 3


# Proves G79.
def test_a_type_that_is_gone_before_its_chunk_is_written_is_described(domain: rtmw.Domain) -> None:
    """One that comes again, in another slot, has the channel that it had."""
    import numpy as np

    made = Fixture(domain.id, chunks=32)
    made.add("a")

    def publish(number: int) -> None:
        before, type = made.seen()["taken"], np.dtype([(f"f{number}", "f8")])
        with rtmw.Publisher("a", type, domain=domain) as publisher:
            assert publisher.publish(np.array((1.0,), type))
        made.until(lambda: made.seen()["taken"] > before)

    for number in (*range(TYPES + 1), 0):
        publish(number)
    described = [made.core.channel(number + 1)[2] for number in range(TYPES + 1)]
    assert described == [resolve(np.dtype([(f"f{number}", "f8")])).description for number in range(TYPES + 1)]
    with pytest.raises(KeyError):
        made.core.channel(TYPES + 2)
    made.core.close()


def test_a_chunk_is_closed_when_it_is_old(domain: rtmw.Domain) -> None:
    made = Fixture(domain.id, age_ns=1)
    made.add("a")
    with rtmw.Publisher("a", domain=domain) as publisher:
        publisher.publish(b"1")
        assert rows_of(made.next()) == 1
    made.core.close()


def test_a_demand_closes_the_open_chunk(domain: rtmw.Domain, collector: Fixture) -> None:
    collector.add("a")
    with rtmw.Publisher("a", domain=domain) as publisher:
        publisher.publish(b"1")
        collector.until(lambda: collector.seen()["taken"] == 1)
        number = collector.core.cut()
        assert rows_of(collector.next()) == 1
        collector.until(lambda: collector.core.state()[2] == number)


def test_while_paused_messages_are_taken_and_counted(domain: rtmw.Domain, collector: Fixture) -> None:
    collector.add("a")
    with rtmw.Publisher("a", domain=domain) as publisher:
        collector.core.pause(True)
        publisher.publish(b"1")
        collector.until(lambda: collector.seen() == {"taken": 0, "PAUSED": 1})
        collector.core.pause(False)
        publisher.publish(b"2")
        collector.until(lambda: collector.seen() == {"taken": 1, "PAUSED": 1})


def test_of_a_new_topic_what_came_before_is_early(domain: rtmw.Domain, collector: Fixture) -> None:
    with rtmw.Publisher("a", domain=domain, depth=3) as publisher:
        with rtmw.Subscriber("a", domain=domain):
            pass
        for _ in range(1000):
            publisher.publish(bytes(3000))
        collector.add("a", is_new=True)
        publisher.publish(b"last")
        collector.until(lambda: sum(collector.seen().values()) == 1001)
    assert collector.seen()["EARLY"] > 0


# Proves G162.
def test_what_expired_or_was_dropped_before_the_first_message_of_a_new_topic_is_not_early(
    domain: rtmw.Domain, collector: Fixture
) -> None:
    collector.add("a", is_new=True)
    with rtmw.Publisher("a", domain=domain) as publisher:
        for priority in range(4):
            for _ in range(100):
                publisher.publish(b"gone", lifetime=1e-9, priority=priority)
            publisher.publish(b"here", priority=priority)
        collector.until(lambda: collector.seen()["taken"] == 4)
    assert collector.seen() == {"taken": 4, "EXPIRED": 400}


# Proves G162.
def test_what_is_missed_hides_nothing_that_is_early(domain: rtmw.Domain, collector: Fixture) -> None:
    with rtmw.Publisher("a", domain=domain, reliability=rtmw.Reliability.TIMELY, depth=3) as publisher:
        with rtmw.Subscriber("a", domain=domain):
            pass
        for _ in range(1000):
            publisher.publish(bytes(3000))
        collector.core.add("a", int(rtmw.Reliability.ADAPTIVE), 1, 1000, True)
        collector.until(lambda: collector.seen()["taken"] > 0)
        collector.until(lambda: sum(collector.seen().values()) == 1000)
    seen = collector.seen()
    assert seen["EARLY"] > 0
    assert seen["MISSED"] > 0


# Proves G162.
def test_messages_of_an_earlier_life_of_its_slot_are_not_early(domain: rtmw.Domain, collector: Fixture) -> None:
    limit = len(rtmw.shm.topics(domain.region)) + 1
    for number in range(5000):
        with rtmw.Publisher(f"before/{number}", domain=domain, depth=1) as publisher:
            publisher.publish(b"1")
        if len(rtmw.shm.topics(domain.region)) < limit:
            break
        limit = len(rtmw.shm.topics(domain.region)) + 1
    else:
        pytest.fail("no topic gave its slot back")
    with rtmw.Publisher("after", domain=domain) as publisher:
        collector.add("after", is_new=True)
        publisher.publish(b"1")
        collector.until(lambda: collector.seen()["taken"] == 1)
    assert collector.seen() == {"taken": 1}


COLLECTS = """
    import sys, rtmw
    from tests.recorder.test_collector import Fixture, rows_of
    domain = rtmw.Domain({domain})
    collector = Fixture(domain.id)
    collector.add("a")
    with rtmw.Publisher("a", domain=domain) as publisher:
        for taken in (1, 2):
            input()
            publisher.publish(b"1")
            collector.until(lambda: collector.seen()["taken"] == taken)
            print(flush=True)
    collector.core.stop()
    before, after = collector.next(), collector.next()
    print(rows_of(before), rows_of(after), before.start_ns - after.start_ns, collector.core.state()[3], flush=True)
    collector.core.close()
"""


@pytest.fixture
def clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> WallClock:
    """That of programs which are spawned; to be asked for before `spawn`."""
    made = wall_clock(tmp_path)
    for name, value in made.environment.items():
        monkeypatch.setenv(name, value)
    return made


def test_when_the_wall_clock_goes_back_a_chunk_ends(clock: WallClock, domain: rtmw.Domain, spawn: Spawn) -> None:
    child = spawn(COLLECTS.format(domain=domain.id))
    for seconds in (0, -3600):
        clock.set_by(seconds)
        child.send()
        child.line(LONG_S)
    first, second, back_ns, jumps = map(int, child.line(LONG_S).split())
    assert (first, second, jumps) == (1, 1, 1)
    assert back_ns > 3500 * 10**9
    assert child.wait(LONG_S) == 0


def test_messages_larger_than_a_chunk_are_bounded_by_the_budget(domain: rtmw.Domain) -> None:
    made = Fixture(domain.id, budget=300_000)
    made.add("a")
    with rtmw.Publisher("a", domain=domain) as publisher:
        for count in range(1, 4):
            publisher.publish(bytes(200_000))
            made.until(lambda count=count: sum(made.seen().values()) == count)  # type: ignore[misc]
        assert made.seen() == {"taken": 1, "OVERFLOWED": 2}
        made.core.cut()
        made.give(made.next())
        publisher.publish(bytes(200_000))
        made.until(lambda: sum(made.seen().values()) == 4)
        assert made.seen() == {"taken": 2, "OVERFLOWED": 2}
    made.core.close()


def test_misuse_of_the_collector_is_said_in_words(domain: rtmw.Domain, collector: Fixture) -> None:
    with pytest.raises(rtmw.RtmwError, match="topic name"):
        collector.add("")
    with pytest.raises(KeyError, match="no channel 7"):
        collector.core.channel(7)
    for misused in (
        lambda: collector.core.adapt(7, 1),
        lambda: collector.core.leave(7),
        lambda: collector.core.resume(7, 1, 1, False),
    ):
        with pytest.raises(KeyError, match="no source 7"):
            misused()
    collector.core.close()
    with pytest.raises(rtmw.RtmwError, match="is closed"):
        collector.core.state()
    rtmw.Domain.unlink(domain.id)
    with pytest.raises(rtmw.RtmwError, match="cannot attach"):
        Collector(domain.id, 1, 1)


FINALIZERS = """
    import faulthandler, gc, threading
    import rtmw
    from rtmw.recorder.sources import Collector

    faulthandler.dump_traceback_later({patience}, exit=True)
    domain = rtmw.Domain({domain})
    core = Collector({domain}, 10**12, 1 << 20)
    core.pause(True)
    publishers = [rtmw.Publisher(f"t{{number}}", domain=domain) for number in range(40)]
    for number in range(40):
        core.add(f"t{{number}}", int(rtmw.Reliability.ADAPTIVE), 64, 0, True)
    left = 200

    class Knot:
        def __init__(self):
            self.knot = self

        def __del__(self):
            global left
            left -= 1
            if left > 0:
                Knot()
                look = threading.Thread(target=core.state)
                look.start()
                look.join()

    told = set()
    while len(told) < len(publishers) or left > 0:
        for publisher in publishers:
            publisher.publish(b"not recorded")
        Knot()
        gc.set_threshold(1, 1, 1)
        told.update(row[0] for row in core.missing())
        gc.set_threshold(10_000)
    print(len(told))
"""


# Proves G168.
def test_finalizers_that_run_while_missing_messages_are_told_stop_nobody(domain_id: int, spawn: Spawn) -> None:
    child = spawn(FINALIZERS.format(domain=domain_id, patience=LONG_S / 2))
    assert child.line(LONG_S) == "40"
    assert child.wait(LONG_S) == 0
