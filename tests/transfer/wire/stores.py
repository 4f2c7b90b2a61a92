"""The two cores around the protocol, with disks that lose what was not durable, and an oracle that knows each byte."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from rtmw.transfer.address import Address
from rtmw.transfer.header import Header, Kind
from rtmw.transfer.records import ENDED, TransferId, TransferState
from rtmw.transfer.wire import events as e
from rtmw.transfer.wire.frames import START, Chain, Mark, Offer, Part, Terms
from rtmw.transfer.wire.receiving import Receiving
from rtmw.transfer.wire.sending import Sending
from rtmw.transfer.wire.under_way import Phase

TERMS = Terms(block=64, piece=16, window=64, eager=24, rest=0.2)
ACCEPTED, SENT, DELIVERED = TransferState.ACCEPTED, TransferState.SENT, TransferState.DELIVERED
CONSUMED, REFUSED, CANCELLED = TransferState.CONSUMED, TransferState.REFUSED, TransferState.CANCELLED
EXPIRED = TransferState.EXPIRED


@dataclass
class Sent:
    """A transfer in the log of its sender: all of it is durable."""

    id: TransferId
    source: bytes
    original: bytes
    state: TransferState = ACCEPTED
    mark: Mark = START
    has_failed: bool = False
    is_hidden: bool = False
    """The source was changed in a way that nobody is told of."""
    hidden: bytes = b""
    """What it was then."""
    is_below_mark: bool = False
    """The change lies in what was sent and logged."""
    is_letter: bool = False
    """Its source lies in memory."""
    priority: int = 0
    is_withdrawn: bool = False


@dataclass
class Partial:
    """What came of a transfer: its file, of which a restart keeps what lies below the durable mark."""

    offer: Offer
    data: bytearray = field(default_factory=bytearray)
    mark: Mark = START
    is_placed: bool = False
    """All of it is durable; it was to be handed over."""


@dataclass
class Disk:
    """What the receiver's core has on its disk."""

    seen: set[TransferId] = field(default_factory=set[TransferId])
    items: dict[TransferId, TransferState] = field(default_factory=dict[TransferId, TransferState])
    owed: dict[TransferId, tuple[TransferState, str]] = field(
        default_factory=dict[TransferId, tuple[TransferState, str]]
    )
    partial: dict[TransferId, Partial] = field(default_factory=dict[TransferId, Partial])
    bodies: dict[TransferId, bytes] = field(default_factory=dict[TransferId, bytes])
    """Of all that were ever given to a queue: the oracle."""
    taken: set[TransferId] = field(default_factory=set[TransferId])
    """Ever handed to a process: the oracle."""


class Sender:
    """A core that sends, with a log."""

    def __init__(self, dice: random.Random, seen: Counter[str]) -> None:
        self.dice, self.met = dice, seen
        self.log: dict[TransferId, Sent] = {}
        self.later: list[Callable[[], list[e.SendingEvent]]] = []
        """Answers that are on their way from the disk."""
        self.machine = Sending(TERMS)
        self.most_sent: dict[TransferId, int] = {}

    def answer(self) -> list[e.SendingEvent]:
        return self.later.pop(0)()

    def restart(self) -> None:
        self.later.clear()
        self.machine = Sending(TERMS)

    def adds(self) -> list[e.Add]:
        """After a restart."""
        return [self.add_of(sent, in_doubt=True) for sent in self.log.values() if self.is_open(sent)]

    def is_open(self, sent: Sent) -> bool:
        return sent.state not in ENDED and not sent.has_failed

    def add_of(self, sent: Sent, *, in_doubt: bool) -> e.Add:
        size, was_sent = len(sent.original), sent.state is not ACCEPTED
        if sent.is_letter:
            header, parts = Header(Address("ingest"), Kind.BUF, size, priority=sent.priority), (Part(Kind.BUF, size),)
            return e.Add(sent.id, "program", header, parts, None, sent.mark, was_sent, in_doubt, sent.original)
        kind = Kind.FILE if size == 0 or sent.id.sequence % 2 else Kind.BUF
        header = Header(Address("ingest"), kind, max(1, size), priority=sent.priority)
        part = Part(kind, size, "in/file" if kind is Kind.FILE else "")
        return e.Add(sent.id, "program", header, (part,), None, sent.mark, was_sent, in_doubt)

    def effect(self, effect: e.SendingEffect) -> list[e.SendingEvent]:
        """Events that follow at once; others come later."""
        match effect:
            case e.ReadSource(id=id, position=position, size=size):
                self._check_sent_again(id, position, size)
                self.later.append(lambda: self._read(effect))
            case e.KeepMark(id=id, mark=mark):
                self.log[id].mark = mark
            case e.Reached():
                self.later.append(lambda: self._reached(effect))
            case e.Failed(id=id):
                self.met["failed"] += 1
                self.log[id].has_failed = True
            case e.Delayed():
                self.met["delayed"] += 1
            case _:
                pass
        return []

    def _check_sent_again(self, id: TransferId, position: int, size: int) -> None:
        """After a cut or a restart, no more than a block and a window is sent again."""
        if self.machine.transfers[id].phase is not Phase.SENDING or len(self.log[id].original) <= TERMS.eager:
            return
        before = self.most_sent.get(id, 0)
        sent = self.log[id]
        is_sound = position >= before - TERMS.reach or self.met["rot"] or sent.hidden or sent.is_withdrawn
        assert is_sound, f"{position} after {before}"
        self.most_sent[id] = max(before, position + size)

    def _read(self, effect: e.ReadSource) -> list[e.SendingEvent]:
        sent = self.log[effect.id]
        if sent.source != sent.original and not sent.is_hidden:
            return [e.Unreadable(effect.id, "it was changed")]
        data = sent.source[effect.position : effect.position + effect.size]
        assert len(data) == effect.size
        return [e.SourceRead(effect.id, effect.position, data)]

    def _reached(self, effect: e.Reached) -> list[e.SendingEvent]:
        """The log takes it; its answer may be lost with a restart."""
        sent = self.log[effect.id]
        if not self.is_open(sent):
            return [e.Kept({effect.id: effect.state})]
        sent.state = effect.state
        self.met[f"reached {effect.state.name}"] += 1
        if effect.state in ENDED:
            return [e.Kept({effect.id: effect.state})]
        if effect.state is ACCEPTED:
            self.met["returned"] += 1
            return [e.AddRun((self.add_of(sent, in_doubt=False),)), e.NotAdded(effect.id)]
        return []


