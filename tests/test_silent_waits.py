"""A wait in which nothing comes says why: in its TimeoutError, or in the log where it has no limit."""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import rtmw
from rtmw import Reliability, matching, subscriber
from rtmw.clock import Clock
from tests.bus import LONG, Order, Reading, eventually
from tests.child import Spawn
from tests.recordings import numbered

Wait = Callable[[rtmw.Subscriber[bytes]], object]


def by_async_for(waiting: rtmw.Subscriber[bytes]) -> None:
    async def first() -> None:
        async for _ in waiting:
            break

    asyncio.run(first())


def by_listen(waiting: rtmw.Subscriber[bytes]) -> None:
    came = threading.Event()
    with waiting.listen(lambda _: came.set()):
        assert came.wait(LONG)


WAITS: dict[str, Wait] = {
    "receive": lambda waiting: waiting.receive(),
    "for": lambda waiting: next(iter(waiting)),
    "async for": by_async_for,
    "listen": by_listen,
    "wait set": lambda waiting: rtmw.WaitSet(waiting).wait(),
}


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Iterator[Callable[[], list[str]]]:
    """What was logged on `rtmw` so far."""
    with caplog.at_level(logging.WARNING, "rtmw"):
        yield lambda: [record.getMessage() for record in caplog.records if record.name == "rtmw"]


def publishing_when(fact: Callable[[], object]) -> threading.Thread:
    """A thread that ends the wait of a subscriber of `t` once something is true."""

    def publish() -> None:
        eventually(fact)
        with rtmw.Publisher("t") as publisher:
            publisher.publish(b"x")

    thread = threading.Thread(target=publish)
    thread.start()
    return thread


def test_a_subscriber_that_was_closed_is_not_said_to_be_waited_for(
    domain_id: int, said: Callable[[], list[str]]
) -> None:
    """Closed after the wait has ended to say why, and before it looks: a listener would end with an exception."""
    domain = rtmw.Domain(domain_id)
    alone, with_its_domain = (rtmw.Subscriber("t", domain=domain) for _ in range(2))
    alone.close()
    alone._log_silence()
    domain.close()
    with_its_domain._log_silence()
    assert said() == []


@pytest.mark.parametrize("timeout", [0, 0.01])
def test_a_receive_that_times_out_ends_with_nobody_publishes(domain: rtmw.Domain, timeout: float) -> None:
    with pytest.raises(TimeoutError) as error:
        rtmw.Subscriber("t").receive(timeout)
    assert str(error.value) == f"topic 't': no message within the timeout; nobody publishes on it in domain {domain.id}"
    assert type(error.value) is TimeoutError


@pytest.mark.usefixtures("domain")
# Proves G41.
def test_a_receive_that_times_out_ends_with_what_stats_say_of_publishers_that_do_not_match() -> None:
    _other_type, _weaker = rtmw.Publisher("t", Order), rtmw.Publisher("t", Reading)
    waiting = rtmw.Subscriber("t", Reading, reliability=Reliability.RELIABLE)
    with pytest.raises(TimeoutError) as error:
        waiting.receive(0)
    of_type, of_reliability = waiting.stats().unheard
    assert str(error.value).endswith(f"; {of_type}; {of_reliability}")
    assert "its type is Order" in of_type


@pytest.mark.usefixtures("domain")
def test_a_receive_that_times_out_has_no_reason_where_a_publisher_is_matched_and_silent() -> None:
    with rtmw.Publisher("t"), pytest.raises(TimeoutError, match=r"no message within the timeout$"):
        rtmw.Subscriber("t").receive(0)


def test_the_reason_of_a_receive_follows_publishers_that_come_and_go(domain: rtmw.Domain) -> None:
    def reason() -> str:
        with pytest.raises(TimeoutError) as error:
            waiting.receive(0)
        return str(error.value).partition("; ")[2]

    waiting, reasons = rtmw.Subscriber("t"), list[str]()
    for type in (Order, bytes):
        reasons.append(reason())
        with rtmw.Publisher("t", type):
            reasons.append(reason())
    nobody = f"nobody publishes on it in domain {domain.id}"
    assert [text.partition(" of")[0] for text in reasons] == [nobody, "publisher", nobody, ""]


