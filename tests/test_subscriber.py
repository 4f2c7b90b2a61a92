"""Taking and receiving: what never waits, what waits, and what ends a wait."""

from __future__ import annotations

import signal
import threading
from typing import Any

import pytest

import rtmw
from tests.bus import LONG, Reading, eventually, taken
from tests.child import Child, Spawn
from topics import river

pytestmark = pytest.mark.usefixtures("domain")

RECEIVER = """
    import rtmw
    subscriber = rtmw.Subscriber("t")
    print("ready")
    print(subscriber.receive({timeout}).value.decode())
    """


def receiver(spawn: Spawn, timeout: str = "") -> Child:
    """A child that waits in receive() by now, or will at once."""
    child = spawn(RECEIVER.format(timeout=timeout))
    assert child.line() == "ready"
    eventually(lambda: sleeps(child))
    return child


def sleeps(child: Child) -> bool:
    with open(f"/proc/{child.pid}/stat") as stat:
        return stat.read().rpartition(")")[2].split()[0] == "S"


def test_take_never_waits() -> None:
    subscriber = rtmw.Subscriber("t")
    assert subscriber.take() is None
    assert subscriber.take_many(10) == []


def test_take_many_gives_at_most_its_limit() -> None:
    publisher, subscriber = rtmw.Publisher("t"), rtmw.Subscriber("t")
    publisher.publish_many([b"%d" % number for number in range(5)])
    assert subscriber.take_many(0) == []
    assert [sample.value for sample in subscriber.take_many(3)] == [b"0", b"1", b"2"]
    assert [sample.value for sample in subscriber.take_many(3)] == [b"3", b"4"]
    assert subscriber.take_many(3) == []


def test_a_subscriber_gets_what_is_published_after_it_came() -> None:
    publisher = rtmw.Publisher("t")
    publisher.publish(b"before")
    subscriber = rtmw.Subscriber("t")
    publisher.publish(b"after")
    assert taken(subscriber) == [b"after"]


# Proves P9.
def test_every_subscriber_gets_every_message() -> None:
    publisher = rtmw.Publisher("t")
    subscribers = [rtmw.Subscriber("t") for _ in range(5)]
    publisher.publish_many([b"a", b"b"])
    assert [taken(subscriber) for subscriber in subscribers] == [[b"a", b"b"]] * 5


def test_receive_gives_what_is_there_without_waiting() -> None:
    publisher, subscriber = rtmw.Publisher("t"), rtmw.Subscriber("t")
    publisher.publish(b"x")
    assert subscriber.receive(timeout=0).value == b"x"


@pytest.mark.parametrize("timeout", [0, 0.0, 0.03])
def test_receive_raises_timeout_error_when_nothing_comes(timeout: float) -> None:
    with pytest.raises(TimeoutError, match="'t'"):
        rtmw.Subscriber("t").receive(timeout)


@pytest.mark.parametrize("timeout", [-1, float("nan"), "soon"])
def test_an_impossible_timeout_is_refused(timeout: float) -> None:
    with pytest.raises((ValueError, TypeError)):
        rtmw.Subscriber("t").receive(timeout)


@pytest.mark.parametrize("spin", [None, 0, 0.001])
@pytest.mark.parametrize("timeout", [None, LONG])
def test_receive_waits_for_the_next_message(spin: float | None, timeout: float | None) -> None:
    publisher, subscriber = rtmw.Publisher("t"), rtmw.Subscriber("t", spin=spin)
    timer = threading.Timer(0.02, publisher.publish, [b"x"])
    timer.start()
    assert subscriber.receive(timeout).value == b"x"
    timer.join()


def test_a_waiting_receive_lets_other_threads_run() -> None:
    publisher, subscriber = rtmw.Publisher("t"), rtmw.Subscriber("t", spin=0)
    got: list[bytes] = []
    thread = threading.Thread(target=lambda: got.append(subscriber.receive().value))
    thread.start()
    for _ in range(1000):
        assert publisher.subscribers == 1
    assert got == []
    publisher.publish(b"x")
    thread.join(LONG)
    assert got == [b"x"]


def test_iteration_gives_each_message_until_the_subscriber_is_closed() -> None:
    publisher, subscriber = rtmw.Publisher("t"), rtmw.Subscriber("t")
    got: list[bytes] = []

    def iterate() -> None:
        for sample in subscriber:
            got.append(sample.value)

    thread = threading.Thread(target=iterate)
    thread.start()
    publisher.publish_many([b"a", b"b"])
    eventually(lambda: len(got) == 2)
    subscriber.close()
    thread.join(LONG)
    assert not thread.is_alive()
    assert got == [b"a", b"b"]
    assert list(subscriber) == []


def test_closing_wakes_whoever_waits() -> None:
    subscriber = rtmw.Subscriber("t")
    ends: list[str] = []

    def wait() -> None:
        with pytest.raises(rtmw.ClosedError):
            subscriber.receive()
        ends.append("closed")

    threads = [threading.Thread(target=wait) for _ in range(3)]
    for thread in threads:
        thread.start()
    subscriber.close()
    for thread in threads:
        thread.join(LONG)
    assert ends == ["closed"] * 3


def test_a_closed_subscriber_says_so() -> None:
    subscriber = rtmw.Subscriber("t")
    subscriber.close()
    subscriber.close()
    assert subscriber.closed
    assert "closed" in repr(subscriber)
    for use in (
        subscriber.take,
        lambda: subscriber.take_many(1),
        lambda: subscriber.receive(0),
        subscriber.fileno,
        subscriber.stats,
    ):
        with pytest.raises(rtmw.ClosedError, match="'t'"):
            use()  # type: ignore[operator]


