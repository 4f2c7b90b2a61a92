"""Letters that are enqueued as a run, beside the same letters sent one by one: no state may differ."""

from __future__ import annotations

from itertools import islice
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rtmw.transfer.address import Life
from rtmw.transfer.duplicates import LARGEST_SEQUENCE
from rtmw.transfer.errors import TransferRefused
from rtmw.transfer.events import (
    AbortTransaction,
    BeginTransaction,
    Came,
    CommitTransaction,
    EndsConfirmed,
    ReceiverJoined,
    ReceiverLeft,
    SendTransfers,
    Sent,
    SettleTransfers,
    TakeTransfers,
)
from rtmw.transfer.header import Header
from rtmw.transfer.limits import Limits
from rtmw.transfer.queues import Item
from rtmw.transfer.records import LARGEST_INLINE, Request, Spooled, TransferId, TransferState, arriving_id
from rtmw.transfer.recovery import pack_state, redo, unpack_state
from tests.transfer.memory import ME, NODE, Core, MemoryLog, header
from tests.transfer.steps import OTHER, SECOND, arriving, first_of, ids_of, later, settle
from tests.transfer.views import effects_view, item_view, state_view

SENDERS = ("gauge", "pump")
PRODUCERS = {name: Life(5000 + at, 77, at) for at, name in enumerate(SENDERS)}

runs = st.tuples(
    st.just("run"), st.sampled_from(SENDERS), st.sampled_from(["ingest", "archive", "ingest@hub"]), st.integers(0, 2),
    st.integers(1, 5), st.integers(1, 40),
)  # fmt: skip
"""Sender, service, priority, how many letters, and the size of each, or, if odd, of the first."""
arrivals = st.tuples(st.just("arrive"), st.lists(st.integers(1, 30), min_size=1, max_size=4, unique=True))
"""Sequences of letters that come from another node."""
others = st.sampled_from(
    [
        ("take", ME),
        ("take run", ME, 3),
        ("take run", OTHER, 40),
        ("consume run", ME),
        ("take", OTHER),
        ("back", ME),
        ("consume", OTHER),
        ("leave", OTHER),
        ("crash",),
        ("report", TransferState.SENT),
        ("report", TransferState.CONSUMED),
        ("confirm",),
        ("look",),
        ("checkpoint",),
        ("trim",),
        ("take in", ME),
        ("take in", OTHER),
        ("end", ME, CommitTransaction),
        ("end", ME, AbortTransaction),
        ("cancel", 0),
        ("cancel", 2),
        ("retry",),
    ]
)
LIMITS = Limits(deliveries=2)