# Proves G41.
def test_the_reason_of_a_receive_follows_the_death_of_a_publisher(spawn: Spawn) -> None:
    waiting = rtmw.Subscriber("t")
    child = spawn("import rtmw; publisher = rtmw.Publisher('t'); print(); input()")
    child.line()
    child.kill()

    def is_told() -> bool:
        with pytest.raises(TimeoutError) as error:
            waiting.receive(0)
        return "nobody publishes" in str(error.value)

    eventually(is_told)


@pytest.mark.usefixtures("domain")
@pytest.mark.parametrize("timeout", [None, LONG])
def test_a_timeout_error_of_a_signal_handler_passes_a_receive_as_it_is(timeout: float | None) -> None:
    def give_up(*_: object) -> None:
        raise TimeoutError("the program's own")

    before = signal.signal(signal.SIGALRM, give_up)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(TimeoutError, match=r"^the program's own$"):
            rtmw.Subscriber("t").receive(timeout)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("wait", WAITS.values(), ids=WAITS)
# Proves G41.
def test_a_wait_without_limit_logs_once_after_2_s_that_nobody_publishes(
    wait: Wait, said: Callable[[], list[str]], domain: rtmw.Domain
) -> None:
    begun, waiting = time.monotonic(), rtmw.Subscriber("t")
    helper = publishing_when(said)
    wait(waiting)
    helper.join()
    assert time.monotonic() - begun >= 2.0
    reason = f"nobody publishes on it in domain {domain.id}"
    assert said() == [f"topic 't': a message is still waited for: {reason}"]


@pytest.mark.usefixtures("domain")
@pytest.mark.parametrize("wait", WAITS.values(), ids=WAITS)
def test_a_wait_without_limit_logs_after_2_s_which_publishers_do_not_match(
    wait: Wait, said: Callable[[], list[str]]
) -> None:
    waiting, _other = rtmw.Subscriber("t"), rtmw.Publisher("t", Order)
    helper = publishing_when(said)
    wait(waiting)
    helper.join()
    (line,) = said()
    assert line.endswith("its type is Order, this one's bytes")


