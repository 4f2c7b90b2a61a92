"""A loan: a block of the pool to write into before it is published."""

from __future__ import annotations

import gc
import threading

import numpy as np
import pytest

import rtmw
from tests.bus import LONG, balanced, held, lifetime_of, taken

BIG = 100_000

Pair = tuple[rtmw.Publisher[bytes], rtmw.Subscriber[bytes]]


@pytest.fixture
def pair(domain: rtmw.Domain) -> Pair:
    return rtmw.Publisher("t", domain=domain), rtmw.Subscriber("t", domain=domain)


def loaned(domain: rtmw.Domain) -> int:
    return balanced(domain).descriptors_loaned


@pytest.mark.parametrize("size", [0, 1, 128, 129, BIG])
def test_what_is_written_into_a_loan_is_the_message(pair: Pair, size: int) -> None:
    publisher, subscriber = pair
    with publisher.loan(size) as loan:
        assert isinstance(loan, rtmw.Loan)
        view = loan.data
        assert (view.nbytes, view.readonly) == (size, False)
        view[:] = b"w" * size
        assert loan.publish() is True
    assert subscriber.receive(1).value == b"w" * size


def test_a_loan_shows_its_topic_and_size_and_whether_it_is_over(pair: Pair) -> None:
    published, dropped = pair[0].loan(5), pair[0].loan(BIG)
    assert (repr(published), repr(dropped)) == ("<rtmw.Loan 't' size=5>", "<rtmw.Loan 't' size=100000>")
    published.publish()
    dropped.drop()
    assert repr(published) == "<rtmw.Loan 't' size=5, closed>"
    assert repr(dropped) == "<rtmw.Loan 't' size=100000, closed>"


def test_a_loan_is_a_buffer_itself(pair: Pair) -> None:
    publisher, subscriber = pair
    with publisher.loan(800) as loan:
        array = np.frombuffer(loan, np.float64)
        array[:] = 2.5
        loan.publish()
    assert np.frombuffer(subscriber.receive(1).data, np.float64).sum() == 250.0


def test_a_loan_is_where_the_message_lies(pair: Pair) -> None:
    publisher, subscriber = pair
    loan = publisher.loan(BIG)
    written = np.frombuffer(loan, np.uint8)
    written[:] = 3
    loan.publish()
    assert np.frombuffer(subscriber.receive(1).data, np.uint8).ctypes.data == written.ctypes.data


def test_a_loan_not_published_is_dropped_at_the_end_of_its_block(domain: rtmw.Domain, pair: Pair) -> None:
    publisher, subscriber = pair
    with publisher.loan(BIG) as loan:
        assert loaned(domain) == 1
        loan.data[:5] = b"never"
    assert loaned(domain) == 0
    assert subscriber.take() is None
    assert publisher.stats().published == 0


def test_a_loan_in_a_block_that_raises_is_dropped(domain: rtmw.Domain, pair: Pair) -> None:
    publisher, subscriber = pair
    with pytest.raises(RuntimeError, match="mine"), publisher.loan(BIG):
        raise RuntimeError("mine")
    assert loaned(domain) == 0
    assert subscriber.take() is None


def test_drop_gives_the_block_back(domain: rtmw.Domain, pair: Pair) -> None:
    loan = pair[0].loan(BIG)
    loan.drop()
    loan.drop()
    assert loaned(domain) == 0
    assert balanced(domain).pages_used == 0


def test_drop_with_a_view_alive_is_refused(domain: rtmw.Domain, pair: Pair) -> None:
    loan = pair[0].loan(BIG)
    view = loan.data
    with pytest.raises(BufferError, match="views"):
        loan.drop()
    view.release()
    loan.drop()
    assert loaned(domain) == 0


def test_a_forgotten_loan_is_dropped(domain: rtmw.Domain, pair: Pair) -> None:
    pair[0].loan(BIG)
    gc.collect()
    assert loaned(domain) == 0


def test_a_view_left_over_from_a_dropped_loan_is_still_memory_of_its_own(domain: rtmw.Domain, pair: Pair) -> None:
    publisher, subscriber = pair
    with publisher.loan(BIG) as loan:
        view = loan.data
    del loan
    publisher.publish(b"\x01" * BIG)
    view[:] = b"\xff" * BIG
    assert subscriber.receive(1).value == b"\x01" * BIG
    del view
    gc.collect()
    assert loaned(domain) == 0


def test_a_view_left_over_from_a_published_loan_never_becomes_another_message(domain: rtmw.Domain, pair: Pair) -> None:
    publisher, subscriber = pair
    loan = publisher.loan(BIG)
    view = loan.data
    loan.publish()
    subscriber.receive(1).release()
    for _ in range(100):
        publisher.publish(b"\x01" * BIG)
        view[:] = b"\xff" * BIG
        assert subscriber.receive(1).value == b"\x01" * BIG
    assert held(domain) == 1
    del view, loan
    gc.collect()
    assert held(domain) == 0


