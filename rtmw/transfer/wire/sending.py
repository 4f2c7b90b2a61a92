"""The sending half of the protocol with one peer, without I/O: over any number of streams, one after the other.

The phases of a transfer and the order of transfers stand in under_way.py.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from operator import itemgetter
from typing import Any, Final, cast

from rtmw.transfer.errors import TransfersDamaged
from rtmw.transfer.records import ENDED, TransferId, TransferState
from rtmw.transfer.wire import events as e
from rtmw.transfer.wire import frames as f
from rtmw.transfer.wire.frames import MOST_OFFERS, Chain, Terms
from rtmw.transfer.wire.under_way import MOST_FILES, Lane, LaneKey, Letters, Outgoing, Phase, lane_key, runs_of

__all__ = ["Sending"]

_TAKEN: Final = (TransferState.DELIVERED, TransferState.DEAD)


class Sending:
    """The sending half; see the head of this file. `transfers`: by id, in the order in which they were added."""

    def __init__(self, terms: Terms | None = None) -> None:
        self.terms = terms or Terms()
        self.transfers: dict[TransferId, Outgoing] = {}
        self.sent_bytes = 0
        """Bytes of all pieces, also of those that were sent again."""
        self.advanced: set[TransferId] = set()
        """Transfers of which the peer has said how much it has, since somebody has looked and emptied it."""
        self._out: list[e.SendingEffect] = []
        self._refs: dict[int, Outgoing] = {}
        self._lanes: dict[LaneKey, Lane] = {}
        """Lanes with something to be sent on this stream."""
        self._stirred: dict[LaneKey, None] = {}
        """Lanes whose front may have changed in this step."""
        self._queues: list[dict[LaneKey, None]] = [{} for _ in range(8)]
        """Lanes of which more may be offered, by priority; the one that has waited longest first."""
        self._files = 0
        """Number of those in `_refs` for which the peer opens files."""
        self._resting: list[tuple[float, int, TransferId]] = []
        """A heap: when transfers that were put off are offered again."""
        self._catching_up: list[tuple[int, int, Outgoing]] = []
        self._sending: list[tuple[int, int, Outgoing]] = []
        """Heaps: the order in which transfers are read on. An entry counts if its turn is that of its transfer."""
        self._letters = Letters(self._write)
        self._frames: f.Frames | None = None
        self._last_ref = self._last_turn = self._room = self._rests = 0
        self._now = 0.0

    def step(self, event: e.SendingEvent, now: float) -> list[e.SendingEffect]:
        """Return the effects of an event. TransfersDamaged: the peer breaks a rule; reset the stream, and say Lost."""
        self._now = now
        self._EVENTS[type(event)](self, event)
        self._offer_next()
        self._read_next()
        effects = self._out.copy()
        self._out.clear()
        return effects

    def _write(self, frame: f.Frame) -> None:
        self._out.append(e.Write(f.pack(frame)))

    # ---- streams ----

    def _opened(self, _: e.Opened) -> None:
        self._lost(e.Lost())
        self._frames = f.Frames(of_sender=False)
        for one in self.transfers.values():
            if one.phase is Phase.AT_PEER:
                self._ask(one)
            elif one.phase is Phase.RETURNING:
                self._lane(one).hold(one)
            if one.withdrawn and one.phase is not Phase.ENDED:
                self._write(f.Cancel(one.add.id))
            self._enqueue(one)

    def _lost(self, _: e.Lost) -> None:
        self._frames, self._room, self._files = None, 0, 0
        for table in (self._refs, self._lanes, self._stirred, *self._queues):
            cast("dict[Any, Any]", table).clear()
        for heap in (self._catching_up, self._sending):
            heap.clear()
        self._resting.clear()
        for one in self.transfers.values():
            one.ref, one.limit, one.turn, one.reserved, one.is_queued, one.is_asked = 0, 0, 0, 0, False, False
            if one.phase not in (Phase.AT_PEER, Phase.RETURNING, Phase.ENDED):
                one.phase = Phase.WAITING

    def _ask(self, one: Outgoing) -> None:
        one.is_asked = True
        self._lane(one).hold(one)
        self._write(f.Ask(one.add.id))

    # ---- lanes ----

    def waits_for(self, id: TransferId) -> TransferId | None:
        """Return the transfer that was sent before this one, and holds it back; None: there is none."""
        one = self.transfers.get(id)
        front = self._lane(one).front if one is not None and one.holds_back else None
        return front.add.id if front is not None and front is not one else None

    def _lane(self, one: Outgoing) -> Lane:
        key = lane_key(one.add.sender, one.add.header)
        return self._lanes.get(key) or self._lanes.setdefault(key, Lane())

    def _stir(self, one: Outgoing) -> None:
        if self._frames is not None:
            self._stirred[lane_key(one.add.sender, one.add.header)] = None

    def _finish(self, key: LaneKey) -> None:
        """Send WHOLE for fronts of which all bytes are sent. The lane is offered from, if something waits in it."""
        lane = self._lanes.get(key)
        if lane is None:
            return
        while (one := lane.front) is not None and one.is_sent:
            assert one.chain is not None
            one.phase, one.in_doubt = Phase.WHOLE, True
            self._letters.write()  # they were before it
            self._write(f.Whole(one.ref, one.chain.value))
        self._queues[key.priority].pop(key, None)
        if lane.next is not None:
            self._queues[key.priority][key] = None
        elif one is None:
            del self._lanes[key]

    def _room_for(self, event: e.Room) -> None:
        self._room += event.bytes

    # ---- the program ----

    def _add(self, event: e.Add) -> None:
        known = self.transfers.get(event.id)
        if known is not None and known.phase is not Phase.RETURNING:
            return
        if known is not None:
            known.phase = Phase.ENDED
        phase = Phase.AT_PEER if event.was_sent else Phase.WAITING
        doubt = event.in_doubt or event.was_sent
        one = self.transfers[event.id] = Outgoing(event, phase, in_doubt=doubt, kept=event.mark.position)
        if self._frames is None:
            return
        if one.phase is Phase.AT_PEER:
            self._ask(one)
        self._enqueue(one)

    def _not_added(self, event: e.NotAdded) -> None:
        one = self.transfers.get(event.id)
        if one is not None and one.phase is Phase.RETURNING:
            one.phase = Phase.ENDED
            del self.transfers[event.id]
            self._stir(one)

    def _enqueue(self, one: Outgoing) -> None:
        if one.phase is Phase.WAITING and not one.withdrawn:
            one.is_queued = True
            self._lane(one).queue(one)
            self._stir(one)

    def _add_run(self, event: e.AddRun) -> None:
        for add in event.adds:
            self._add(add)

    def _add_raw(self, event: e.AddRaw) -> None:
        if self._frames is not None:
            self._write(event.raw)

    def _withdraw(self, event: e.Withdraw) -> None:
        one = self.transfers.get(event.id)
        is_over = one is None or one.phase in (Phase.RETURNING, Phase.ENDED)
        if one is None or is_over or one.withdrawn or one.was_taken:
            return
        one.withdrawn, one.is_queued = True, False
        self._stir(one)
        if self._frames is not None:
            self._write(f.Cancel(event.id))
        if not one.in_doubt:
            self._leave(one)
            one.phase = Phase.ENDED
            self._out.append(e.Reached(event.id, TransferState.CANCELLED, ""))

    def _kept_end(self, event: e.Kept) -> None:
        """Tell the peer that ends are kept. SETTLED may get lost: then the peer reports the end again."""
        for id in event.ends:
            one = self.transfers.get(id)
            if one is not None and one.phase is Phase.ENDED:
                del self.transfers[id]
        if self._frames is not None:
            for state, ids in runs_of(event.ends):
                self._write(f.Settled(ids, state))

    def _leave(self, one: Outgoing) -> None:
        """Send no more bytes of a transfer."""
        self._files -= self._refs.pop(one.ref, None) is not None and one.needs_file
        self._room += one.reserved  # what is being read of it will not be written
        self._stir(one)
        one.ref, one.turn, one.reserved, one.is_queued = 0, 0, 0, False

    # ---- offers ----

    def _timer(self, _: e.Timer) -> None:
        """`_offer_next` looks at the time."""

    def _offer_next(self) -> None:
        while self._resting and self._resting[0][0] <= self._now:
            self._rested(heapq.heappop(self._resting)[2])
        if self._resting:
            self._out.append(e.SetTimer(self._resting[0][0]))
        while self._stirred:
            stirred, self._stirred = self._stirred, {}
            for key in stirred:
                self._finish(key)
            for queue in reversed(self._queues):
                for key in list(queue) if len(self._refs) < MOST_OFFERS else ():
                    self._offer_of(self._lanes[key], queue, key)
        self._letters.write()

    def _offer_of(self, lane: Lane, queue: dict[LaneKey, None], key: LaneKey) -> None:
        """Offer what may be of a lane. It stays in the queue, as the last one, if it waits for room among the offers
        and not for its front."""
        del queue[key]
        while (one := lane.next) is not None:
            front = lane.front
            is_front = one is front
            if not is_front and (one.add.letter is not None or lane.has_many_ahead or not (front and front.ref)):
                return
            most_files = MOST_FILES if is_front else MOST_FILES // 2
            if len(self._refs) >= MOST_OFFERS or (one.needs_file and self._files >= most_files):
                queue[key] = None
                return
            one.is_queued = False
            self._offer(one)
            lane.hold(one)
            self._stir(one)

    def _rested(self, id: TransferId) -> None:
        one = self.transfers.get(id)
        if one is not None and not one.is_queued and not one.ref:
            self._enqueue(one)

    def _offer(self, one: Outgoing) -> None:
        self._last_ref += 1
        one.ref, self._refs[self._last_ref] = self._last_ref, one
        self._files += one.needs_file
        add = one.add
        if add.letter is not None:
            one.phase, one.in_doubt = Phase.WHOLE, True
            self._letters.add(one.ref, add, add.letter)
            return
        self._letters.write()
        left = 0 if add.deadline is None else max(1, round((add.deadline - self._now) * 1e9))
        self._write(f.Offer(one.ref, add.id, left, add.sender, add.header, add.parts))
        if one.size <= self.terms.eager:
            one.chain, one.limit = Chain(self.terms.block), one.size
            self._send_from_here(one)
        else:
            one.phase = Phase.OFFERED

    # ---- bytes ----

    def _go(self, frame: f.Go) -> None:
        one = self._refs.get(frame.ref)
        if one is None:
            return
        if one.phase is not Phase.OFFERED or not frame.position <= min(frame.limit, one.size):
            raise TransfersDamaged(f"GO for {one.add.id}, which is {one.phase.value}: {frame.position}", frame.position)
        one.in_doubt = one.in_doubt and one.withdrawn
        one.goal, one.limit, one.value, one.received = frame.position, frame.limit, frame.value, frame.position
        self.advanced.add(one.add.id)
        block = self.terms.block
        one.chain, one.phase = Chain(block, one.known_before(frame.position, block)), Phase.CATCHING_UP
        self._caught_up(one)
        self._await_turn(one)

    def _caught_up(self, one: Outgoing) -> None:
        """Go on to SENDING, if all is read that the peer has."""
        assert one.chain is not None
        if one.chain.position < one.goal:
            return
        if one.chain.marks[-1].value != one.value:
            self._write(f.Restart(one.ref))
            one.phase, one.chain = Phase.OFFERED, None
            return
        self._send_from_here(one)

    def _send_from_here(self, one: Outgoing) -> None:
        assert one.chain is not None
        one.phase, one.began = Phase.SENDING, (self._now, one.chain.position)
        self._stir(one)
        self._await_turn(one)

    def _await_turn(self, one: Outgoing) -> None:
        if one.turn or not one.has_more:
            return
        self._last_turn += 1
        one.turn = self._last_turn
        heap = self._catching_up if one.phase is Phase.CATCHING_UP else self._sending
        heapq.heappush(heap, (-one.add.header.priority, one.turn, one))

    def _read_next(self) -> None:
        """Ask for the next bytes. The transfers of the highest priority take turns."""
        while (one := self._take_turn()) is not None:
            assert one.chain is not None
            end = one.goal if one.phase is Phase.CATCHING_UP else min(one.limit, one.size)
            size = min(self.terms.piece, end - one.chain.position)
            one.reserved = size if one.phase is Phase.SENDING else 0
            self._room -= one.reserved
            one.reading, one.turn = one.ref, 0
            self._out.append(e.ReadSource(one.add.id, one.chain.position, size))

    def _take_turn(self) -> Outgoing | None:
        """Return whose turn it is, or None. Pieces need room on the stream; reading to catch up does not."""
        heaps = [self._catching_up, self._sending] if self._room > 0 else [self._catching_up]
        for heap in heaps:
            while heap and heap[0][2].turn != heap[0][1]:
                heapq.heappop(heap)
        return heapq.heappop(min(filter(None, heaps), key=itemgetter(0)))[2] if any(heaps) else None

    def _source_read(self, event: e.SourceRead) -> None:
        one = self.transfers.get(event.id)
        if one is None:
            return
        asked, one.reading = one.reading, 0
        if asked != one.ref or one.chain is None:
            self._await_turn(one)  # these bytes are of a stream before
            return
        if one.phase is Phase.SENDING:
            self._write(f.Piece(one.ref, event.position, event.data))
            one.reserved = 0
            self.sent_bytes += len(event.data)
        one.chain.add(event.data)
        for mark in one.chain.marks:
            one.marks[mark.position] = mark
        if not one.is_as_logged:
            self._fail(one, f"what was sent of {one.add.id} is not what its source has now; send it again")
            return
        if one.phase is Phase.CATCHING_UP:
            self._caught_up(one)
        elif one.is_sent:
            self._stir(one)
        self._await_turn(one)

    def _unreadable(self, event: e.Unreadable) -> None:
        one = self.transfers.get(event.id)
        if one is None or one.phase is Phase.ENDED:
            return
        asked, one.reading = one.reading, 0
        if asked != one.ref:
            self._await_turn(one)  # of an offer before, behind which its source was closed
        elif one.in_doubt:
            self._ask_first(one)
        elif one.phase not in (Phase.AT_PEER, Phase.WHOLE):
            self._fail(one, event.cause)

    def _ask_first(self, one: Outgoing) -> None:
        """Ask the peer about a transfer whose source is gone: all of it may be there, since it was sent once."""
        self._leave(one)
        one.phase = Phase.AT_PEER
        self._ask(one)

    def _fail(self, one: Outgoing, cause: str) -> None:
        """End a transfer that can never be whole at the peer: without WHOLE, the peer gives it to nobody."""
        self._leave(one)
        one.phase = Phase.ENDED
        del self.transfers[one.add.id]
        if self._frames is not None:
            self._write(f.Cancel(one.add.id))
        self._out.append(e.Failed(one.add.id, cause))

    def _ack(self, frame: f.Ack) -> None:
        one = self._refs.get(frame.ref)
        if one is None:
            return
        if not frame.durable <= frame.received <= one.sent or frame.limit < one.limit:
            raise TransfersDamaged(f"ACK for {one.add.id} that cannot be: {frame}", frame.received)
        one.limit, one.received = frame.limit, frame.received
        self.advanced.add(one.add.id)
        self._await_turn(one)
        mark = one.marks.get(frame.durable)
        if mark is not None and mark.position > one.kept:
            one.kept = mark.position
            one.marks = {position: found for position, found in one.marks.items() if position >= mark.position}
            self._out.append(e.KeepMark(one.add.id, mark))

    # ---- answers ----

    def _heard(self, event: e.Heard) -> None:
        if self._frames is None:
            return
        for frame in self._frames.feed(*event.parts):
            match frame:
                case f.Go():
                    self._go(frame)
                case f.Ack():
                    self._ack(frame)
                case f.Report(ids=ids, state=state, cause=cause):
                    for id in ids:
                        self._report(id, state, cause)
                case f.Later():
                    self._later(frame)
                case f.Seen(newest=newest):
                    self._out.append(e.HasHad(newest))
                case _:
                    self._ready()

    def _report(self, id: TransferId, state: TransferState, cause: str) -> None:
        one = self.transfers.get(id)
        if state is TransferState.HELD:
            if one is None or one.phase is Phase.ENDED:
                self._write(f.Cancel(id))
            return
        if one is None or one.phase is Phase.ENDED:
            if one is None and state in ENDED:
                self._out.append(e.Reached(id, state, cause))
            return
        one.is_asked = False
        self._leave(one)
        one.was_taken = state in _TAKEN
        one.withdrawn = one.withdrawn and not one.was_taken  # if it is given back, it may be withdrawn again
        if state is TransferState.ACCEPTED:
            self._is_not_there(one)
            return
        one.phase, one.in_doubt = (Phase.ENDED if state in ENDED else Phase.AT_PEER), True
        self._out.append(e.Reached(id, state, cause))

    def _is_not_there(self, one: Outgoing) -> None:
        """Note that the peer does not have a transfer. If withdrawn, it has ended; else it is sent as if new."""
        if one.withdrawn:
            one.phase = Phase.ENDED
            self._out.append(e.Reached(one.add.id, TransferState.CANCELLED, ""))
            return
        one.phase = Phase.RETURNING
        self._lane(one).hold(one)
        self._out.append(e.Reached(one.add.id, TransferState.ACCEPTED, "its node does not have it"))

    def _later(self, frame: f.Later) -> None:
        one = self._refs.get(frame.ref)
        if one is None:
            return
        self._leave(one)
        one.phase, one.in_doubt = Phase.WAITING, one.in_doubt and one.withdrawn
        self._rests += 1
        heapq.heappush(self._resting, (self._now + frame.rest_ms / 1e3, self._rests, one.add.id))
        self._out.append(e.Delayed(one.add.id, frame.cause))

    def _ready(self) -> None:
        resting, self._resting = sorted(self._resting), []
        for _, _, id in resting:
            self._rested(id)

    _EVENTS: Final[dict[type[Any], Callable[[Sending, Any], None]]] = {
        e.Opened: _opened,
        e.Lost: _lost,
        e.Heard: _heard,
        e.Timer: _timer,
        e.AddRun: _add_run,
        e.AddRaw: _add_raw,
        e.Room: _room_for,
        e.SourceRead: _source_read,
        e.Unreadable: _unreadable,
        e.Kept: _kept_end,
        e.Withdraw: _withdraw,
        e.NotAdded: _not_added,
    }