class Beside:
    """Two cores: one gets runs, and the other the same letters by themselves. Letters of a run share a record, so the
    numbers of the two differ."""

    def __init__(self) -> None:
        self.cores = (Core(limits=LIMITS), Core(limits=LIMITS))
        self.open: dict[Life, int] = {}
        """The open transaction of each receiver."""
        self._join()
        self.numbers: dict[str, int] = dict.fromkeys(SENDERS, 1)
        self.sent = 0
        self.cuts: list[tuple[int, int]] = []
        """Numbers of batches of the two logs, behind which they have come to the same."""

    def _join(self) -> None:
        for life in (ME, OTHER):
            self._both(ReceiverJoined("ingest", life))

    def _both(self, event: Any, other: Any = None) -> Any:
        """`other`: the event for the second core, if it names transfers."""
        first, second = self.cores[0].step(event), self.cores[1].step(other or event)
        assert effects_view(self.cores[0].effects) == effects_view(self.cores[1].effects)
        if isinstance(other or event, TakeTransfers):
            first, second = list(map(item_view, first)), list(map(item_view, second))  # type: ignore[call-overload]
        assert first == second
        return first

    def _pairs(self, *, taker: Life | None = None, out: bool = False) -> list[tuple[int, int]]:
        """The numbers of the same transfers at both that are in no transaction."""
        both = zip(*(core.state.items.values() for core in self.cores), strict=True)
        found = [(one, other) for one, other in both if one.taker == taker and not one.txn]
        return [(one.lsn, other.lsn) for one, other in found if bool(one.record.header.to.node) is out]

    def _settle_both(self, pair: tuple[int, int], state: TransferState, by: Life | None = None) -> None:
        self._both(*(SettleTransfers((lsn,), state, by=by) for lsn in pair))

    def run(self, sender: str, service: str, priority: int, count: int, size: int) -> None:
        sizes = [1 + (size + 7 * n) % 40 if size % 2 else size for n in range(count)]
        bodies = [b"%0*d" % (one, (self.sent + n) % 10**one) for n, one in enumerate(sizes)]
        self.sent += count
        number, producer = self.numbers[sender], PRODUCERS[sender]
        heads = [header(body, service, priority) for body in bodies]
        self.numbers[sender] += count
        event = SendTransfers(heads[0], bodies, sender, request=Request(producer, number))
        (first,) = ids_of(self.cores[0], event)
        (came,) = self.cores[0].effects
        if isinstance(came, Came):
            assert "@".join(filter(None, (came.service, came.node))) == service
            assert len(came.items) == (count if came.node else 0)
        else:
            assert (count, effects_view([came])) == (1, [(first, TransferState.ACCEPTED, "")])
        ids: list[Any] = [
            ids_of(self.cores[1], SendTransfers(head, (body,), sender, request=Request(producer, number + n)))
            for n, (head, body) in enumerate(zip(heads, bodies, strict=True))
        ]
        assert ids == [[TransferId(first.node, first.incarnation, first.sequence + n)] for n in range(count)]

    def arrive(self, sequences: list[int]) -> None:
        """Some of them may have come before."""
        letters = {TransferId("hub", 9, sequence): b"%04d" % sequence for sequence in sequences}
        known = {id for id in letters if self.cores[1].state.has_come(id)}
        left, head = letters, header(b"0000")
        while left:
            sent: Any = self.cores[0].step(arriving(head, left))
            assert sent.is_new is (next(iter(left)) not in known)
            assert sent.done in (1, len(left))
            assert known or sent.done == len(left)
            if sent.done > 1:
                assert self.cores[0].effects == [Came("ingest", ids=list(left))]
            left = dict(islice(left.items(), sent.done, None))
        for id, body in letters.items():
            assert ids_of(self.cores[1], SendTransfers(head, (body,), "valve", ids=(id,))) == [id] * (id not in known)

    def report(self, state: TransferState) -> None:
        """Another node says so of all that is for it, and of what has never been."""
        out = self._pairs(out=True)
        self.cores[0].step(SettleTransfers([*(one for one, _ in out), 1 << 40], state))
        for _, lsn in out:
            if self.cores[1].state.items[lsn].state is not state:
                settle(self.cores[1], lsn, state)

    def confirm(self) -> None:
        """The other node knows of all that has ended."""
        ids = list(self.cores[1].state.owed)
        self.cores[0].step(EndsConfirmed([*ids, TransferId("hub", 9, 31)]))
        for id in ids:
            self.cores[1].step(EndsConfirmed([id]))

    def take_run(self, life: Life, most: int) -> None:
        items: Any = self.cores[0].step(TakeTransfers("ingest", life, most=most))
        assert len(items) <= most
        others: Any = [first_of(self.cores[1], "ingest", life) for _ in items]
        assert list(map(item_view, items)) == list(map(item_view, others))

    def consume_run(self, life: Life) -> None:
        taken = self._pairs(taker=life)
        if taken:
            consumed = SettleTransfers([one for one, _ in taken], TransferState.CONSUMED, by=life)
            assert self.cores[0].step(consumed) == {}
        for _, lsn in taken:
            settle(self.cores[1], lsn, TransferState.CONSUMED, by=life)

    def look(self) -> None:
        """Somebody looks at what waits at the first core."""
        assert len(list(self.cores[0].state.items.values())) == len(self.cores[0].state.items)

    def checkpoint(self) -> None:
        for core in self.cores:
            core.log.checkpoint(core.state)

    def trim(self) -> None:
        """The first core goes on from a checkpoint alone, and the second one from all that it has logged."""
        self.checkpoint()
        self.check_cuts()
        self.cuts.clear()
        self._again(self.cores[0].log.trimmed(), self.cores[1].log)

    def _again(self, ours: MemoryLog, theirs: MemoryLog) -> None:
        self.cores = (Core(ours, LIMITS), Core(theirs, LIMITS))
        self.open.clear()
        self._join()

    def take_in(self, life: Life) -> None:
        if life not in self.open:
            self.open[life] = self._both(BeginTransaction(life))
        self._both(TakeTransfers("ingest", life, self.open[life]))

    def end(self, life: Life, how: Any) -> None:
        if life in self.open:
            self._both(how(self.open.pop(life)))

    def cancel(self, at: int) -> None:
        pairs = self._pairs()
        if at < len(pairs):
            self._settle_both(pairs[at], TransferState.CANCELLED)

    def retry(self) -> None:
        for pair in self._pairs():
            if self.cores[0].state.items[pair[0]].state is TransferState.DEAD:
                self._settle_both(pair, TransferState.ACCEPTED)

    def other(self, what: str, life: Life = ME) -> None:
        if what == "take":
            self._both(TakeTransfers("ingest", life))
        elif what == "leave":
            self.open.pop(life, None)
            self._both(ReceiverLeft(life))
            self._both(ReceiverJoined("ingest", life))
        elif what == "crash":
            self._again(self.cores[0].log, self.cores[1].log)
        else:
            state = TransferState.CONSUMED if what == "consume" else TransferState.ACCEPTED
            for pair in self._pairs(taker=life):
                self._settle_both(pair, state, life)

    def check(self) -> None:
        self.cuts.append((len(self.cores[0].log.batches), len(self.cores[1].log.batches)))
        ours, theirs = self.cores
        assert state_view(ours.state) == state_view(theirs.state)
        for core in self.cores:
            packed, again = pack_state(core.state), redo(core.log.records()).state
            assert again is not None
            assert pack_state(again) == packed
            assert pack_state(unpack_state(packed, core.log.end)) == packed

    def check_cuts(self) -> None:
        """Behind each step, a power cut leaves both with the same."""
        for cut in self.cuts:
            states = [
                redo(core.log.cut(batches).records()).state for core, batches in zip(self.cores, cut, strict=True)
            ]
            packed = [unpack_state(pack_state(state), 1 << 50) for state in states if state is not None]
            ours, theirs, *others = [state_view(state) for state in (*states, *packed) if state is not None]
            assert all(view == ours for view in (theirs, *others))


