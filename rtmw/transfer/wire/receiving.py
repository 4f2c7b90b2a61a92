"""The receiving half of the protocol with one peer, without I/O: over any number of streams, one after the other.

A transfer that arrives outlives its stream: after the next OFFER it goes on with the byte behind the last one.
under_way.py says what its stages are.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any, Final, NoReturn, TypeAlias

from rtmw.transfer.errors import TransfersDamaged
from rtmw.transfer.records import TransferId, TransferState
from rtmw.transfer.wire import events as e
from rtmw.transfer.wire import frames as f
from rtmw.transfer.wire.frames import MOST_ARRIVING, MOST_OFFERS, Chain, Terms, value_of
from rtmw.transfer.wire.under_way import Arriving, LaneKey, Stage, lane_key, runs_of

__all__ = ["OTHER_PARTS", "Receiving"]

OTHER_PARTS: Final = "what is offered has not the sizes of what was offered before; send it again"
_Entry: TypeAlias = tuple[int, int, int, Arriving | e.TakeLetters]
_DIFFERS: Final = "what came is not what was sent: the hashes differ; send it again"


class Receiving:
    """The receiving half; see the head of this file. `peer`: name of the node; it may send no other node's
    transfers."""

    def __init__(self, peer: str, terms: Terms | None = None) -> None:
        self.peer, self.terms = peer, terms or Terms()
        self.arriving: dict[TransferId, Arriving] = {}
        self._out: list[e.ReceivingEffect] = []
        self._refs: dict[int, Arriving] = {}
        self._lanes: dict[LaneKey, list[_Entry]] = {}
        """Heaps of what is whole and was not handed over. An entry that is not `_is_in_line` does not count."""
        self._entries = 0
        self._frames: f.Frames | None = None
        self._last_ref = self._streams = 0
        self._put_off = False
        """Something was put off on this stream."""

    def step(self, event: e.ReceivingEvent, now: float) -> list[e.ReceivingEffect]:
        """Return the effects of an event. Raises TransfersDamaged: the peer breaks a rule; reset the stream, and say
        Lost. The next event gives the effects of the frames before the wrong one."""
        self._EVENTS[type(event)](self, event)
        effects = self._out.copy()
        self._out.clear()
        return effects

    def _write(self, frame: f.Frame) -> None:
        if self._frames is not None:
            self._out.append(e.Write(f.pack(frame)))

    def _wrong(self, reason: str, position: int = 0) -> NoReturn:
        raise TransfersDamaged(f"stream of {self.peer!r}: {reason}", position)

    # ---- streams ----

    def _opened(self, event: e.Opened) -> None:
        self._lost(e.Lost())
        self._frames, self._streams = f.Frames(of_sender=True), self._streams + 1
        if event.newest is not None:
            self._write(f.Seen(event.newest))
        self._out.append(e.ListOwed())

    def _lost(self, _: e.Lost) -> None:
        self._frames, self._last_ref, self._put_off = None, 0, False
        self._refs.clear()
        for one in self.arriving.values():
            one.ref, one.is_asked = 0, False

    def _heard(self, event: e.Heard) -> None:
        if self._frames is None:
            return
        for frame in self._frames.feed(*event.parts):
            match frame:
                case f.Offer():
                    self._offer(frame)
                case f.Piece() | f.Whole():
                    self._bytes(frame)
                case f.Restart():
                    self._restart(frame)
                case f.Raw():
                    self._out.append(e.TakeRaw(frame))
                case f.Ask(id=id):
                    self._ask(self._own(id))
                case f.Cancel(id=id):
                    self._cancel(self._own(id))
                case f.LetterRun():
                    self._letters(frame)
                case f.Settled(ids=ids):
                    self._own(ids[0])
                    self._out.append(e.Settle(ids))
                case _:
                    self._wrong(f"{type(frame).__name__} of a sender")

    def _own(self, id: TransferId) -> TransferId:
        """Return the id, if it is of the peer: a node speaks of its own transfers. Raises TransfersDamaged."""
        if id.node != self.peer:
            self._wrong(f"a frame about {id}, a transfer of another node")
        return id

    # ---- offers ----

    def _offer(self, frame: f.Offer) -> None:
        self._check_offer(frame.ref)
        one = self.arriving.get(self._own(frame.id))
        if one is None and len(self.arriving) >= MOST_ARRIVING:
            self._later(frame.ref, f"{MOST_ARRIVING} others are arriving")
            return
        if one is None:
            one = self.arriving[frame.id] = Arriving(frame, Chain(self.terms.block))
            self._bind(one, frame.ref)
            self._out.append(e.Begin(frame))
            return
        if one.ref:
            self._wrong(f"{frame.id} was offered twice on one stream")
        if one.stage is Stage.COMPLETING:
            one.ref = frame.ref  # for the answer, which is on its way; bytes that follow are not needed
            return
        if frame.parts != one.offer.parts:  # its node has forgotten how they were
            self._refuse(one, OTHER_PARTS)
            return
        self._bind(one, frame.ref)
        one.early.clear()
        if one.stage is Stage.ARRIVING:
            self._resume(one)

    def _check_offer(self, ref: int) -> None:
        if ref <= self._last_ref:
            self._wrong(f"the ref {ref} after {self._last_ref}")
        if len(self._refs) >= MOST_OFFERS:
            self._wrong(f"more than {MOST_OFFERS} offers without an answer")
        self._last_ref = ref

    def _letters(self, run: f.LetterRun) -> None:
        """Take letters. All of a letter is here at once, so it is only COMPLETING."""
        self._own(next(iter(run.letters)))
        if run.value != value_of(run.letters):
            self._write(f.Report(tuple(run.letters), TransferState.REFUSED, _DIFFERS))
            return
        new: dict[TransferId, bytes] = {}
        parts = (f.Part(run.header.kind, run.header.length),)
        for ref, (id, body) in enumerate(run.letters.items(), run.ref):
            self._check_offer(ref)
            one = self.arriving.get(id)
            if one is not None and (one.ref or one.stage is not Stage.COMPLETING):
                self._wrong(f"{id} was offered before, and not so")
            if one is not None:
                one.ref = ref  # for the answer, which is on its way
            elif len(self.arriving) >= MOST_ARRIVING:
                self._later(ref, f"{MOST_ARRIVING} others are arriving")
            else:
                offer = f.Offer(ref, id, 0, run.sender, run.header, parts)
                one = self.arriving[id] = Arriving(offer, Chain(self.terms.block), Stage.COMPLETING)
                self._bind(one, ref)
                new[id] = body
        if new:
            first = next(iter(new))
            self._line_up(lane_key(run.sender, run.header), first, e.TakeLetters(run.sender, run.header, new))

    # ---- lanes ----

    def _line_up(self, key: LaneKey, id: TransferId, entry: Arriving | e.TakeLetters) -> None:
        """Put an entry into its lane. `id`: that of the transfer, or of the first letter."""
        self._entries += 1
        heapq.heappush(self._lanes.setdefault(key, []), (id.incarnation, id.sequence, self._entries, entry))
        self._go_on(key)

    def _is_in_line(self, entry: Arriving | e.TakeLetters) -> bool:
        return isinstance(entry, e.TakeLetters) or (entry.is_whole and self.arriving.get(entry.offer.id) is entry)

    def _go_on(self, key: LaneKey) -> None:
        """Hand over what is first in its lane."""
        lane = self._lanes.get(key)
        while lane:
            first = lane[0][-1]
            if isinstance(first, Arriving) and self._is_in_line(first):
                if first.is_completed and not first.is_handed and not (first.is_placed and self._is_behind(first)):
                    first.is_handed = True
                    self._out.append(e.HandOver(first.offer.id))
                return
            heapq.heappop(lane)
            if isinstance(first, e.TakeLetters):
                self._take_letters(first)
        self._lanes.pop(key, None)

    def _is_behind(self, one: Arriving) -> bool:
        """Does something come that was sent before it? Its WHOLE, which would have told, was on a stream before."""
        lane, place = one.lane, one.offer.id[1:]
        return any(
            not other.is_whole
            and other.stage is not Stage.COMPLETING
            and other.offer.id[1:] < place
            and other.lane == lane
            for other in self.arriving.values()
        )

    def _take_letters(self, run: e.TakeLetters) -> None:
        """Take the letters that were not cancelled while they stood in line."""
        letters = {id: body for id, body in run.letters.items() if id in self.arriving}
        for id in letters:
            self.arriving[id].is_handed = True
        if letters:
            self._out.append(run._replace(letters=letters))

    def _placed(self, event: e.Placed) -> None:
        """Take a transfer of which no byte is needed. It comes when all that was offered before in its lane has."""
        one = self.arriving.get(event.id)
        if one is None or one.stage is not Stage.BEGINNING:
            return
        self._refs.pop(one.ref, None)
        one.stage, one.is_completed, one.is_placed, one.early = Stage.COMPLETING, True, True, []
        self._is_whole(one)
        self._go_on(one.lane)

    def _completed(self, event: e.Completed) -> None:
        one = self.arriving.get(event.id)
        if one is not None and one.stage is Stage.COMPLETING:
            one.is_completed = True
            self._go_on(one.lane)

    def _handed_over(self, event: e.HandedOver) -> None:
        one = self.arriving.get(event.id)
        if one is not None and one.is_handed:
            one.is_whole = False  # its place is free
            self._go_on(one.lane)

    def _bind(self, one: Arriving, ref: int) -> None:
        one.ref, self._refs[ref] = ref, one

    def _is_small(self, one: Arriving) -> bool:
        """Do its bytes come at once, and always from the first one on?"""
        return one.offer.size <= self.terms.eager

    def _resume(self, one: Arriving) -> None:
        if self._is_small(one):
            if one.received:
                self._rewind(one)
        else:
            self._go(one)

    def _go(self, one: Arriving) -> None:
        if one.ref:
            one.told = one.received
            last = one.chain.marks[-1]
            self._write(f.Go(one.ref, one.received, self._limit(one), last.value))

    def _limit(self, one: Arriving) -> int:
        return one.offer.size if self._is_small(one) else one.durable + self.terms.reach

    def _begun(self, event: e.Begun) -> None:
        one = self.arriving.get(event.id)
        if one is None or one.stage is not Stage.BEGINNING:
            return
        one.stage, one.chain = Stage.ARRIVING, Chain(self.terms.block, event.mark)
        one.durable = one.marked = event.mark.position
        if one.is_asked:
            self._is_not_whole(one)
        elif not self._is_small(one):
            self._go(one)
        early, one.early = one.early, []
        for frame in early:
            self._more(one, frame)

    def _rewind(self, one: Arriving) -> None:
        one.chain, one.durable, one.marked, one.run = Chain(self.terms.block), 0, 0, one.run + 1
        self._out.append(e.Rewind(one.offer.id))

    def _restart(self, frame: f.Restart) -> None:
        one = self._refs.get(frame.ref)
        if one is None:
            self._check_ref(frame.ref)
        elif one.stage is not Stage.ARRIVING:
            self._wrong(f"RESTART of {one.offer.id}, which is {one.stage.value}")
        else:
            self._rewind(one)
            self._go(one)

    # ---- bytes ----

    def _check_ref(self, ref: int) -> None:
        """Check a ref that names no transfer now: bytes of one that was put off or has come may still arrive."""
        if ref > self._last_ref:
            self._wrong(f"the ref {ref} was not offered")

    def _bytes(self, frame: f.Piece | f.Whole) -> None:
        one = self._refs.get(frame.ref)
        if one is None:
            self._check_ref(frame.ref)
        else:
            self._more(one, frame)

    def _more(self, one: Arriving, frame: f.Piece | f.Whole) -> None:
        if one.stage is Stage.BEGINNING:
            self._keep_early(one, frame)
        elif isinstance(frame, f.Piece):
            self._take(one, frame)
        else:
            self._end(one, frame)

    def _keep_early(self, one: Arriving, frame: f.Piece | f.Whole) -> None:
        size = len(frame.data) if isinstance(frame, f.Piece) else 0
        have = sum(len(other.data) for other in one.early if isinstance(other, f.Piece))
        is_whole = bool(one.early) and isinstance(one.early[-1], f.Whole)
        if not self._is_small(one) or have + size > one.offer.size or is_whole:
            self._wrong(f"bytes of {one.offer.id} before GO")
        one.early.append(frame)
        if isinstance(frame, f.Whole):
            self._is_whole(one)

    def _is_whole(self, one: Arriving) -> None:
        if not one.is_whole:
            one.is_whole = True
            self._line_up(one.lane, one.offer.id, one)

    def _take(self, one: Arriving, frame: f.Piece) -> None:
        end = frame.position + len(frame.data)
        if one.stage is not Stage.ARRIVING or frame.position != one.received:
            self._wrong(f"a piece of {one.offer.id} at {frame.position}, where {one.received} is next")
        if end > min(self._limit(one), one.offer.size):
            self._wrong(f"a piece of {one.offer.id} up to {end}, where {self._limit(one)} is the limit")
        one.chain.add(frame.data)
        self._out.append(e.Store(one.offer.id, frame.position, frame.data))
        last = one.chain.marks[-1]
        if last.position > one.marked:
            one.marked = last.position
            self._out.append(e.MarkAt(one.offer.id, last, one.run))
        if one.received - one.told >= self.terms.window // 4 and not self._is_small(one):
            self._ack(one)

    def _ack(self, one: Arriving) -> None:
        if one.ref:
            one.told = one.received
            self._write(f.Ack(one.ref, one.received, one.durable, self._limit(one)))

    def _marked(self, event: e.Marked) -> None:
        one = self.arriving.get(event.id)
        if one is not None and event.run == one.run and event.mark.position > one.durable:
            one.durable = event.mark.position
            if one.stage is Stage.ARRIVING and not self._is_small(one):
                self._ack(one)

    def _end(self, one: Arriving, frame: f.Whole) -> None:
        id = one.offer.id
        if one.stage is not Stage.ARRIVING or one.received != one.offer.size:
            self._wrong(f"WHOLE of {id} at {one.received} of {one.offer.size}")
        if frame.value == one.chain.value:
            one.stage = Stage.COMPLETING
            self._out.append(e.Complete(id))
            self._is_whole(one)
            return
        self._refuse(one, _DIFFERS)

    # ---- answers ----

    def _refuse(self, one: Arriving, cause: str) -> None:
        self._forget(one)
        self._out.append(e.Drop(one.offer.id, self._streams))
        self._write(f.Report((one.offer.id,), TransferState.REFUSED, cause))

    def _forget(self, one: Arriving) -> None:
        self._refs.pop(one.ref, None)
        del self.arriving[one.offer.id]
        if self._lanes:
            self._go_on(one.lane)

    def _found(self, event: e.StatesFound) -> None:
        for id, (state, _) in event.states.items():
            one = self.arriving.get(id)
            if one is not None and state is not TransferState.HELD:
                self._forget(one)
        for (state, cause), ids in runs_of(event.states):
            self._write(f.Report(ids, state, cause))

    def _put_it_off(self, event: e.PutOff) -> None:
        one = self.arriving.get(event.id)
        if one is None:
            return
        self._forget(one)
        if one.is_asked:
            self._is_not_whole(one)
        elif one.ref:
            self._later(one.ref, event.cause, event.rest)

    def _later(self, ref: int, cause: str, rest: float | None = None) -> None:
        self._put_off = True
        self._write(f.Later(ref, round((self.terms.rest if rest is None else rest) * 1000), cause))

    def _try_again(self, _: e.TryAgain) -> None:
        if self._put_off:
            self._put_off = False
            self._write(f.Ready())

    def _ask(self, id: TransferId) -> None:
        one = self.arriving.get(id)
        if one is None:
            self._out.append(e.Look(id))
        elif one.stage is Stage.ARRIVING:
            self._is_not_whole(one)
        else:
            one.is_asked = True

    def _is_not_whole(self, one: Arriving) -> None:
        """Tell the sender that a transfer is not whole here, so that it is offered anew."""
        self._refs.pop(one.ref, None)
        one.ref, one.is_asked = 0, False
        self._write(f.Report((one.offer.id,), TransferState.ACCEPTED, "it is not whole here"))

    def _cancel(self, id: TransferId) -> None:
        one = self.arriving.get(id)
        if one is not None and not one.is_handed:
            self._forget(one)
        self._out.append(e.Drop(id, self._streams))

    def _dropped(self, event: e.Dropped) -> None:
        """Report a transfer that was dropped, unless that was asked on a stream before: on this one, the transfer may
        have been offered anew."""
        if event.stream == self._streams:
            self._found(e.StatesFound({event.id: (TransferState.CANCELLED, "")}))

    _EVENTS: Final[dict[type[Any], Callable[[Receiving, Any], None]]] = {
        e.Opened: _opened,
        e.Lost: _lost,
        e.Heard: _heard,
        e.Begun: _begun,
        e.Placed: _placed,
        e.Completed: _completed,
        e.HandedOver: _handed_over,
        e.StatesFound: _found,
        e.Dropped: _dropped,
        e.PutOff: _put_it_off,
        e.Marked: _marked,
        e.TryAgain: _try_again,
    }