@pytest.mark.usefixtures("domain")
@pytest.mark.parametrize("wait", WAITS.values(), ids=WAITS)
def test_a_wait_for_a_publisher_that_is_matched_and_silent_logs_nothing(
    wait: Wait, said: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rtmw.matching.TELL_AFTER_S", 0.05)
    monkeypatch.setattr(subscriber, "TELL_AFTER_S", 0.05)
    waiting, publisher = rtmw.Subscriber("t"), rtmw.Publisher("t")
    threading.Timer(0.8, publisher.publish, [b"x"]).start()
    wait(waiting)
    assert said() == []


@pytest.mark.usefixtures("domain")
@pytest.mark.parametrize("wait", WAITS.values(), ids=WAITS)
# Proves G41.
def test_a_wait_without_limit_logs_another_reason_when_it_comes(
    wait: Wait, said: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rtmw.matching.TELL_AFTER_S", 0.05)
    monkeypatch.setattr(subscriber, "TELL_AFTER_S", 0.05)
    waiting, others = rtmw.Subscriber("t"), list[rtmw.Publisher[Order]]()

    def has_changed() -> bool:
        if said() and not others:
            others.append(rtmw.Publisher("t", Order))
        return len(said()) == 2

    helper = publishing_when(has_changed)
    wait(waiting)
    helper.join()
    nobody, other_type = said()
    assert "nobody publishes" in nobody
    assert other_type.endswith("its type is Order, this one's bytes")


class ByHand(Clock):
    """It stands until it is set."""

    now = 100.0

    def monotonic(self) -> float:
        return self.now


# Proves G41.
def test_a_reason_that_changes_again_and_again_is_logged_in_ever_longer_times(said: Callable[[], list[str]]) -> None:
    clock = ByHand()
    told = matching.WaitLog("t", "a message", clock)
    while clock.now < 400:
        told.note(f"reason at {clock.now}")
        told.note("")
        clock.now += 1.0
    assert [float(text.rsplit(" ", 1)[1]) for text in said()] == [100, 104, 112, 128, 160, 224, 288, 352]


@pytest.mark.usefixtures("domain")
@pytest.mark.parametrize("wait", WAITS.values(), ids=WAITS)
def test_a_subscriber_logs_it_once_however_often_it_waits(
    wait: Wait, said: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rtmw.matching.TELL_AFTER_S", 0.05)
    monkeypatch.setattr(subscriber, "TELL_AFTER_S", 0.05)
    waiting = rtmw.Subscriber("t")
    helper = publishing_when(said)
    wait(waiting)
    helper.join()
    again = time.monotonic() + 0.8
    helper = publishing_when(lambda: time.monotonic() > again)
    wait(waiting)
    helper.join()
    assert len(said()) == 1


@pytest.mark.usefixtures("domain")
@pytest.mark.parametrize("take", [rtmw.Subscriber.receive, next])
def test_a_wait_logs_also_when_the_publisher_has_gone_after_its_first_message(
    take: Callable[..., rtmw.Sample[bytes]], said: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscriber, "TELL_AFTER_S", 0.05)
    waiting = rtmw.Subscriber("t")
    with rtmw.Publisher("t") as publisher:
        publisher.publish(b"first")
        take(waiting)
    helper = publishing_when(said)
    assert take(waiting).value == b"x"
    helper.join()


@pytest.mark.usefixtures("domain")
def test_an_iteration_goes_on_after_a_missed_deadline() -> None:
    waiting, publisher = rtmw.Subscriber("t", deadline=0.02), rtmw.Publisher("t")
    messages = iter(waiting)
    with pytest.raises(rtmw.DeadlineMissed):
        next(messages)
    for text in (b"1", b"2"):
        publisher.publish(text)
        assert next(messages).value == text
    assert iter(waiting) is waiting
    waiting.close()
    assert list(messages) == list(waiting) == []


@pytest.mark.usefixtures("domain")
def test_a_for_that_waits_for_its_first_message_ends_when_its_subscriber_is_closed() -> None:
    waiting = rtmw.Subscriber("t")
    threading.Timer(0.05, waiting.close).start()
    assert list(waiting) == []


def test_a_replay_that_waits_for_subscribers_without_limit_logs_of_each_topic_who_is_missing(
    said: Callable[[], list[str]], domain: rtmw.Domain, tmp_path: Path
) -> None:
    path = numbered(tmp_path / "a.mcap", ["heard", "nobody", "refused"], 30)
    met = [rtmw.Subscriber("heard"), rtmw.Subscriber("refused", Order)]

    def subscribe() -> None:
        eventually(lambda: len(said()) == 2)
        met.extend(rtmw.Subscriber(topic) for topic in ("nobody", "refused"))

    helper = threading.Thread(target=subscribe)
    helper.start()
    with rtmw.Replay(path, rate=None) as replay:
        assert replay.wait_for_subscribers()
    helper.join()
    nobody, refused = sorted(said())
    assert nobody == f"topic 'nobody': a subscriber is still waited for: 0 of 1 subscribe to it in domain {domain.id}"
    assert refused.startswith("topic 'refused': a subscriber is still waited for: subscriber of process ")
    assert refused.endswith("this one's bytes")


@pytest.mark.parametrize("refused", [False, True])
def test_waiting_for_subscribers_without_limit_logs_once_after_2_s_who_is_missing(
    refused: bool, said: Callable[[], list[str]], domain: rtmw.Domain
) -> None:
    publisher, others = rtmw.Publisher("t"), [rtmw.Subscriber("t", Order)] if refused else []
    met: list[rtmw.Subscriber[bytes]] = []

    def subscribe() -> None:
        eventually(said)
        met.append(rtmw.Subscriber("t"))

    helper = threading.Thread(target=subscribe)
    helper.start()
    assert publisher.wait_for_subscribers()
    helper.join()
    (line,) = said()
    assert line.startswith("topic 't': a subscriber is still waited for: ")
    assert line.endswith("this one's bytes" if others else f"0 of 1 subscribe to it in domain {domain.id}")
