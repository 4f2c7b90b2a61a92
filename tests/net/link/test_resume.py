"""A cut at any byte: what is RELIABLE comes once and in order; what is not is counted."""

from __future__ import annotations

import random
import threading

import pytest

import rtmw
from rtmw import Reliability, RtmwError
from tests.net.link.ends import PATIENCE, Ends, Wire, wait_until

MESSAGES = 300


def payload_of(number: int, chance: random.Random) -> bytes:
    """Its number, and more or less behind it: some in one frame, some in several."""
    return number.to_bytes(4, "little") + bytes(chance.choice((0, 50, 3_000, 16_300, 40_000, 150_000)))


def cuts(chance: random.Random) -> tuple[Wire, Wire]:
    """Connections that end after some bytes: in heads, in chunks, and in the handshake after the cut."""
    return Wire(chance.choice((0, 7, 100, 5_000, 300_000, 2_000_000))), Wire(chance.randrange(3_000_000))


def join_again(ends: Ends, chance: random.Random, is_last: bool) -> None:
    for _ in range(20):
        try:
            return ends.join(*((None, None) if is_last else cuts(chance)))
        except (OSError, RtmwError, AssertionError):  # cut in the handshake: the dialler tries again
            continue
    raise AssertionError("no connection came about")


@pytest.mark.parametrize("fixture", ["ends", "tls_ends"])
@pytest.mark.parametrize("seed", range(3))
def test_a_cut_at_any_byte_loses_and_doubles_nothing(seed: int, fixture: str, request: pytest.FixtureRequest) -> None:
    ends: Ends = request.getfixturevalue(fixture)
    chance = random.Random(seed)
    outbound, inbound = ends.route("all", window=300_000, depth=1000)
    payloads = [payload_of(number, chance) for number in range(MESSAGES)]
    got: list[int] = []

    def publish() -> None:
        with rtmw.Publisher(
            "all", domain=ends.here.domain, reliability=Reliability.RELIABLE, max_blocking=PATIENCE
        ) as publisher:
            for number, payload in enumerate(payloads):
                assert publisher.publish(payload, priority=number % 8)
            wait_until(outbound.delivered)

    with rtmw.Subscriber(
        "all", domain=ends.there.domain, reliability=Reliability.RELIABLE, depth=1000, lease=PATIENCE
    ) as subscriber:
        thread = threading.Thread(target=publish)
        thread.start()
        for attempt in range(25):
            downs = len([1 for one in ends.here.look() if one[0] == "down"])
            join_again(ends, chance, attempt == 24)
            while len(got) < MESSAGES:
                got += [int.from_bytes(one.data[:4], "little") for one in subscriber.take_many(100)]
                if attempt < 24 and len([1 for one in ends.here.look() if one[0] == "down"]) > downs:
                    break
                ends.there.look()
        thread.join()
    assert sorted(got) == list(range(MESSAGES))
    for band in range(8):  # in order within a band
        assert [number for number in got if number % 8 == band] == list(range(band, MESSAGES, 8))
    counters = inbound.counters()
    assert (counters["received"], counters["lost"]) == (MESSAGES, 0)
    assert outbound.counters()["resent"] > 0
    assert all(code in (0, 1, 4) for kind, code, _ in ends.here.look() + ends.there.look() if kind == "down")


def test_controls_are_sent_again_after_a_cut(ends: Ends) -> None:
    chance = random.Random(4)
    for attempt in range(10):
        for number in range(100):
            ends.here.line.say(b"%d %d" % (attempt, number) + bytes(500))
        ends.there.look()  # makes room for more
        ends.join(Wire(chance.randrange(40_000)) if attempt < 9 else None)
        if attempt < 9:
            ends.here.await_news("down", attempt + 1)
    said = [b"%d %d" % (attempt, number) + bytes(500) for attempt in range(10) for number in range(100)]

    def heard() -> list[bytes]:
        return [data for kind, _, data in ends.there.look() if kind == "control"]

    wait_until(lambda: len(heard()) >= len(said))
    assert heard() == said


def test_what_is_timely_is_not_sent_again_and_is_counted(ends: Ends) -> None:
    _, inbound = ends.route("newest", Reliability.TIMELY, window=64 << 20)
    ends.join()
    ends.up()
    with (
        rtmw.Publisher("newest", domain=ends.here.domain, reliability=Reliability.TIMELY) as publisher,
        rtmw.Subscriber("newest", domain=ends.there.domain, reliability=Reliability.TIMELY) as subscriber,
    ):
        publisher.publish(b"first")
        assert bytes(subscriber.receive(timeout=PATIENCE).data) == b"first"
        ends.join(None, Wire(cut_after=100_000))
        ends.up(2)
        publisher.publish(bytes(1 << 20))  # is cut off
        ends.here.await_news("down")
        ends.join()
        ends.up(3)
        publisher.publish(b"last")
        assert bytes(subscriber.receive(timeout=PATIENCE).data) == b"last"
    assert inbound.counters()["lost"] == 1


def test_what_expires_in_a_cut_is_not_sent_and_counts_as_expired(ends: Ends) -> None:
    outbound, inbound = ends.route("short")
    ends.join()
    ends.up()
    with (
        rtmw.Publisher("short", domain=ends.here.domain, reliability=Reliability.RELIABLE) as publisher,
        rtmw.Subscriber("short", domain=ends.there.domain, reliability=Reliability.RELIABLE) as subscriber,
    ):
        ends.join(None, Wire(cut_after=100_000))
        ends.up(2)
        publisher.publish(bytes(1 << 20), lifetime=0.2)
        ends.here.await_news("down")
        with rtmw.Subscriber("clock", domain=ends.here.domain) as nothing, pytest.raises(TimeoutError):
            nothing.receive(timeout=0.3)  # the lifetime passes
        ends.join()
        publisher.publish(b"after")
        assert bytes(subscriber.receive(timeout=PATIENCE).data) == b"after"
    wait_until(outbound.delivered)
    assert (inbound.counters()["expired"], inbound.counters()["lost"]) == (1, 0)