@settings(deadline=None)
@given(st.lists(st.one_of(runs, arrivals, others), max_size=12))
@example(
    [("run", "gauge", "ingest", 0, 1, 1), ("run", "gauge", "ingest", 1, 1, 1), ("take run", ME, 40), ("leave", ME)]
)  # taken in another order than they were sent
# Proves G188.
def test_a_run_leaves_the_state_and_the_order_that_its_letters_leave_one_by_one(
    steps: list[tuple[Any, ...]],
) -> None:
    beside = Beside()
    for what, *more in steps:
        if what in ("take", "leave", "crash", "back", "consume"):
            beside.other(what, *more)
        else:
            getattr(beside, what.replace(" ", "_"))(*more)
        beside.check()
    beside.check_cuts()


def run_of(head: Header, number: int = 1, count: int = 3) -> SendTransfers:
    return SendTransfers(head, [bytes(head.length)] * count, "gauge", request=Request(PRODUCERS["gauge"], number))


def done(core: Core, event: SendTransfers) -> int:
    """How many of its letters go together; the log has one record more for each of their receivers."""
    sent: Any = core.step(event)
    return int(sent.done)


@pytest.mark.parametrize(
    ("head", "together"),
    [
        (header(b"x", "ingest/*"), 1),
        (header(b"x", f"ingest/{ME.pid}"), 1),
        (header(b"x", f"ingest@{NODE}"), 3),
        (header(b"x", lifetime_ns=1), 1),
    ],
)
def test_what_has_to_be_looked_at_letter_by_letter_is_no_run(head: Header, together: int) -> None:
    core = Core()
    core.step(ReceiverJoined("ingest", ME))
    assert done(core, run_of(head)) == together


