"""T8: `Sender.events` has what went wrong when a core died, each once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeAlias

import pytest

import rtmw
from rtmw import Delivery, Level, TransferState
from tests.bus import eventually
from tests.transfer.core_process import CHANGED, PATIENCE, CoreProcess

COUNT = 5
Sent: TypeAlias = Callable[[rtmw.Sender, Delivery], list[rtmw.Transfer]]


def one_by_one(sender: rtmw.Sender, delivery: Delivery) -> list[rtmw.Transfer]:
    return [sender.send("ingest", b"%d" % n, delivery=delivery) for n in range(COUNT)]


def by_tasks(sender: rtmw.Sender, delivery: Delivery) -> list[rtmw.Transfer]:
    async def go() -> list[rtmw.Transfer]:
        return await asyncio.gather(*(sender.send_async("ingest", b"%d" % n, delivery=delivery) for n in range(COUNT)))

    return asyncio.run(go())


def in_a_batch(sender: rtmw.Sender, delivery: Delivery) -> list[rtmw.Transfer]:
    return sender.send_many("ingest", [b"%d" % n for n in range(COUNT)], delivery=delivery)


WAYS = pytest.mark.parametrize("send", [one_by_one, by_tasks, in_a_batch])


def restart(core: CoreProcess) -> None:
    core.kill()
    core.start()
    core.wait_until_ready()


def events_of(sender: rtmw.Sender) -> list[rtmw.TransferEvent]:
    """All of them: behind what the sender asks of the core now, and until it is closed."""
    sender.send("other", b"last", delivery=Delivery.LOG, timeout=PATIENCE)
    sender.close()
    return list(sender.events())


@WAYS
@pytest.mark.parametrize("delivery", [Delivery.SMALL_RAW, Delivery.NORMAL])
# Proves G199.
def test_t8_what_is_unknown_after_a_restart_of_the_core_is_one_event_a_letter(
    core: CoreProcess, sender: rtmw.Sender, send: Sent, delivery: Delivery
) -> None:
    sent = send(sender, delivery)
    for _ in range(2):
        restart(core)
        eventually(lambda: {one.state for one in sent} == {TransferState.UNKNOWN})
    assert sender.stats().states == {TransferState.UNKNOWN: COUNT}
    found = events_of(sender)
    assert sorted((event.id, event.state) for event in found if event.id is not None and event.state is not None) == [
        (one.id, TransferState.UNKNOWN) for one in sent
    ]
    assert {event.cause for event in found} == {"its core was started anew; nobody knows how it has ended"}


@WAYS
def test_t8_what_is_logged_goes_on_over_a_restart_of_the_core_without_an_event(
    core: CoreProcess, sender: rtmw.Sender, send: Sent
) -> None:
    sent = send(sender, Delivery.LOG)
    restart(core)
    assert events_of(sender) == []
    assert {one.state for one in sent} == {TransferState.ACCEPTED}


@WAYS
# Proves G199.
def test_t8_a_dead_letter_is_no_event_again_when_the_next_core_says_what_it_is(
    core: CoreProcess, sender: rtmw.Sender, inbox: rtmw.Inbox, send: Sent
) -> None:
    sent = send(sender, Delivery.LOG)
    while (letter := inbox.take(0)) is not None:
        letter.give_back("not now")
    eventually(lambda: {one.state for one in sent} == {TransferState.DEAD})
    restart(core)
    assert (
        sorted((event.state, event.cause.endswith("not now")) for event in events_of(sender) if event.state)
        == [(TransferState.DEAD, True)] * COUNT
    )


# Proves G199.
def test_t8_two_cores_that_are_asked_the_same_make_one_event(core: CoreProcess, sender: rtmw.Sender) -> None:
    """The second core comes before the first one has answered."""
    single, batch = one_by_one(sender, Delivery.NORMAL), in_a_batch(sender, Delivery.NORMAL)
    core.kill()
    for _ in range(2):
        sender._core_changed()
    core.start()
    eventually(lambda: {one.state for one in single + batch} == {TransferState.UNKNOWN})
    assert [event.state for event in events_of(sender)] == [TransferState.UNKNOWN] * 2 * COUNT


def test_t10_a_transaction_that_a_restart_of_the_core_has_undone_is_one_event(
    core: CoreProcess, sender: rtmw.Sender
) -> None:
    txn = sender.transaction()
    for _ in range(2):
        restart(core)
    found = events_of(sender)
    assert [(event.state, event.cause) for event in found] == [(None, f"transaction {txn.number} was undone: RESTART")]


def test_t10_a_transaction_that_was_too_old_is_no_event_again_after_a_restart_of_the_core(
    core: CoreProcess, sender: rtmw.Sender
) -> None:
    core.kill()
    core.start(CHANGED, "--age", "0.3")
    core.wait_until_ready()
    txn, empty = sender.transaction(), sender.transaction()
    sent = [txn.send("ingest", b"never"), txn.send("ingest", b"nor this")]
    eventually(lambda: len(sender._news) == 2)
    restart(core)
    assert [(event.id, event.cause) for event in events_of(sender)] == [
        (None, f"transaction {one.number} was undone: AGE") for one in (txn, empty)
    ]
    for one in sent:
        with pytest.raises(rtmw.TransferRefused, match="part of a transaction that was undone"):
            one.wait(Level.CONSUMED, 0)


@pytest.mark.parametrize("accepted", [True, False])
def test_t10_letters_of_a_transaction_that_a_restart_of_the_core_has_undone_are_no_events_of_their_own(
    core: CoreProcess, sender: rtmw.Sender, accepted: bool
) -> None:
    txn = sender.transaction()
    if not accepted:
        core.stop()
    sent = [txn.send("ingest", b"%d" % number) for number in range(COUNT)]
    if accepted:
        txn.savepoint()
    restart(core)
    found = events_of(sender)
    assert [(event.id, event.cause) for event in found] == [(None, f"transaction {txn.number} was undone: RESTART")]
    for one in sent:
        with pytest.raises(rtmw.TransferError, match=r"was undone|was committed or undone, or its core"):
            one.wait(Level.CONSUMED, 0)


def test_t10_letters_of_a_transaction_whose_commit_was_lost_with_its_core_are_no_events(
    core: CoreProcess, sender: rtmw.Sender
) -> None:
    txn = sender.transaction()
    sent = txn.send("ingest", b"never")
    txn.savepoint()
    core.stop()
    with ThreadPoolExecutor(1) as threads:
        committing = threads.submit(txn.commit)
        eventually(lambda: sender.stats().unanswered > 0)
        restart(core)
        with pytest.raises(rtmw.TransferError, match="not open: it was committed or undone"):
            committing.result(PATIENCE)
    assert events_of(sender) == []
    with pytest.raises(rtmw.TransferRefused, match="part of a transaction that was undone"):
        sent.wait(Level.CONSUMED, 0)
    with pytest.raises(ValueError, match="has been committed or undone"):
        txn.commit()


def test_t10_what_a_program_rolls_back_itself_is_no_event(core: CoreProcess, sender: rtmw.Sender) -> None:
    with sender.transaction() as txn:
        txn.send("ingest", b"never")
        txn.rollback()
    assert events_of(sender) == []
