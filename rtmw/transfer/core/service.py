"""Requests of programs to their core, without I/O: `step(event)` is a generator of effects.

Two machines have the transfers: one with the log (class LOG, and all that is part of a transaction), and one without.
A step asks them with `Do`, and tells programs with `Tell`, which goes out when what it says is durable.
docs/transfer-queues.md has the protocol.
"""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any, Final

from rtmw.errors import LogFull
from rtmw.transfer import messages
from rtmw.transfer.address import Life
from rtmw.transfer.core.accepting import Accepted, Letters, in_batches
from rtmw.transfer.core.altering import Altering, Elsewhere
from rtmw.transfer.core.bodies import Bodies, is_logged, lies_in_memory
from rtmw.transfer.core.effects import (
    Arrived,
    Asked,
    Do,
    Ended,
    Given,
    Happened,
    KeepSources,
    LookAtSources,
    ReceiverCame,
    Remove,
    Report,
    Steps,
    Tell,
    Ticked,
    tell,
)
from rtmw.transfer.core.failing import FAILURES, failed
from rtmw.transfer.core.handing import Handing
from rtmw.transfer.core.machines import Machines
from rtmw.transfer.core.members import Addressed, Member
from rtmw.transfer.core.owners import Owners, transaction_event
from rtmw.transfer.core.progress import progress_of_ended
from rtmw.transfer.core.receiving import Receiving
from rtmw.transfer.core.shown import answer_to
from rtmw.transfer.core.telling import Telling
from rtmw.transfer.core.unfinished import Unfinished
from rtmw.transfer.core.watching import BAD, Events
from rtmw.transfer.effects import Aborted, Came, Moved, MovedRun
from rtmw.transfer.errors import TransferRefused
from rtmw.transfer.events import (
    AbortTransaction,
    BeginTransaction,
    CommitTransaction,
    ReceiverJoined,
    ReceiverLeft,
    SendRun,
    SendTransfer,
    SettleTransfer,
)
from rtmw.transfer.frames import Frame
from rtmw.transfer.header import Delivery, Header, Kind, resized
from rtmw.transfer.queues import Item
from rtmw.transfer.records import NONE, AbortCause, Request, Spooled, TransferId, TransferState, is_letter

__all__ = ["Machines", "Member", "Service"]

LARGEST_NUMBER: Final = (1 << 63) - 1
"""Of a request that the log knows."""


_TAKING: Final = (messages.Take, messages.Untake, messages.Settle, messages.Consume)
"""Requests of inboxes."""


