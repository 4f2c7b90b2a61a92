"""The half of a peer that receives: writes what comes, and hands it to the core when it is whole.

Letters come whole, many at a time (`Letters`).
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Final

from rtmw.disk import DISK, Disk
from rtmw.errors import LogFull
from rtmw.transfer.carry.content import Arrival, Here, Written
from rtmw.transfer.carry.half import Bytes, Desk, End, Outbox, Steps, Turns, Work, log, run_stream
from rtmw.transfer.carry.journal import Coming, Journal
from rtmw.transfer.errors import TransferRefused
from rtmw.transfer.files import Folder
from rtmw.transfer.header import Header
from rtmw.transfer.records import TransferId, TransferState
from rtmw.transfer.wire import events as e
from rtmw.transfer.wire.frames import START, Mark, Offer, Raw, Terms
from rtmw.transfer.wire.receiving import OTHER_PARTS, Receiving

__all__ = ["Inbound"]


_MOST_OPEN: Final = 256
"""Largest number of transfers that come into files; each has up to four of them open."""
_INBOX_S: Final = 60.0
"""Seconds until a file for which no inbox is open is offered again: the bytes of a small one come with each offer.
When an inbox is opened, it is offered at once (`try_again`)."""
_MOST_PENDING: Final = 8 << 20
"""Bytes that wait for the disk; more are not read from the stream."""


class Inbound:
    """Receives from one node, over any number of streams. `bodies`: a folder for bodies that have not come whole."""

    def __init__(self, node: str, desk: Desk, journal: Journal, bodies: Path, terms: Terms | None = None) -> None:
        self.node, self._desk, self._journal, self._bodies = node, desk, journal, bodies
        self.terms = terms or Terms()
        self.disk: Disk = DISK
        """The disk to which what comes is written: bodies, and files of inboxes."""
        self.tells_seen = False  # the peer does not know that frame
        self.machine = Receiving(node, self.terms)
        self._steps = Steps(self.machine.step, self._effect)
        self.turns = Turns()
        self._letters = Letters(node, desk, self.turns, self._guard, lambda id: self._step(self._found(id)))
        self._syncs = Turns()
        """Makes bytes durable beside the turns; for each transfer one block after the other."""
        self._here: dict[TransferId, Here] = {}
        self._outbox = Outbox(lambda _: None)
        self._moved: dict[TransferId, End] = {}
        """States that the peer is to be told in one frame; the last one of each transfer."""
        self._settled: dict[TransferId, None] = {}
        """Transfers of which the bytes that are read just now say that the peer knows their end."""
        self._pending = 0
        self._drained = asyncio.Event()

    async def run(self, stream: Bytes) -> None:
        """Receive until the stream is over."""
        self._outbox.clear()
        self._step(e.Opened(tuple(self._desk.newest_of(self.node)) if self.tells_seen else None))
        try:
            await run_stream(stream, self._outbox, self._heard, self.node)
        finally:
            self._step(e.Lost())
            self._outbox.clear()

    async def _heard(self, parts: list[bytes]) -> None:
        self._step(e.Heard(parts))
        if self._settled:
            self._desk.settled(self._settled)
            self._settled = {}
        while self._pending > _MOST_PENDING:
            self._drained.clear()
            await self._drained.wait()

    def _step(self, event: e.ReceivingEvent) -> None:
        self._tell_moved()  # which was before
        self._steps.tell(event)

    def moved(self, id: TransferId, state: TransferState, cause: str) -> None:
        """Tell the node that its transfer has another state here, durably; together with this turn's other moves."""
        if not self._moved:
            asyncio.get_running_loop().call_soon(self._tell_moved)
        self._moved[id] = state, cause

    def _tell_moved(self) -> None:
        if self._moved:
            moved, self._moved = self._moved, {}
            self._steps.tell(e.StatesFound(moved))

    def try_again(self) -> None:
        """Try what was put off: a receiver has come, or there is room again."""
        self._step(e.TryAgain())

    def left(self, wall_ns: int) -> dict[TransferId, Coming]:
        """Return the transfers that their node has begun and does not send now; the journal keeps since when. Call it
        now and then."""
        found: dict[TransferId, Coming] = {}
        for id, coming in list(self._journal.coming.items()):
            if id.node != self.node or coming.is_placed or id in self.turns:
                continue
            one = self.machine.arriving.get(id)
            is_here = one is not None and one.ref != 0
            if is_here == bool(coming.left_ns):
                self._journal.left(id, 0 if is_here else wall_ns)
            if not is_here:
                found[id] = self._journal.coming[id]
        return found

    def free(self, id: TransferId, cause: str) -> None:
        """Remove the part of a transfer that has come. If the sending node comes back, it begins anew."""
        self._step(e.PutOff(id, cause))
        self.turns.add(id, self._free(id, cause))

    async def _free(self, id: TransferId, cause: str) -> None:
        await self._syncs.done(id)
        coming = self._journal.coming.get(id)
        if coming is not None and await self._remove(id):
            self._desk.freed(coming.offer, cause)

    @property
    def failed(self) -> BaseException | None:
        """An unexpected error; the core has to end with it."""
        return self.turns.failed or self._syncs.failed

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    def _effect(self, effect: e.ReceivingEffect) -> None:
        match effect:
            case e.Write(data=data):
                self._outbox.put(data)
            case e.Begin(offer=offer):
                self._begin_now(offer)
            case e.Store(id=id, position=position, data=data):
                self._store_now(id, position, data)
            case e.MarkAt():
                self.turns.add(effect.id, self._guard(effect.id, self._mark(effect)))
            case e.Rewind(id=id):
                self.turns.add(id, self._guard(id, self._rewind(id)))
            case e.Complete(id=id):
                self._complete_now(id)
            case e.HandOver(id=id):
                self.turns.add(id, self._guard(id, self._hand_over(id)))
            case e.Drop(id=id, stream=stream):
                self.turns.add(id, self._drop(id, stream))
            case e.Look(id=id):
                self._step(self._found(id))
            case e.TakeLetters():
                self._letters.take(effect)
            case e.Settle(ids=ids):
                self._settled.update(dict.fromkeys(ids))
            case e.ListOwed():
                self._list_owed()
            case e.TakeRaw():
                self._letters.take_raw(effect.raw)

    def _list_owed(self) -> None:
        self._step(e.StatesFound(dict(self._desk.owed(self.node))))
        # Also of what this core received: its sender may be another.
        parts = {*self._here, *(id for id in self._journal.coming if id.node == self.node)}
        self._step(e.StatesFound(dict.fromkeys(parts, (TransferState.HELD, ""))))

    def _found(self, id: TransferId) -> e.StatesFound:
        return e.StatesFound({id: self._desk.look(id) or (TransferState.ACCEPTED, "")})

    async def _guard(self, id: TransferId, work: object) -> None:
        """Do work for a transfer. A full disk puts it off; if it is refused, its sender is told why."""
        try:
            await work  # type: ignore[misc]
        except TransferRefused as error:
            self._leave(id, is_over=True)
            self._step(e.StatesFound({id: (TransferState.REFUSED, str(error))}))
        except (OSError, LogFull) as error:
            if (here := self._here.get(id)) is not None:
                here.has_failed = True
            self._leave(id, is_over=False)
            self._step(e.PutOff(id, f"the receiving node cannot take it now: {error}"))

    # ---- one transfer ----

    def _begin_now(self, offer: Offer) -> None:
        """Begin a transfer. One that fits into memory does not wait; so such transfers keep their order."""
        id = offer.id
        is_known = id in self.turns or id in self._journal.coming or self._desk.look(id) is not None
        if is_known or not offer.fits_in_memory:
            self.turns.add(id, self._guard(id, self._begin(offer)))
            return
        self._close_here(id)
        self._here[id] = Here(offer, self._until(offer), bytearray())
        self._step(e.Begun(id, START))

    def _until(self, offer: Offer) -> float | None:
        return self._now() + offer.left_ns / 1e9 if offer.left_ns else None

    def _store_now(self, id: TransferId, position: int, data: bytes | memoryview) -> None:
        here = self._here.get(id)
        if here is not None and here.arrival is None and id not in self.turns:
            here.memory[position : position + len(data)] = data
            return
        self._pending += len(data)
        self.turns.add(id, self._guard(id, self._store(id, position, data)))

    async def _begin(self, offer: Offer) -> None:
        await self._syncs.done(offer.id)
        id = offer.id
        if self._desk.look(id) is not None:
            self._leave(id, is_over=True)
            self._step(self._found(id))
            return
        self._leave(id, is_over=False)
        here = Here(offer, self._until(offer), bytearray())
        coming = self._journal.coming.get(id)
        is_placed = coming is not None and coming.is_placed
        if coming is not None and not is_placed and coming.offer.parts != offer.parts:
            await self._remove(id)
            raise TransferRefused(OTHER_PARTS)
        if not is_placed:
            self._desk.check(self.node, self._header(here, offer.header.length), offer.size)
        mark = START if offer.fits_in_memory else await self._opened(here)
        if mark is None:
            return
        self._here[id] = here
        # Placed: a crash came between its files and the log of the core.
        self._step(e.Placed(id) if is_placed else e.Begun(id, mark))

    async def _opened(self, here: Here) -> Mark | None:
        """Open the arrival as `_open` does. A failure leaves nothing of a transfer that the journal does not know."""
        try:
            return await self._open(here)
        except BaseException:
            if here.arrival is not None and here.offer.id not in self._journal.coming:
                here.arrival.discard()
            here.close()
            raise

    async def _open(self, here: Here) -> Mark | None:
        """Open the arrival, and return the mark up to which it had come; None: put off. The journal has its folder."""
        offer, coming = here.offer, self._journal.coming.get(here.offer.id)
        if sum(other.arrival is not None for other in self._here.values()) >= _MOST_OPEN:
            raise OSError(f"{_MOST_OPEN} others are arriving")
        path = ""
        if offer.has_files:
            found = await self._desk.folder(offer.header.to)
            if coming is None and found is None:
                service = offer.header.to.service
                waits = f"waits for an inbox of {service!r} with a folder; none is open there"
                self._step(e.PutOff(offer.id, waits, _INBOX_S))
                return None
            path = coming.folder if coming is not None else str(found)
            here.folder = Folder(path, self.disk)
        mark = coming.mark if coming is not None else START
        self._check_room(here, mark)
        here.arrival = await asyncio.to_thread(Arrival, offer, self._bodies, here.folder, self.disk)
        if coming is None or not coming.is_placed:
            here.arrival.check_free()
        if coming is None:
            self._journal.begin(offer, path)
        elif not coming.is_placed and not await asyncio.to_thread(here.arrival.is_as, mark, self.terms.block):
            mark = START
            self._journal.mark(offer.id, mark)
        return mark

    def _check_room(self, here: Here, mark: Mark) -> None:
        if here.folder is None:
            found = os.statvfs(self._bodies)
            free = found.f_bavail * found.f_frsize
        else:
            free = here.folder.free()
        if free < here.offer.size - mark.position:
            raise OSError(f"{here.offer.size - mark.position} bytes are to come, and {free} are free")

    async def _store(self, id: TransferId, position: int, data: bytes | memoryview) -> None:
        here = self._here.get(id)
        try:
            if here is None:
                return
            if here.arrival is None:
                here.memory[position : position + len(data)] = data
            else:
                await asyncio.to_thread(here.arrival.write, position, data)
        finally:
            self._pending -= len(data)
            self._drained.set()

    async def _mark(self, effect: e.MarkAt) -> None:
        """Begin to make a mark durable. The disk and the stream work at a time: more is written meanwhile."""
        here = self._here.get(effect.id)
        if here is not None and here.arrival is not None:
            written = await asyncio.to_thread(here.arrival.written)
            self._syncs.add(effect.id, self._sync(here, effect, written))

    async def _sync(self, here: Here, effect: e.MarkAt, written: Written) -> None:
        try:
            with written:
                await asyncio.to_thread(written.sync)
            if here.has_failed:
                return
            await asyncio.to_thread(self._journal.mark(effect.id, effect.mark).resolve)
        except (OSError, LogFull) as error:
            if not here.has_failed:
                here.has_failed = True
                self.turns.add(effect.id, self._guard(effect.id, _failed(error)))  # its files are closed in its turn
        else:
            self._step(e.Marked(effect.id, effect.mark, effect.run))

    async def _rewind(self, id: TransferId) -> None:
        await self._syncs.done(id)
        here = self._here.get(id)
        if here is not None:
            here.memory.clear()
            if here.arrival is not None:
                self._journal.mark(id, START)

    def _complete_now(self, id: TransferId) -> None:
        here = self._here.get(id)
        if here is not None and here.arrival is None and id not in self.turns:
            self._step(e.Completed(id))
        else:
            self.turns.add(id, self._guard(id, self._complete(id)))

    async def _complete(self, id: TransferId) -> None:
        await self._syncs.done(id)
        here = self._here.get(id)
        if here is None or here.has_failed:
            return
        if here.arrival is not None:
            header = self._header(here, here.arrival.size)
            self._desk.check(self.node, header, here.offer.size)  # while nothing is visible
            await asyncio.to_thread(here.arrival.complete)
            await asyncio.to_thread(self._journal.place(id).resolve)
        self._step(e.Completed(id))

    async def _hand_over(self, id: TransferId) -> None:
        """Make the files visible, and hand the transfer to the core."""
        here = self._here.get(id)
        if here is None:
            return
        body: bytes | Path = bytes(here.memory)
        size = len(here.memory)
        if here.arrival is not None:
            body, size = await asyncio.to_thread(here.arrival.make_visible), here.arrival.size
        await self._desk.arrive(self._header(here, size), body, here.offer.sender, id)
        self._step(e.HandedOver(id))
        await self._desk.durable()
        if here.arrival is not None:
            here.arrival.remove()
        self._journal.end(id)
        self._close_here(id)
        self._step(self._found(id))

    def _header(self, here: Here, size: int) -> Header:
        """Return the header that it has in this core: for this node, with the lifetime that is left."""
        left = 0 if here.until is None else max(1, round((here.until - self._now()) * 1e9))
        return replace(header_here(here.offer.header), length=size, lifetime_ns=left)

    async def _drop(self, id: TransferId, stream: int) -> None:
        await self._syncs.done(id)
        if self._desk.look(id) is not None:
            await self._desk.withdraw(id)
            self._step(self._found(id))
            return
        await self._remove(id)
        self._step(e.Dropped(id, stream))

    async def _remove(self, id: TransferId) -> bool:
        """Remove what has come. False: its files are still there."""
        try:
            await self._discard(id)
        except (TransferRefused, OSError) as error:  # what is left is swept when an inbox has the folder again
            log.warning("what has come of transfer %s is not removed: %s", id, error)
            self._journal.end(id)
            self._close_here(id)
            return False
        return True

    async def _discard(self, id: TransferId) -> None:
        here, coming = self._here.get(id), self._journal.coming.get(id)
        if here is None and coming is not None:
            folder = Folder(coming.folder, self.disk) if coming.folder else None
            here = Here(coming.offer, None, bytearray(), None, folder)
            here.arrival = await asyncio.to_thread(Arrival, coming.offer, self._bodies, folder, self.disk)
            self._here[id] = here
        if here is not None and here.arrival is not None:
            await asyncio.to_thread(here.arrival.discard)
        self._leave(id, is_over=True)

    def _leave(self, id: TransferId, *, is_over: bool) -> None:
        here = self._here.get(id)
        if is_over:
            if here is not None and here.arrival is not None:
                here.arrival.discard()
            self._journal.end(id)
        self._close_here(id)

    def _close_here(self, id: TransferId) -> None:
        here = self._here.pop(id, None)
        if here is not None:
            here.close()

    async def close(self) -> None:
        await self.turns.close()
        await self._syncs.close()
        for id in list(self._here):
            self._close_here(id)