def test_a_loan_is_published_once(pair: Pair) -> None:
    publisher, subscriber = pair
    loan = publisher.loan(5)
    loan.data[:] = b"first"
    assert loan.publish()
    for use in (loan.publish, lambda: loan.data, lambda: memoryview(loan)):
        with pytest.raises(rtmw.ClosedError):
            use()  # type: ignore[operator]
    assert taken(subscriber) == [b"first"]


def test_a_loan_takes_priority_and_lifetime(pair: Pair) -> None:
    publisher, subscriber = pair
    publisher.publish(b"low")
    with publisher.loan(4, priority=6, lifetime=100) as loan:
        loan.data[:] = b"high"
        loan.publish()
    with publisher.loan(4, valid_until=1.0) as loan:
        loan.publish()
    high, low = subscriber.take_many(3)
    assert (high.value, high.priority, lifetime_of(high)) == (b"high", 6, 100)
    assert low.value == b"low"
    assert subscriber.stats().expired == 1


@pytest.mark.parametrize(
    ("size", "kind"), [(-1, ValueError), ("5", TypeError), (1.5, TypeError), (1 << 70, OverflowError)]
)
def test_an_impossible_size_is_refused(pair: Pair, size: int, kind: type[Exception]) -> None:
    with pytest.raises(kind):
        pair[0].loan(size)


def test_publishing_a_loan_into_a_full_queue_can_be_tried_again(domain: rtmw.Domain) -> None:
    publisher = rtmw.Publisher("r", reliability=rtmw.Reliability.RELIABLE, max_blocking=0.01)
    subscriber = rtmw.Subscriber("r", reliability=rtmw.Reliability.RELIABLE, depth=1)
    publisher.publish(b"1")
    with publisher.loan(1) as loan:
        loan.data[:] = b"2"
        assert loan.publish() is False
        assert taken(subscriber) == [b"1"]
        assert loan.publish() is True
    assert taken(subscriber) == [b"2"]
    assert publisher.stats().timed_out == 1
    assert loaned(domain) == 0


def test_a_loan_of_a_closed_publisher_cannot_be_published_and_gives_its_memory_back(domain: rtmw.Domain) -> None:
    publisher = rtmw.Publisher("t", domain=domain)
    loan = publisher.loan(BIG)
    publisher.close()
    with pytest.raises(rtmw.ClosedError):
        loan.publish()
    loan.drop()
    del loan
    assert loaned(domain) == 0


def test_no_memory_for_a_loan_is_an_error_that_says_what_to_do(domain: rtmw.Domain) -> None:
    publisher = rtmw.Publisher("t", domain=domain)
    loans = [publisher.loan(1 << 20) for _ in range(8)]
    with pytest.raises(rtmw.PoolExhausted, match="larger pool"):
        publisher.loan(1 << 20)
    assert publisher.stats().exhausted == 1
    loans.pop().drop()
    assert len(publisher.loan(1 << 20).data) == 1 << 20


def test_a_loan_refused_while_a_view_lived_can_be_tried_again(domain: rtmw.Domain) -> None:
    publisher = rtmw.Publisher("r", reliability=rtmw.Reliability.RELIABLE, max_blocking=0)
    subscriber = rtmw.Subscriber("r", reliability=rtmw.Reliability.RELIABLE, depth=1)
    publisher.publish(b"1")
    loan = publisher.loan(1)
    view = loan.data
    view[:] = b"2"
    assert loan.publish() is False
    del view
    assert taken(subscriber) == [b"1"]
    assert loan.publish() is True
    assert taken(subscriber) == [b"2"]
    assert held(domain) == loaned(domain) == 0


def test_a_loan_that_one_thread_publishes_cannot_be_dropped_by_another(domain: rtmw.Domain) -> None:
    publisher = rtmw.Publisher("r", reliability=rtmw.Reliability.RELIABLE, max_blocking=LONG)
    subscriber = rtmw.Subscriber("r", reliability=rtmw.Reliability.RELIABLE, depth=1)
    publisher.publish(b"1")
    loan = publisher.loan(1)
    loan.data[:] = b"2"
    answers: list[bool] = []
    thread = threading.Thread(target=lambda: answers.append(loan.publish()))
    thread.start()
    threading.Event().wait(0.05)  # it waits for room by now
    loan.drop()
    with pytest.raises(rtmw.ClosedError):
        loan.publish()
    assert taken(subscriber) == [b"1"]
    thread.join(LONG)
    assert answers == [True]
    assert taken(subscriber) == [b"2"]
    assert held(domain) == loaned(domain) == 0