def test_letters_of_which_one_is_too_large_for_a_record_are_no_run() -> None:
    bodies = [b"x", bytes(LARGEST_INLINE + 1)]
    request = Request(PRODUCERS["gauge"], 1)
    assert done(Core(), SendTransfers(header(b"x"), bodies, "gauge", request=request)) == 1


def test_letters_that_were_asked_for_before_are_answered_one_by_one_and_those_behind_them_go_on() -> None:
    core = Core()
    ids = [TransferId(NODE, 5, (1 << 32) + 1 + number) for number in range(5)]
    assert core.step(run_of(header(b"x"), number=1)) == Sent(3, ids[:1])
    before = core.log.records()
    assert core.step(run_of(header(b"x"), 2, 4)) == Sent(1, ids[1:2], is_new=False)
    assert core.step(run_of(header(b"x"), 3, 3)) == Sent(1, ids[2:3], is_new=False)
    assert core.log.records() == before
    assert core.step(run_of(header(b"x"), 4, 2)) == Sent(2, ids[3:4])


def test_a_request_that_was_left_out_goes_alone() -> None:
    core = Core()
    core.step(run_of(header(b"x"), number=3))
    assert done(core, run_of(header(b"x"), number=1)) == 1


@pytest.mark.parametrize(
    "head", [header(b"x", "ingest/*"), header(b"x", "ingest@elsewhere"), header(b"x", lifetime_ns=1)]
)
def test_what_has_to_be_looked_at_letter_by_letter_does_not_arrive_as_a_run(head: Header) -> None:
    core = Core()
    core.step(ReceiverJoined("ingest", ME))
    assert done(core, arriving(head, {TransferId("hub", 9, 1): b"x", TransferId("hub", 9, 2): b"x"})) == 1


def test_letters_of_this_node_do_not_arrive_as_a_run_and_of_others_those_for_which_there_is_room() -> None:
    core = Core(limits=Limits(parked=5))
    own = TransferId(core.state.node, core.state.incarnation, 1)
    for id in (own, arriving_id(own), own._replace(incarnation=1)):
        assert done(core, arriving(header(b"x"), {id: b"x", id._replace(sequence=2): b"x"})) == 1
    letters = {TransferId("hub", 9, sequence): b"x" for sequence in (1, 2, 3)}
    assert done(core, arriving(header(b"x"), letters)) == 2
    with pytest.raises(TransferRefused, match="5 transfers are parked"):
        core.step(arriving(header(b"x"), {TransferId("hub", 9, 3): b"x"}))


def test_a_run_of_an_incarnation_of_long_ago_is_refused() -> None:
    core = Core()
    for incarnation in range(100, 116):
        core.step(arriving(header(b"x"), {TransferId("hub", incarnation, 1): b"x"}))
    with pytest.raises(TransferRefused, match="before the last 16"):
        core.step(arriving(header(b"x"), {TransferId("hub", 99, 1): b"x"}))