async def _failed(error: Exception) -> None:
    raise error


@lru_cache(maxsize=1024)
def header_here(header: Header) -> Header:
    """Return the header without its node, as that node has it. Remembered, because senders repeat themselves."""
    return replace(header, to=replace(header.to, node=""))


class Letters:
    """Hands letters of the peer `node` to the core. `turns`: the work for all that comes from it. `guard`: makes work
    for a transfer that may be refused, or put off. `told`: tells the peer how a transfer is."""

    def __init__(
        self,
        node: str,
        desk: Desk,
        turns: Turns,
        guard: Callable[[TransferId, Work], Work],
        told: Callable[[TransferId], None],
    ) -> None:
        self._node, self._desk, self._turns, self._guard, self._told = node, desk, turns, guard, told
        self.refused_raw = 0
        self._alone = 0
        """Letters that go one by one, and have no place in their queue yet: those behind do not overtake them."""

    def take(self, run: e.TakeLetters) -> None:
        """Hand over the letters that are new, as many at a time as go together. From one on that cannot be handed over
        now, each is in its turn."""
        header, turns, letters = header_here(run.header), self._turns, run.letters
        new = {id: body for id, body in letters.items() if id not in turns and self._desk.look(id) is None}
        taken: set[TransferId] = set()
        with suppress(LogFull, TransferRefused):
            while new and not self._alone:
                count = self._desk.arrive_run(self._node, header, run.sender, new)
                ids = tuple(islice(new, count))
                turns.add_run(ids, self._desk.durable())  # until then nothing else is done with them
                taken.update(ids)
                new = dict(islice(new.items(), count, None))
        for id, body in letters.items():
            if id not in taken:
                self._alone += 1
                turns.add(id, self._guard(id, self._take_one(header, run.sender, id, body)))

    async def _take_one(self, header: Header, sender: str, id: TransferId, body: bytes) -> None:
        try:
            if self._desk.look(id) is None:
                await self._desk.arrive(header, body, sender, id)
        finally:
            self._alone -= 1
        await self._desk.durable()
        self._told(id)

    def take_raw(self, raw: Raw) -> None:
        try:
            self._desk.take_raw(self._node, header_here(raw.header), raw.body, raw.sender)
        except TransferRefused as error:
            self.refused_raw += 1
            if self.refused_raw == 1:
                log.warning("a SMALL_RAW of node %s is lost; more are counted only: %s", self._node, error)
