"""The half of a peer that sends: reads what is to be sent, and tells the core how far it is."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

from rtmw.clock import CLOCK
from rtmw.transfer.carry.content import Content
from rtmw.transfer.carry.half import Bytes, Desk, Outbox, Steps, Turns, run_stream
from rtmw.transfer.carry.journal import Journal
from rtmw.transfer.errors import TransferError, cause_of
from rtmw.transfer.header import Delivery
from rtmw.transfer.queues import Item
from rtmw.transfer.records import ENDED, Spooled, TransferId, TransferState, is_letter
from rtmw.transfer.wire import events as e
from rtmw.transfer.wire.frames import START, Mark, Raw, Terms, piece_size
from rtmw.transfer.wire.sending import Sending

__all__ = ["Outbound"]

_ROOM: Final = 4 << 20
"""Bytes of pieces that may be on their way from their sources to the stream."""
_AT_PEER: Final = frozenset({TransferState.SENT, TransferState.DELIVERED, TransferState.CONSUMED})
"""States on the common way of a transfer; reports of them are taken together."""


class Outbound:
    """Sends to one node, over any number of streams."""

    def __init__(self, node: str, desk: Desk, journal: Journal, terms: Terms | None = None) -> None:
        self.node, self._desk, self._journal = node, desk, journal
        self.machine = Sending(terms)
        self._step = Steps(self.machine.step, self._effect).tell
        self.turns = Turns()
        self.causes: dict[TransferId, str] = {}
        """Why a transfer waits, as its node has said."""
        self._newest: dict[int, int] = {}
        """The largest sequence of each incarnation that was offered in the life of this core."""
        self._contents: dict[TransferId, Content] = {}
        self._reports: dict[TransferId, TransferState] = {}
        """The last report of each transfer in the bytes that are read just now, if it is a common one."""
        self._outbox = Outbox(self._written)
        self._timer: asyncio.TimerHandle | None = None
        self._is_first, self._is_looking, self._is_up = True, False, False

    def ready(self) -> None:
        """Something is to be sent that was not there before. It is looked for once, however often this is said."""
        if not self._is_looking:
            self._is_looking = True
            asyncio.get_running_loop().call_soon(self.look)

    def look(self) -> None:
        """Look now for what is to be sent."""
        self._is_looking = False
        adds: list[e.Add] = []
        for item in self._desk.waiting(self.node):
            if item.record.header.delivery is Delivery.SMALL_RAW:
                self._add_raw(item)
            elif item.record.id not in self._contents and (add := self._add_of(item)) is not None:
                adds.append(add)
                self._newest[add.id.incarnation] = max(add.id.sequence, self._newest.get(add.id.incarnation, 0))
        self._is_first = False
        if adds:
            self._step(e.AddRun(tuple(adds)))

    def _add_raw(self, item: Item) -> None:
        """Send a SMALL_RAW, which goes now, or is lost."""
        record, end = item.record, TransferState.CONSUMED
        assert isinstance(record.body, bytes), "a SMALL_RAW is small"
        cause = "" if self._is_up else f"lost: node {self.node!r} is not connected"
        if self._is_up:
            self._step(e.AddRaw(Raw(record.sender, record.header, record.body)))
        else:
            end = TransferState.REFUSED
        self.turns.add(record.id, self._desk.report(record.id, end, cause))

    def _add_of(self, item: Item) -> e.Add | None:
        """Return the event that adds a transfer; None: it cannot be sent."""
        record = item.record
        body = self._desk.spool(record.body) if isinstance(record.body, Spooled) else record.body
        try:
            mark = self._open(record.id, item, body)
        except (TransferError, OSError) as error:
            self.turns.add(record.id, self._desk.report(record.id, TransferState.REFUSED, cause_of(error)))
            return None
        left = (record.deadline_ns / 1e9 - CLOCK.wall()) if record.deadline_ns else None
        deadline = None if left is None else self._now() + max(0.0, left)
        parts = self._contents[record.id].parts
        was_sent = item.state is not TransferState.ACCEPTED
        letter = body if is_letter(record.header) and isinstance(body, bytes) else None
        about = deadline, mark, was_sent, self._is_first, letter
        return e.Add(record.id, record.sender, record.header, parts, *about)

    def _open(self, id: TransferId, item: Item, body: bytes | Path) -> Mark:
        going = self._journal.going.get(id)
        content = Content(item.record.header.kind, body, going.accepted if going else ())
        self._contents[id] = content
        if going is None and (
            content.fingerprints or sum(part.length for part in content.parts) > self.machine.terms.block
        ):
            self._journal.source(id, content.fingerprints)
        return going.mark if going else START

    def withdraw(self, id: TransferId) -> None:
        """Withdraw a transfer that its program does not want any more, or whose lifetime has ended; `report` says what
        has become of it."""
        self._step(e.Withdraw(id))

    def take_advanced(self) -> set[TransferId]:
        """Return the transfers of which the node has said how much it has, since this was asked last."""
        advanced, self.machine.advanced = self.machine.advanced, set()
        return advanced

    async def run(self, stream: Bytes) -> None:
        """Send until the stream is over."""
        self.look()
        self._outbox.clear()
        self._step(e.Opened())
        self._step(e.Room(_ROOM))
        self._is_up = True
        try:
            await run_stream(stream, self._outbox, self._heard, self.node)
        finally:
            self._is_up = False
            self._step(e.Lost())
            self._outbox.clear()

    async def _heard(self, parts: list[bytes]) -> None:
        self._step(e.Heard(parts))
        self._take_reports()

    def _take_reports(self) -> None:
        """Logs in one batch what one read of the stream has reported."""
        reports, self._reports = self._reports, {}
        known = {id: state for id, state in reports.items() if id in self._contents}
        if known and not self._desk.report_run(known):
            for id, state in reports.items():
                self.turns.add(id, self._reached(e.Reached(id, state, "")))
            return
        ended = {id: state for id, state in reports.items() if state in ENDED}
        if ended:
            self.turns.add_run(ended, self._ended(ended))

    async def _ended(self, ends: dict[TransferId, TransferState]) -> None:
        await self._desk.durable()
        self._are_over(ends)

    def _are_over(self, ends: dict[TransferId, TransferState]) -> None:
        for id in ends:
            if id in self._contents:  # else it may be another node's, and this one only says so
                self._forget(id)
        self._step(e.Kept(ends))

    def _written(self, frames: list[bytes]) -> None:
        size = sum(map(piece_size, frames))
        if size:
            self._step(e.Room(size))

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    def _effect(self, effect: e.SendingEffect) -> None:
        match effect:
            case e.Write(data=data):
                self._outbox.put(data)
            case e.ReadSource():
                self._read(effect)
            case e.KeepMark(id=id, mark=mark):
                self._journal.sent(id, mark)
            case e.Reached(id=id, state=state, cause=cause):
                if state in _AT_PEER and not cause and id not in self.turns:
                    self._reports[id] = state
                else:
                    self.turns.add(id, self._reached(effect))
            case e.Failed(id=id, cause=cause):
                self._forget(id)
                self.turns.add(id, self._desk.report(id, TransferState.REFUSED, cause))
            case e.Delayed(id=id, cause=cause):
                self.causes[id] = cause
                self._desk.delayed(id)
                self._contents[id].close()
            case e.HasHad(newest=newest):
                self._desk.has_had(self.node, newest, self._newest)
            case e.SetTimer(at=at):
                if self._timer is not None:
                    self._timer.cancel()
                self._timer = asyncio.get_running_loop().call_at(at, self._step, e.Timer())

    def _read(self, effect: e.ReadSource) -> None:
        content = self._contents.get(effect.id)
        if content is None:
            return
        if content.is_in_memory and effect.id not in self.turns:  # at once, so that small bodies keep their order
            data = content.read(effect.position, effect.size)
            self._step(e.SourceRead(effect.id, effect.position, data))
        else:
            self.turns.add(effect.id, self._read_file(content, effect))

    async def _read_file(self, content: Content, effect: e.ReadSource) -> None:
        try:
            data = await asyncio.to_thread(content.read, effect.position, effect.size)
        except (TransferError, OSError) as error:
            self._step(e.Unreadable(effect.id, cause_of(error)))
        else:
            self._step(e.SourceRead(effect.id, effect.position, data))

    async def _reached(self, effect: e.Reached) -> None:
        id, state = effect.id, effect.state
        is_known = id in self._contents
        if is_known:
            await self._desk.report(id, state, effect.cause)
        if state in ENDED:
            self._are_over({id: state})
        elif state is TransferState.ACCEPTED and is_known:
            self._contents.pop(id).close()
            self.look()
            self._step(e.NotAdded(id))

    def _forget(self, id: TransferId) -> None:
        self.causes.pop(id, None)
        self._journal.done(id)
        content = self._contents.pop(id, None)
        if content is not None:
            content.close()

    async def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        await self.turns.close()
        for content in self._contents.values():
            content.close()