def test_a_sequence_that_no_checkpoint_can_hold_is_refused() -> None:
    core = Core()
    largest = TransferId("hub", 9, LARGEST_SEQUENCE)
    behind = largest._replace(sequence=largest.sequence + 1)
    before = core.log.records()
    for letters in ({behind: b"x"}, {behind: b"x", largest: b"x"}):
        with pytest.raises(TransferRefused, match=r"sequence above 2\^63"):
            core.step(arriving(header(b"x"), letters))
    assert core.log.records() == before
    assert done(core, arriving(header(b"x"), {largest: b"x", behind: b"x"})) == 1
    letters = {largest._replace(sequence=largest.sequence - 1): b"x", TransferId("hub", 9, 1): b"x"}
    assert done(core, arriving(header(b"x"), letters)) == 2
    assert pack_state(unpack_state(pack_state(core.state), core.log.end)) == pack_state(core.state)


def test_of_a_run_those_are_sent_for_which_there_is_room() -> None:
    core = Core(limits=Limits(parked=5))
    assert done(core, run_of(header(b"x"), 1, 3)) == 3
    assert done(core, run_of(header(b"x"), 4, 3)) == 2
    before = core.log.records()
    with pytest.raises(TransferRefused, match="5 transfers are parked"):
        core.step(run_of(header(b"x"), 6, 1))
    assert core.log.records() == before


def test_a_run_that_cannot_be_logged_changes_nothing() -> None:
    core = Core()
    before = pack_state(core.state)
    core.log.fails_after = 0
    with pytest.raises(OSError, match="full"):
        core.step(run_of(header(b"x")))
    assert pack_state(core.state) == before


def test_letters_of_a_run_are_found_by_their_ids_and_by_what_asked_for_them() -> None:
    core = Core()
    (first,) = ids_of(core, run_of(header(b"x"), 7))
    second = TransferId(first.node, first.incarnation, first.sequence + 1)
    item = core.state.find(second)
    assert item is not None
    assert (item.record.request, item.state) == (Request(PRODUCERS["gauge"], 8), TransferState.ACCEPTED)
    asked = SendTransfers(header(b"x"), (b"\0",), "gauge", request=Request(PRODUCERS["gauge"], 9))
    assert ids_of(core, asked) == [TransferId(first.node, first.incarnation, first.sequence + 2)]


def parked(*heads: Header) -> Core:
    """A core with these letters, and two receivers."""
    core = Core()
    for life in (ME, OTHER):
        core.step(ReceiverJoined("ingest", life))
    for head in heads:
        core.step(SendTransfers(head, (bytes(head.length),)))
    return core


def take_run(core: Core, most: int = 9, life: Life = ME) -> list[Item]:
    found: Any = core.step(TakeTransfers("ingest", life, most=most))
    return list(found)


def test_letters_are_taken_as_a_run_by_priority_and_then_in_their_order() -> None:
    core = parked(*(header(bytes(size), priority=priority) for size, priority in ((1, 0), (2, 7), (3, 0), (4, 7))))
    found = [[item.record.header.length for item in take_run(core, most)] for most in (3, 3, 3)]
    assert found == [[2, 4, 1], [3], []]


@pytest.mark.parametrize(
    "head",
    [header(b"x", f"ingest/{ME.pid}"), header(b"x", lifetime_ns=10**18), header(bytes(LARGEST_INLINE + 1))],
)
def test_what_has_to_be_looked_at_by_itself_is_taken_alone(head: Header) -> None:
    core = parked(header(b"x"))
    if head.length > LARGEST_INLINE:
        core.step(SendTransfers(head, (Spooled("1s1", head.length),)))
    else:
        core.step(SendTransfers(head, (b"x",)))
    core.step(SendTransfers(header(b"xx"), (b"xx",)))
    assert [[item.record.header.to.pid for item in take_run(core)] for _ in range(3)] == [[0], [head.to.pid], [0]]


def test_a_letter_whose_time_ends_among_those_of_a_run_expires_and_the_next_ones_are_taken() -> None:
    core = parked(header(b"x"), header(b"xx", lifetime_ns=SECOND), header(b"xxx"), header(b"xxxx"))
    later(core, 2)
    assert [[item.record.header.length for item in take_run(core)] for _ in range(2)] == [[1], [3, 4]]
    assert core.state.counts == {TransferState.EXPIRED: 1}


