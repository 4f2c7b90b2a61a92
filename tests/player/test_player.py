"""The player: a thread without Python that publishes each cue at its time, and heeds commands at once."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import rtmw
from rtmw.player.feeder import CUE, Player

NO_LIMIT = 2**64 - 1
LEARNED = -1
BEGIN = 10**18
SECOND = 10**9
RELIABLE = int(rtmw.Reliability.RELIABLE)
AT_ONCE = 0.0


@pytest.fixture
def player(domain: rtmw.Domain) -> Iterator[Player]:
    made = Player(domain.id, NO_LIMIT, LEARNED)
    yield made
    made.close()


def cues(count: int, apart_ns: int = 0) -> tuple[Any, bytes]:
    """So many messages of eight bytes: their numbers."""
    made = np.zeros(count, np.dtype(CUE))
    made["log_ns"] = BEGIN + np.arange(count) * apart_ns
    made["position"], made["size"], made["priority"] = np.arange(count) * 8, 8, -1
    return made, np.arange(count, dtype="<u8").tobytes()


def fill(player: Player, count: int, apart_ns: int = 0) -> None:
    made, data = cues(count, apart_ns)
    take = player.clear(BEGIN)
    assert player.feed(take, made, [data], BEGIN)
    player.end(take)


def track(player: Player, reliability: int = RELIABLE) -> int:
    return player.track("t", None, reliability, 0, 64, 0, 0)


def wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.001)


def published(player: Player) -> int:
    return player.counters()[0][0]


def drain(player: Player) -> None:
    wait_until(lambda: player.wait(0.1))


def numbers(subscriber: rtmw.Subscriber[bytes]) -> list[int]:
    return [int.from_bytes(sample.value, "little") for sample in iter(subscriber.take, None)]


def subscriber(depth: int = 1000) -> rtmw.Subscriber[bytes]:
    return rtmw.Subscriber("t", reliability=rtmw.Reliability.RELIABLE, depth=depth)


def test_a_player_plays_nothing_before_it_is_told_to(player: Player) -> None:
    track(player)
    fill(player, 5)
    player.rate(AT_ONCE)
    assert not player.wait(0.05)
    assert published(player) == 0


def test_all_messages_come_in_order(player: Player) -> None:
    track(player)
    with subscriber() as taker:
        fill(player, 500, apart_ns=10_000)
        player.rate(1.0)
        player.pause(False)
        drain(player)
        assert numbers(taker) == list(range(500))


def test_no_message_comes_before_its_time(player: Player) -> None:
    track(player)
    fill(player, 20, apart_ns=5_000_000)
    player.rate(1.0)
    began = time.monotonic()
    player.pause(False)
    drain(player)
    assert time.monotonic() - began >= 19 * 0.005


def test_twice_the_rate_takes_half_the_time(player: Player) -> None:
    track(player)
    fill(player, 2, apart_ns=20 * SECOND)
    player.rate(200.0)
    began = time.monotonic()
    player.pause(False)
    drain(player)
    assert 0.1 <= time.monotonic() - began < 20


def test_how_late_each_message_was_is_counted(player: Player) -> None:
    track(player)
    fill(player, 50, apart_ns=100_000)
    player.rate(1.0)
    player.pause(False)
    drain(player)
    assert sum(count for _, _, count in player.timing()[0]) == 50


def test_a_pause_is_heeded_in_the_middle_of_a_long_wait(player: Player) -> None:
    track(player)
    fill(player, 2, apart_ns=3600 * SECOND)
    player.rate(1.0)
    player.pause(False)
    wait_until(lambda: published(player) == 1)
    player.pause(True)
    assert BEGIN <= player.position() < BEGIN + 3600 * SECOND
    assert published(player) == 1


def test_the_position_stands_still_during_a_pause_and_goes_on_from_there(player: Player) -> None:
    track(player)
    fill(player, 2, apart_ns=3600 * SECOND)
    player.rate(1.0)
    player.pause(False)
    wait_until(lambda: player.position() > BEGIN)
    player.pause(True)
    here = player.position()
    assert player.position() == here
    player.pause(False)
    wait_until(lambda: player.position() > here)


def test_a_new_rate_is_heeded_in_the_middle_of_a_long_wait(player: Player) -> None:
    track(player)
    fill(player, 2, apart_ns=3600 * SECOND)
    player.rate(1.0)
    player.pause(False)
    wait_until(lambda: published(player) == 1)
    player.rate(1e6)
    drain(player)
    assert published(player) == 2


def test_a_rate_so_low_that_nobody_lives_to_see_the_next_message_is_only_slow(player: Player) -> None:
    track(player)
    fill(player, 2, apart_ns=3600 * SECOND)
    player.rate(1e-300)
    player.pause(False)
    wait_until(lambda: published(player) == 1)
    assert not player.wait(0.05)
    player.pause(True)
    assert (published(player), player.position()) == (1, BEGIN)


def test_a_step_plays_the_next_message_and_no_other(player: Player) -> None:
    track(player)
    fill(player, 3, apart_ns=3600 * SECOND)
    player.rate(1.0)
    player.step()
    wait_until(lambda: published(player) == 1)
    player.step()
    wait_until(lambda: published(player) == 2)
    assert not player.wait(0.05)
    assert published(player) == 2
    assert player.position() == BEGIN + 3600 * SECOND


def test_a_full_reliable_subscriber_is_waited_for(player: Player) -> None:
    track(player)
    with subscriber(depth=4) as taker:
        fill(player, 40)
        player.rate(AT_ONCE)
        player.pause(False)
        wait_until(lambda: published(player) >= 4)
        assert not player.wait(0.05)
        got: list[int] = []
        end = time.monotonic() + 60
        while len(got) < 40 and time.monotonic() < end:
            got += numbers(taker)
        assert got == list(range(40))
        drain(player)


# Proves G169.
def test_a_pause_is_heeded_while_a_reliable_subscriber_is_full_and_nothing_is_lost(player: Player) -> None:
    track(player)
    with subscriber(depth=4) as taker:
        fill(player, 8)
        player.rate(AT_ONCE)
        player.pause(False)
        wait_until(lambda: published(player) >= 4)
        player.pause(True)
        got = numbers(taker)
        assert published(player) == len(got)
        player.pause(False)
        end = time.monotonic() + 60
        while len(got) < 8 and time.monotonic() < end:
            got += numbers(taker)
        assert got == list(range(8))


def test_a_limit_to_the_wait_is_kept_and_what_was_given_up_is_counted(domain: rtmw.Domain) -> None:
    player = Player(domain.id, 1000, LEARNED)
    track(player)
    with subscriber(depth=4):
        fill(player, 8)
        player.rate(AT_ONCE)
        player.pause(False)
        drain(player)
        published, _, expired, timed_out, exhausted, too_large, unheard, matched = player.counters()[0]
    assert (published, expired, timed_out, exhausted, too_large, unheard, matched) == (4, 0, 4, 0, 0, 0, 1)
    player.close()


def test_what_had_expired_when_it_was_recorded_is_not_published_but_counted(player: Player) -> None:
    track(player)
    made, data = cues(4)
    made["lifetime_ns"][:3] = -1
    take = player.clear(BEGIN)
    assert player.feed(take, made, [data], BEGIN)
    player.end(take)
    player.pause(False)
    drain(player)
    assert player.counters()[0][:3] == (1, 8, 3)


def test_a_message_larger_than_the_pool_is_counted_and_the_next_one_comes(player: Player) -> None:
    track(player)
    made, _ = cues(2)
    data = bytes(64 << 20)
    made["size"], made["position"] = (len(data), 8), 0
    take = player.clear(BEGIN)
    assert player.feed(take, made, [data], BEGIN)
    player.end(take)
    player.pause(False)
    drain(player)
    assert player.counters()[0][0] == 1
    assert player.counters()[0][5] == 1


def test_what_is_cleared_is_not_played_and_a_former_take_is_not_taken_any_more(player: Player) -> None:
    track(player)
    fill(player, 2, apart_ns=3600 * SECOND)
    player.rate(1.0)
    player.pause(False)
    wait_until(lambda: published(player) == 1)
    former = player.clear(BEGIN)
    take = player.clear(BEGIN + 5)
    made, data = cues(3)
    assert not player.feed(former, made, [data], BEGIN)
    assert player.feed(take, made, [data], BEGIN)
    player.end(former)
    assert not player.wait(0.0)
    player.end(take)
    drain(player)
    assert published(player) == 4


def test_the_clock_begins_anew_with_a_batch_that_says_so(player: Player) -> None:
    track(player)
    player.rate(1.0)
    take = player.clear(BEGIN)
    made, data = cues(2)
    made["log_ns"] = BEGIN + 3600 * SECOND
    assert player.feed(take, made, [data], BEGIN + 3600 * SECOND)
    made, data = cues(2)
    assert player.feed(take, made, [data], BEGIN)
    player.end(take)
    player.pause(False)
    drain(player)
    assert published(player) == 4


@pytest.mark.parametrize(
    ("field", "value"), [("track", 1), ("buffer", 1), ("position", 9), ("size", 2**63), ("priority", 8)]
)
def test_a_cue_that_leads_outside_is_refused(player: Player, field: str, value: int) -> None:
    track(player)
    made, data = cues(1)
    made[field] = value
    with pytest.raises(ValueError, match="cue 0 of 1"):
        player.feed(player.clear(BEGIN), made, [data], BEGIN)


def test_a_topic_that_cannot_be_is_named(player: Player) -> None:
    with pytest.raises(rtmw.RtmwError, match="topic name"):
        player.track("", None, 0, 0, 64, 0, 0)


def test_a_closed_player_says_so_and_closes_again(player: Player) -> None:
    player.close()
    player.close()
    with pytest.raises(rtmw.RtmwError, match="closed"):
        player.step()


def test_it_can_be_closed_in_the_middle_of_a_long_wait(player: Player) -> None:
    track(player)
    fill(player, 2, apart_ns=3600 * SECOND)
    player.rate(1.0)
    player.pause(False)
    wait_until(lambda: published(player) == 1)
    player.close()


class Told(Exception):
    """By a signal."""


def wait_for_a_signal(player: Player) -> None:
    """A wait of ten minutes, with a signal each 0.2 s; the first one that is noticed raises Told."""

    def tell(number: int, frame: object) -> None:
        if signal.setitimer(signal.ITIMER_REAL, 0)[1]:
            raise Told

    before = signal.signal(signal.SIGALRM, tell)
    signal.setitimer(signal.ITIMER_REAL, 0.2, 0.2)
    try:
        player.wait(600.0)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_a_signal_ends_a_wait(player: Player) -> None:
    began = time.monotonic()
    with pytest.raises(Told):
        wait_for_a_signal(player)
    assert time.monotonic() - began < 300