def test_a_subscriber_is_a_context_manager() -> None:
    with rtmw.Subscriber("t") as subscriber:
        assert subscriber.take() is None
    assert subscriber.closed


@pytest.mark.parametrize(
    "wrong",
    [
        {"depth": 0}, {"depth": 2.5}, {"history": -1}, {"min_interval": -1}, {"min_interval": float("nan")},
        {"deadline": 0}, {"deadline": -1}, {"lease": -1}, {"spin": -1}, {"reliability": 3},
    ],
)  # fmt: skip
def test_impossible_settings_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=str(next(iter(wrong.values())))):
        rtmw.Subscriber("t", **wrong)  # type: ignore[call-overload]


@pytest.mark.parametrize("keyword", ["min_interval", "deadline", "lease", "spin"])
@pytest.mark.parametrize("wrong", ["1", b"1", -1, float("nan")])
def test_a_time_that_is_none_is_refused_by_the_name_of_its_keyword(keyword: str, wrong: object) -> None:
    options: dict[str, Any] = {keyword: wrong, "reliability": rtmw.Reliability.RELIABLE}
    with pytest.raises((TypeError, ValueError), match=f"{keyword}={wrong!r} is not possible; it must be seconds"):
        rtmw.Subscriber("t", **options)


def test_a_timeout_that_is_no_number_is_refused_in_words() -> None:
    wrong: Any = "1"
    with pytest.raises(TypeError, match="'1' is not a time in seconds"):
        rtmw.Subscriber("t").receive(timeout=wrong)


def test_stats_count_messages_and_bytes() -> None:
    publisher, subscriber = rtmw.Publisher("t"), rtmw.Subscriber("t")
    publisher.publish_many([b"12345", bytes(1000), b"left"])
    subscriber.take_many(2)
    stats = subscriber.stats()
    assert (stats.received, stats.bytes, stats.waiting) == (2, 1005, 1)
    drops = (stats.missed, stats.expired, stats.thinned, stats.unmatched, stats.other_types)
    assert (drops, stats.deadlines_missed, stats.lapses, stats.unheard) == ((0,) * 5, 0, 0, ())


def test_stats_do_not_change_afterwards() -> None:
    stats = rtmw.Subscriber("t").stats()
    with pytest.raises(AttributeError):
        stats.received = 5  # type: ignore[misc]


def test_topic_and_type_are_known() -> None:
    subscriber = rtmw.Subscriber("t", Reading)
    assert subscriber.topic == "t"
    assert repr(subscriber) == "<rtmw.Subscriber 't' Reading>"
    assert repr(rtmw.Subscriber("t", river.Reading)) == "<rtmw.Subscriber 't' river.Reading>"


def test_ctrl_c_ends_a_receive(spawn: Spawn) -> None:
    child = receiver(spawn)
    child.signal(signal.SIGINT)
    assert child.wait() in (1, 130, -signal.SIGINT)
    assert "KeyboardInterrupt" in child.stderr


def test_ctrl_c_ends_an_iteration(spawn: Spawn) -> None:
    child = spawn("import rtmw; print('ready'); list(rtmw.Subscriber('t'))")
    child.line()
    eventually(lambda: sleeps(child))
    child.signal(signal.SIGINT)
    assert child.wait() in (1, 130, -signal.SIGINT)
    assert "KeyboardInterrupt" in child.stderr


def test_ctrl_c_ends_a_publish_that_waits(spawn: Spawn) -> None:
    subscriber = rtmw.Subscriber("t", reliability=rtmw.Reliability.RELIABLE, depth=1)
    child = spawn(
        """
        import rtmw
        publisher = rtmw.Publisher("t", reliability=rtmw.Reliability.RELIABLE, max_blocking=None)
        print(publisher.publish(b"1"))
        publisher.publish(b"2")
        """
    )
    assert child.line() == "True"
    eventually(lambda: sleeps(child))
    child.signal(signal.SIGINT)
    assert child.wait() in (1, 130, -signal.SIGINT)
    assert "KeyboardInterrupt" in child.stderr
    assert taken(subscriber) == [b"1"]


def test_another_signal_does_not_end_a_receive(spawn: Spawn) -> None:
    handle = "    import signal; signal.signal(signal.SIGUSR1, lambda *_: print('signal'))"
    child = spawn(handle + RECEIVER.format(timeout=""))
    assert child.line() == "ready"
    eventually(lambda: sleeps(child))
    child.signal(signal.SIGUSR1)
    assert child.line() == "signal"
    assert rtmw.Publisher("t").publish(b"still there")
    assert child.line() == "still there"


@pytest.mark.parametrize("timeout", ["", "20"])
def test_a_receive_survives_stop_and_continue(spawn: Spawn, timeout: str) -> None:
    child = receiver(spawn, timeout)
    child.stop()
    child.cont()
    eventually(lambda: sleeps(child))
    assert rtmw.Publisher("t").publish(b"after")
    assert child.line() == "after"
    assert child.wait() == 0


def test_what_is_published_to_a_stopped_subscriber_is_there_when_it_goes_on(spawn: Spawn) -> None:
    child = receiver(spawn)
    child.stop()
    assert rtmw.Publisher("t").publish(b"meanwhile")
    child.cont()
    assert child.line() == "meanwhile"