class Receiver:
    """A core that receives, and the programs that take what has come."""

    def __init__(self, dice: random.Random, met: Counter[str]) -> None:
        self.dice, self.met = dice, met
        self.disk = Disk()
        self.later: list[tuple[tuple[TransferId, ...], Callable[[], list[e.ReceivingEvent]]]] = []
        """Answers that are on their way from the disk: of one transfer in turn, of different ones in any order."""
        self.put_off: set[TransferId] = set()
        """Ever: what was passed over."""
        self.comes: Callable[[TransferId], None] = lambda id: None
        """Told of each transfer that gets its place in a queue."""
        self.machine = Receiving("a", TERMS)
        self.is_full = False

    def restart(self) -> None:
        """Files keep what was durable; behind it lies anything."""
        self.later.clear()
        for partial in (one for one in self.disk.partial.values() if not one.is_placed):
            behind = self.dice.randbytes(self.dice.randrange(40))
            partial.data = partial.data[: partial.mark.position] + behind
        self.machine = Receiving("a", TERMS)

    def lose(self) -> list[TransferId]:
        """Some of what nobody has taken, as NORMAL transfers are lost with their core."""
        lost = [id for id, state in self.disk.items.items() if state is SENT and self.dice.random() < 0.3]
        for id in lost:
            del self.disk.items[id], self.disk.bodies[id]
            self.disk.seen.remove(id)
            self.met["lost with its core"] += 1
        return lost

    def effect(self, effect: e.ReceivingEffect) -> list[e.ReceivingEvent]:
        match effect:
            case e.Store(id=id, position=position, data=data):
                self.later.append(((id,), lambda: self._store(id, position, data)))
            case e.MarkAt():
                self.later.append(((effect.id,), lambda: self._mark(effect)))
            case e.Begin(offer=offer):
                self.later.append(((offer.id,), lambda: self._begin(offer)))
            case e.TakeLetters():
                late = self._take(effect)
                self.later.append((tuple(effect.letters), lambda: self._taken(effect.letters, late)))
            case e.Rewind(id=id):
                self.later.append(((id,), lambda: self._rewind(id)))
            case e.Complete(id=id):
                self.later.append(((id,), lambda: self._complete(id)))
            case e.HandOver(id=id):
                self.later.append(((id,), lambda: self._hand_over(id)))
            case e.Drop():
                self.later.append(((effect.id,), lambda: self._drop(effect)))
            case e.Look(id=id):
                return [self._state(id)]  # at once: an answer of a stream before would be said on the next one
            case e.Settle(ids=ids):
                for id in ids:
                    self.disk.owed.pop(id, None)
            case e.ListOwed():
                parts = dict.fromkeys(self.disk.partial, (TransferState.HELD, ""))
                return [e.StatesFound(dict(self.disk.owed)), e.StatesFound(parts)]
            case _:
                pass
        return []

    def answer(self) -> list[e.ReceivingEvent]:
        """The disk has done something."""
        able: list[int] = []
        busy: set[TransferId] = set()
        for at, (ids, _) in enumerate(self.later):
            able += [] if busy.intersection(ids) else [at]
            busy.update(ids)
        return self.later.pop(self.dice.choice(able))[1]()

    def _put_off(self, id: TransferId) -> e.PutOff:
        self.put_off.add(id)
        return e.PutOff(id, "the disk is full")

    def _comes(self, id: TransferId, body: bytes) -> None:
        assert id not in self.disk.bodies, "each transfer once"
        self.comes(id)
        self.disk.seen.add(id)
        self.disk.items[id] = SENT
        self.disk.bodies[id] = body

    def _begin(self, offer: Offer) -> list[e.ReceivingEvent]:
        if offer.id in self.disk.seen:
            return [self._state(offer.id)]
        if self.is_full:
            self.met["put off"] += 1
            return [self._put_off(offer.id)]
        partial = self.disk.partial.setdefault(offer.id, Partial(offer))
        if partial.is_placed:
            self.met["placed before a crash"] += 1
            return [e.Placed(offer.id)]
        block = partial.data[partial.mark.position - TERMS.block : partial.mark.position]
        chain = Chain(TERMS.block, Mark(partial.mark.position - TERMS.block, partial.mark.before))
        chain.add(bytes(block))
        if partial.mark.position and chain.value != partial.mark.value:
            self.met["rot"] += 1
            partial.mark = START
        if partial.mark.position:
            self.met["resumed from the disk"] += 1
        del partial.data[partial.mark.position :]
        return [e.Begun(offer.id, partial.mark)]

    def _store(self, id: TransferId, position: int, data: bytes) -> list[e.ReceivingEvent]:
        partial = self.disk.partial.get(id)
        if partial is None or position > len(partial.data):
            return []
        if self.is_full and len(partial.data) > partial.mark.position:
            del partial.data[partial.mark.position :]
            return [self._put_off(id)]
        assert position == len(partial.data)
        partial.data += data
        assert len(partial.data) <= partial.mark.position + TERMS.reach
        return []

    def _mark(self, effect: e.MarkAt) -> list[e.ReceivingEvent]:
        partial = self.disk.partial.get(effect.id)
        if partial is None or len(partial.data) < effect.mark.position:
            return []
        partial.mark = effect.mark
        return [e.Marked(effect.id, effect.mark, effect.run)]

    def _rewind(self, id: TransferId) -> list[e.ReceivingEvent]:
        partial = self.disk.partial[id]
        partial.data.clear()
        partial.mark = START
        return []

    def _complete(self, id: TransferId) -> list[e.ReceivingEvent]:
        partial = self.disk.partial.get(id)
        if partial is None or len(partial.data) != partial.offer.size:
            return []
        if self.is_full:
            return [self._put_off(id)]
        partial.is_placed = True
        return [e.Completed(id)]

    def _hand_over(self, id: TransferId) -> list[e.ReceivingEvent]:
        if self.is_full:
            self.met["put off when it was to be handed over"] += 1
            return [self._put_off(id)]
        self._comes(id, bytes(self.disk.partial.pop(id).data))
        return [e.HandedOver(id), self._state(id)]

    def _take(self, run: e.TakeLetters) -> list[TransferId]:
        """All that are new, or none of them: those that are put off."""
        new = [id for id in run.letters if id not in self.disk.seen]
        if new and self.is_full:
            self.met["letters put off"] += 1
            self.put_off.update(new)
            return new
        self.met["letters together"] += len(new) > 1
        for id in new:
            self._comes(id, run.letters[id])
        return []

    def _taken(self, letters: Iterable[TransferId], late: list[TransferId]) -> list[e.ReceivingEvent]:
        states = {id: self._state(id).states[id] for id in letters if id not in late}
        return [*([e.StatesFound(states)] if states else []), *map(self._put_off, late)]

    def _drop(self, drop: e.Drop) -> list[e.ReceivingEvent]:
        id = drop.id
        self.disk.partial.pop(id, None)
        if self.disk.items.get(id) is SENT:
            self._end(id, CANCELLED, "its sender has cancelled it")
        if id not in self.disk.seen:
            return [e.Dropped(id, drop.stream)]
        return [self._state(id)]

    def _state(self, id: TransferId) -> e.StatesFound:
        if id in self.disk.items:
            return e.StatesFound({id: (self.disk.items[id], "")})
        if id in self.disk.owed:
            return e.StatesFound({id: self.disk.owed[id]})
        if id in self.disk.seen:
            return e.StatesFound({id: (REFUSED, "it has come before, and its end was told")})
        return e.StatesFound({id: (ACCEPTED, "")})

    def _end(self, id: TransferId, state: TransferState, cause: str = "") -> None:
        del self.disk.items[id]
        self.disk.owed[id] = state, cause

    def program(self) -> list[e.ReceivingEvent]:
        """Takes something, or is done with it."""
        if not self.disk.items:
            return []
        id = self.dice.choice(list(self.disk.items))
        if self.disk.items[id] is SENT:
            self.disk.items[id] = DELIVERED
            self.disk.taken.add(id)
        else:
            self._end(id, self.dice.choice((CONSUMED, CONSUMED, REFUSED)))
        return [self._state(id)]