class Service:
    """See the head of this file. `path`: of a body in the spool, as programs find it."""

    def __init__(self, machines: Machines, path: Any) -> None:
        self.machines, self.path = machines, path
        self.members: dict[Life, Member] = {}
        self._bodies = Bodies()
        self._owners = Owners(machines.logged)
        self._receiving = Receiving(self.members, machines, Handing(machines, path), self._owners)
        self._telling = Telling(self.members)
        self._addressed = Addressed()
        self.events = Events()
        self._altering = Altering(machines)
        self._unfinished = Unfinished()
        self.nodes: Elsewhere
        """Set by its maker, before the first step."""

    def step(self, event: Asked) -> Steps:
        """Raises TransfersDamaged and LogFailed only."""
        match event:
            case Arrived(frame=frame):
                return self._frame(frame)
            case Ended(lives=lives):
                return self._ended(lives)
            case Happened(notes=notes, logged=logged):
                return self._happened(notes, logged)
            case Given():
                return self._given()
            case Ticked():
                return self._ticked()

    # ---- for tools ----

    @property
    def redelivered(self) -> int:
        """Letters that were handed over once more."""
        return self._receiving.redelivered

    def owner(self, txn: int) -> Member | None:
        """The program that has begun this transaction."""
        life = self._owners.of(txn)
        return self.members.get(life) if life is not None else None

    def sends_to(self, member: Member) -> list[str]:
        """The addresses to which a sender has sent, at most 64 of them."""
        return self._addressed.of(member.life)

    def arriving(self) -> list[dict[str, Any]]:
        """Bodies of which a part has come."""
        return self._bodies.arriving(lambda life: self.members[life].name)

    # ---- frames ----

    def _frame(self, frame: Frame) -> Steps:
        """A program that has not joined is of a core before this one; it joins, and asks again."""
        if frame.life not in self.members and not isinstance(frame.message, messages.Join):
            return
        try:
            yield from self._answer(frame)
        except FAILURES as error:
            yield tell(frame, failed(error))

    def _answer(self, frame: Frame) -> Steps:
        if isinstance(frame.message, _TAKING) and not self.members[frame.life].role:
            raise TransferRefused("a sender takes no letters; open an inbox")
        match frame.message:
            case messages.Join() as join:
                yield from self._join(frame, join)
            case messages.Leave():
                yield from self._ended(frozenset({frame.life}))
                yield tell(frame, messages.Done(0))
            case messages.Send() as send:
                if len(send.data) == send.header.length and lies_in_memory(send):
                    yield from self._send(frame, send, send.data)
                else:
                    self._bodies.begin((frame.life, frame.number), send)
                    yield from self._block(frame, send.data)
            case messages.Sends(runs=runs):
                yield from self._sends(frame, runs)
            case messages.More(data=data):
                yield from self._block(frame, data)
            case messages.GiveUp():
                yield from self._bodies.give_up(frame)
            case messages.Take() as take:
                yield from self._receiving.take(frame, take)
            case messages.Untake(take=take):
                yield from self._receiving.untake(frame, take)
            case messages.Settle() as settle:
                yield from self._receiving.settle(frame, settle)
            case messages.Consume(items=items):
                yield from self._receiving.consume(frame, items)
            case messages.Alter(id=id, state=state):
                yield from self._altering.alter(frame, id, TransferState(state), self.nodes)
            case messages.Ask(id=id):
                yield from self._ask(frame, id)
            case messages.Show(what=what):
                for shown in answer_to(what, self):
                    yield tell(frame, shown)
            case messages.Begin():
                txn = yield Do(BeginTransaction(frame.life), True)
                self._owners.begin(txn, frame.life)
                yield tell(frame, messages.Done(txn), False)
            case _:
                yield from self._of_transaction(frame)

    def _join(self, frame: Frame, join: messages.Join) -> Steps:
        member, before = Member(frame.life, frame.slot, join.role, join.name, join.folder), self.members.get(frame.life)
        if before is not None and before != member:
            raise TransferRefused(f"this member has joined as {before.name!r} already, and is no other one now")
        if join.role and before is None:
            for logged in (True, False):
                yield Do(ReceiverJoined(join.name, frame.life, bool(join.folder)), logged)
            yield from self._take_back(frame.life, frozenset(join.held))
        self.members[frame.life] = member
        if join.role:
            yield ReceiverCame(Path(join.folder) if join.folder else None)
        yield tell(frame, messages.Done(0), False)

    def _take_back(self, life: Life, held: frozenset[int]) -> Steps:
        """The core before this one had taken it for the inbox, and ended before it was handed over."""
        for item in list(self.machines.logged.state.items.made.values()):
            is_taken = item.taker == life and item.state is TransferState.DELIVERED and not item.txn
            if is_taken and item.lsn not in held:
                event = SettleTransfer(item.lsn, TransferState.ACCEPTED, "its core ended meanwhile")
                yield from self._unfinished.do(event)

    def _ended(self, lives: frozenset[Life]) -> Steps:
        for life in sorted(lives & self.members.keys()):
            member = self.members.pop(life)
            self._telling.forget(life)
            self._addressed.forget(life)
            self._owners.leave(life)
            self._receiving.forget(life, member.name)
            yield from self._bodies.drop_all(life)
            yield from self._unfinished.do(ReceiverLeft(life))
            yield Do(ReceiverLeft(life), False)

    # ---- sending ----

    def _block(self, frame: Frame, data: bytes) -> Steps:
        key = frame.life, frame.number
        chain = yield from self._bodies.take(key, data)
        if chain is None:
            return
        send = chain.send
        if chain.got < send.header.length:
            yield tell(frame, messages.Got(chain.got), False)
            return
        body = yield from self._bodies.finish(key)
        yield from self._send(frame, send, body)

    def _send(self, frame: Frame, send: messages.Send, body: bytes | Spooled) -> Steps:
        if send.txn:
            self._owners.check(frame, send.txn)
        logged, name = is_logged(send), self.members[frame.life].name
        state = (self.machines.logged if logged else self.machines.volatile).state
        request = Request(frame.life, 0 if send.txn else frame.number)
        try:
            looks = send.header.kind is not Kind.BUF and not self.machines.was_sent(logged, name, request, send.once)
            sources = (yield LookAtSources(send.header, body)) if looks else None
            told = name, send.txn, None, request, send.once, sources is not None
            ids = yield Do(SendTransfer(send.header, body, *told), logged)
            for id in ids if sources is not None else ():
                yield KeepSources(id, sources or ())
        finally:
            if isinstance(body, Spooled) and body.name not in state.bodies:
                yield Remove(body)
        self._addressed.add(frame.life, send.header.to)
        if send.header.kind is not Kind.BUF or send.once:
            yield from self._say_how_far(frame, send.header, body, ids)
        yield tell(frame, messages.Accepted(tuple(ids)), logged and not send.txn)
        yield from self._catch_up(frame, send, ids)

    def _say_how_far(self, frame: Frame, header: Header, body: bytes | Spooled, ids: list[TransferId]) -> Steps:
        for id in ids:
            item = self.machines.find(id)
            progress = progress_of_ended(header, body) if item is None else self.nodes.progress(item)
            yield tell(frame, messages.Advanced(id, progress.got, progress.size), False)

    def _sends(self, frame: Frame, runs: tuple[messages.Run, ...]) -> Steps:
        number, count = frame.number, sum(len(run.bodies) for run in runs)
        if not 0 < number <= LARGEST_NUMBER - count:
            raise ValueError(f"letters numbered from {number} on; numbers are from 1 to {LARGEST_NUMBER}")
        accepted, node = Accepted(frame), self.machines.logged.state.node
        for letters in in_batches(runs, node, self.members[frame.life].name):
            logged = letters.header.delivery is Delivery.LOG
            first = yield from self._send_letters(frame, number, letters)
            if first is not None:
                yield from accepted.add(number, len(letters.bodies), first, logged)
            else:
                yield from accepted.tell()
                yield from self._send_each(frame, number, letters)
            number += len(letters.bodies)
        yield from accepted.tell()

    def _send_letters(self, frame: Frame, number: int, letters: Letters) -> Generator[Any, Any, TransferId | None]:
        """In one step; None: that cannot be. The id of the first letter."""
        header = letters.header
        run = SendRun(header, letters.bodies, self.members[frame.life].name, Request(frame.life, number))
        try:
            first: TransferId | None = yield Do(run, header.delivery is Delivery.LOG)
        except LogFull:
            return None
        if first is not None:
            self._addressed.add(frame.life, header.to)
        return first

    def _send_each(self, frame: Frame, number: int, letters: Letters) -> Steps:
        """Letter by letter, and each gets an answer of its own."""
        for at, body in enumerate(letters.bodies, number):
            send = messages.Send(0, resized(letters.header, len(body)), b"", body)
            yield from self._frame(frame._replace(number=at, message=send))

    def _follow(self, item: Item, life: Life) -> None:
        """Another sender than its own is told of it, too."""
        request = item.record.request
        if request is not None and request.producer != life:
            self._telling.follow(item.record.id, life)

    def _catch_up(self, frame: Frame, send: messages.Send, ids: list[TransferId]) -> Steps:
        """Of what was sent before, with the same id or to the core before: how it is, and whatever comes."""
        moves: list[messages.Move] = []
        for id in ids:
            item = self.machines.find(id)
            if item is None:
                moves.append(self.machines.end_of(id, self.members[frame.life].name, send.once))
                continue
            self._follow(item, frame.life)
            if item.state not in (TransferState.ACCEPTED, TransferState.HELD):
                moves.append(messages.Move(id, item.state, item.cause))
        if moves:
            yield Tell(Frame(frame.life, frame.slot, 0, messages.Moves(tuple(moves))), is_logged(send))

    # ---- transactions ----

    def _of_transaction(self, frame: Frame) -> Steps:
        value, event = 0, transaction_event(frame)
        known = self.machines.logged.state.requests
        is_done = isinstance(frame.message, messages.Commit) and Request(frame.life, frame.number) in known
        txn: int = getattr(frame.message, "txn", NONE)
        if not is_done:
            self._owners.check(frame, txn)
            value = yield Do(event, True)
        if isinstance(event, CommitTransaction | AbortTransaction):
            self._owners.end(txn)
        yield tell(frame, messages.Done(value or 0), isinstance(event, CommitTransaction))

    # ---- looking ----

    def _ask(self, frame: Frame, id: TransferId) -> Steps:
        """Tells the gathered moves first: they are older than the answer."""
        yield from self._telling.tell()
        item = self.machines.find(id)
        if item is not None:
            self._follow(item, frame.life)
            if not is_letter(item.record.header):
                yield from self._say_how_far(frame, item.record.header, item.record.body, [id])
        yield tell(frame, messages.Moves((self.machines.move(id),)))

    # ---- what has happened ----

    def _given(self) -> Steps:
        yield from self._unfinished.go_on()
        yield from self._receiving.serve_stalled()
        yield from self._altering.look(self.nodes)
        yield from self._telling.tell()

    def _ticked(self) -> Steps:
        for item in filter(None, map(self.machines.find, self.nodes.advanced())):
            if item.state is TransferState.ACCEPTED:
                self._telling.advance(item, self.nodes.progress(item))
        yield from self._telling.tell()

    def _happened(self, notes: tuple[Moved | MovedRun | Aborted | Came, ...], logged: bool) -> Steps:
        touched: set[str] = set()
        for note in notes:
            if isinstance(note, Came):
                if not note.node:
                    touched.add(note.service)
            elif isinstance(note, Aborted):
                yield from self._aborted(note)
            elif isinstance(note, MovedRun):
                yield from self._moved_run(note, logged)
            elif (item := note.item) is not None:
                if note.state is TransferState.ACCEPTED and not item.record.header.to.node:
                    touched.add(item.record.header.to.service)
                yield from self._moved(note, item, logged)
        for service in touched:
            yield from self._receiving.serve(service)

    def _moved(self, note: Moved, item: Item, logged: bool) -> Steps:
        if note.state is not None and note.state in BAD:
            happening = self.events.of_transfer(item, note.state, note.cause, self.machines.now().wall_ns)
            yield Report(happening, logged)
        self._telling.gather(note, item, logged)
        if self._altering.is_asked(note):
            yield from self._telling.tell()
            yield from self._altering.answer(note, logged)

    def _moved_run(self, run: MovedRun, logged: bool) -> Steps:
        if not self._altering.waits:
            self._telling.gather_run(run, logged)
            return
        for note, item in zip(run, run.items, strict=True):
            yield from self._moved(note, item, logged)

    def _aborted(self, note: Aborted) -> Steps:
        if note.cause is AbortCause.ASKED:
            return
        member = self.owner(note.txn)
        self._owners.end(note.txn)
        name = member.name if member is not None else ""
        happening = self.events.of_transaction(note.txn, note.cause, name, self.machines.now().wall_ns)
        yield Report(happening, True)
        if member is not None:
            yield Tell(Frame(member.life, member.slot, 0, messages.Undone(note.txn, note.cause)), True)