def test_what_was_delivered_before_is_taken_alone() -> None:
    core = parked(header(b"x"), header(b"x"), header(b"x"))
    (item,) = take_run(core, 1)
    settle(core, item.lsn, TransferState.ACCEPTED, by=ME)
    assert take_run(core) == [item]
    assert len(take_run(core)) == 2


def test_in_a_transaction_a_letter_is_taken_alone() -> None:
    core = parked(header(b"x"), header(b"x"))
    txn: Any = core.step(BeginTransaction())
    assert len(core.step(TakeTransfers("ingest", ME, txn, 9))) == 1  # type: ignore[arg-type]


def test_a_run_that_cannot_be_logged_is_not_taken() -> None:
    core = parked(header(b"x"), header(b"x"))
    before = pack_state(core.state)
    core.log.fails_after = 0
    with pytest.raises(OSError, match="full"):
        take_run(core)
    assert pack_state(core.state) == before
    core.log.fails_after = None
    assert len(take_run(core)) == 2


def test_who_is_no_receiver_takes_no_run() -> None:
    with pytest.raises(TransferRefused, match="no receiver of 'ingest'"):
        take_run(Core())


def test_of_letters_that_are_not_all_its_own_a_receiver_consumes_those_that_are() -> None:
    core = parked(header(b"x"), header(b"x"), header(b"x"))
    (mine,), (other,) = (take_run(core, 1, life) for life in (ME, OTHER))
    waiting = max(core.state.items)
    before = core.log.records()
    refused: Any = core.step(SettleTransfers([other.lsn, 1 << 40, waiting], TransferState.CONSUMED, by=ME))
    assert list(refused) == [other.lsn, 1 << 40, waiting]
    assert f"is not {ME}'s: {OTHER} has taken it" in refused[other.lsn]
    assert "there is no transfer" in refused[1 << 40]
    assert core.log.records() == before
    refused = core.step(SettleTransfers([mine.lsn, other.lsn], TransferState.CONSUMED, by=ME))
    assert (list(refused), list(core.state.items)) == ([other.lsn], [other.lsn, waiting])


def test_letters_that_are_given_back_together_are_dead_letters_each_by_its_own_deliveries() -> None:
    core = parked(header(b"x"), header(b"x"))
    core.machine.limits = LIMITS
    (often,) = take_run(core, 1)
    settle(core, often.lsn, TransferState.ACCEPTED, by=ME)
    taken = [*take_run(core), *take_run(core)]
    before = len(core.log.batches)
    assert core.step(SettleTransfers([item.lsn for item in taken], TransferState.ACCEPTED, "busy", ME)) == {}
    assert [item.state for item in taken] == [TransferState.DEAD, TransferState.ACCEPTED]
    assert len(core.log.batches) == before + 1


def test_a_letter_of_a_run_is_found_by_its_id_until_it_has_ended() -> None:
    core = Core()
    core.step(ReceiverJoined("ingest", ME))
    ids: list[TransferId] = []
    for number in (1, 4, 7):
        (first,) = ids_of(core, run_of(header(b"x"), number))
        ids += [TransferId(first.node, first.incarnation, first.sequence + n) for n in range(3)]
    lsns = [core.state.numbers(id) for id in ids]
    assert sorted(lsns) == lsns
    ended = 0
    for more in (4, 2, 1, 2):
        taken = [item.lsn for item in take_run(core, more)]
        assert [core.state.numbers(id) for id in ids] == [()] * ended + lsns[ended:]
        core.step(SettleTransfers(taken, TransferState.CONSUMED, by=ME))
        ended += more
        assert [core.state.numbers(id) for id in ids] == [()] * ended + lsns[ended:]
    assert not core.state.items.runs._own  # their runs are gone, too
    behind = ids[-1]
    assert core.state.numbers(TransferId(behind.node, behind.incarnation, behind.sequence + 1)) == ()
