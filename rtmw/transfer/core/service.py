"""Requests of programs to their core, without I/O: `step(event)` is a generator of effects.

Two machines have the transfers: one with the log (class LOG, and all that is part of a transaction), and one without. A
step asks them with `Do`, and tells programs with `Tell`, which goes out when what it says is durable.
docs/formats/transfer-queues.md has the protocol.

`Members` are the senders and inboxes that have joined. `Bodies` come as chains of blocks (T5): small ones are kept in
memory, large ones in files of the spool. Letters of one frame are accepted in batches for the log, with one answer for
all whose ids follow one after the other. `Unfinished` is work that must be done although no caller waits for it: a full
disk puts it off, and it is tried again until done.

`Altering` cancels a transfer, or tries a dead letter again. What may be at another node already is not called cancelled
before that node says so: the program that asks waits for its report, or for the end of the session with that node. It
is answered behind the frame that tells senders of the cancel, so a sender that has the answer knows its transfer's
state.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from rtmw.errors import LogFull
from rtmw.transfer import messages
from rtmw.transfer.address import Address, Life
from rtmw.transfer.core.effects import (
    FAILURES,
    Arrived,
    Asked,
    Do,
    Drop,
    Ended,
    Finish,
    Given,
    Happened,
    Key,
    Remove,
    Report,
    Steps,
    Tell,
    Ticked,
    Write,
    failed,
    tell,
)
from rtmw.transfer.core.inboxes import Handing, Owners, Receiving, transaction_event
from rtmw.transfer.core.report import BAD, Events, Progress, answer_to, progress_of_ended
from rtmw.transfer.core.telling import Telling
from rtmw.transfer.errors import TransferRefused
from rtmw.transfer.events import (
    Aborted,
    AbortTransaction,
    BeginTransaction,
    Came,
    CommitTransaction,
    Event,
    Moved,
    ReceiverJoined,
    ReceiverLeft,
    SendTransfers,
    Sent,
    SettleTransfers,
)
from rtmw.transfer.files import Fingerprint
from rtmw.transfer.frames import LARGEST_BYTES, Frame
from rtmw.transfer.header import Delivery, Header, Kind, is_alike, resized
from rtmw.transfer.messages import Message, Run, Send
from rtmw.transfer.queues import Item
from rtmw.transfer.records import (
    LARGEST_INLINE,
    NONE,
    AbortCause,
    Request,
    Spooled,
    TransferId,
    TransferState,
    is_letter,
    is_plain,
)
from rtmw.transfer.store import Machines, is_volatile

__all__ = ["Accepted", "Altering", "Bodies", "Elsewhere", "Letters", "Service", "in_batches"]


_REFUSED = 0
_WHY = "asked for"
_TAKEN = (TransferState.DELIVERED, TransferState.DEAD)


class Elsewhere(Protocol):
    """The other nodes, and this one for what has files (`peers.Nodes`), as the steps of a core use them."""

    def sources(self, header: Header, body: bytes | Spooled) -> tuple[Fingerprint, ...] | None: ...

    def accepted(self, id: TransferId, sources: tuple[Fingerprint, ...]) -> None: ...

    def withdraw(self, item: Item) -> bool: ...

    def receiver_came(self, folder: Path | None) -> None: ...

    def is_up(self, node: str) -> bool: ...

    def why_waits(self, item: Item) -> str: ...

    def progress(self, item: Item) -> Progress: ...

    def arriving(self) -> list[dict[str, Any]]: ...

    def advanced(self) -> set[TransferId]: ...


class Altering:
    """Changes transfers of one core that somebody asks it to; see the head of this file."""

    def __init__(self, machines: Machines) -> None:
        self._machines = machines
        self._asked: dict[TransferId, list[Frame]] = {}
        """Requests that wait for the answer whether a transfer could be cancelled."""
        self._at: dict[TransferId, str] = {}
        """The node that has to say so, for each transfer in `_asked` for which another node has to."""

    def alter(self, frame: Frame, id: TransferId, state: TransferState, nodes: Elsewhere) -> Steps:
        """Cancel a transfer, or try a dead letter again; answer the frame now or later. Raises TransferRefused."""
        item = self._machines.find(id)
        if item is None:
            raise TransferRefused(f"there is no transfer {id}; it has ended, or never was")
        if state is TransferState.ACCEPTED and item.state is not TransferState.DEAD:
            raise TransferRefused(f"transfer {id} is {item.state.name}, and no dead letter; only those are tried again")
        node = item.record.header.to.node
        if node and state is not TransferState.CANCELLED:
            raise TransferRefused(f"transfer {id} is for node {node!r}, which says how it ends: try it again there")
        if node and item.state in _TAKEN:
            raise TransferRefused(f"transfer {id} is {item.state.name}")  # its node would say nothing new
        logged, is_cancelled = not is_volatile(item.lsn), state is TransferState.CANCELLED
        if not node or nodes.withdraw(item):
            refused = yield Do(SettleTransfers((item.lsn,), state, _WHY), logged)
            if refused:
                raise TransferRefused(refused[item.lsn])
        elif nodes.is_up(node):
            self._at[id] = node
        else:
            raise TransferRefused(_not_connected(id, node))
        if is_cancelled:
            self._asked.setdefault(id, []).append(frame)
        else:
            yield _answer(frame, messages.Done(state), logged)

    def look(self, nodes: Elsewhere) -> Steps:
        """Answer requests that wait for a node whose session has ended. Call it now and then."""
        for id, node in [one for one in self._at.items() if not nodes.is_up(one[1])]:
            yield from self._refuse(id, _not_connected(id, node), logged=False)

    def asks(self, items: Sequence[Item]) -> bool:
        """Does somebody wait to hear of one of these transfers?"""
        return bool(self._asked) and any(item.record.id in self._asked for item in items)

    def answer(self, note: Moved, logged: bool) -> Steps:
        """Answer all who wait for these transfers."""
        for id in [item.record.id for item in note.items if item.record.id in self._asked]:
            if note.state is not TransferState.CANCELLED:
                name = note.state.name if note.state is not None else "undone"
                yield from self._refuse(id, f"transfer {id} is {name}", logged)
                continue
            self._at.pop(id, None)
            for frame in self._asked.pop(id):
                yield _answer(frame, messages.Done(note.state), logged)

    def _refuse(self, id: TransferId, why: str, logged: bool) -> Steps:
        self._at.pop(id, None)
        for frame in self._asked.pop(id):
            yield _answer(frame, messages.Failed(_REFUSED, why), logged)


def _not_connected(id: TransferId, node: str) -> str:
    return (
        f"transfer {id} may be at node {node!r}, which is not connected: it is cancelled when it is again, if nobody "
        "has taken it by then"
    )


def _answer(frame: Frame, message: Message, logged: bool) -> Tell:
    return Tell(Frame(frame.life, frame.slot, frame.number, message), logged)


KNOWN_MOST: Final = 64
"""Largest number of addresses of a sender that are remembered."""


@dataclass(frozen=True, slots=True)
class Member:
    """A sender (role 0) or an inbox (role 1)."""

    life: Life
    slot: int
    role: int
    name: str
    folder: str
    """The folder of an inbox that takes files; else empty."""


class Addressed:
    """The addresses of all senders, for tools."""

    def __init__(self) -> None:
        self._known: dict[Life, set[Address]] = {}

    def add(self, life: Life, to: Address) -> None:
        known = self._known.setdefault(life, set())
        if to not in known and len(known) < KNOWN_MOST:
            known.add(to)

    def of(self, life: Life) -> list[str]:
        return sorted(map(str, self._known.get(life, ())))

    def forget(self, life: Life) -> None:
        self._known.pop(life, None)


class Unfinished:
    """Steps of the machine with the log that have to be done, in their order. A step that was done in part has to be
    such that it may be done again."""

    def __init__(self) -> None:
        self._events: deque[Event] = deque()

    def do(self, event: Event) -> Steps:
        """Do a step now, or when there is room."""
        self._events.append(event)
        yield from self.go_on()

    def go_on(self) -> Steps:
        """Do steps until one has no room again. A transfer that has gone another way meanwhile is left alone."""
        while self._events:
            try:
                yield Do(self._events[0], True)
            except LogFull:
                return
            except TransferRefused:
                pass
            self._events.popleft()


def is_logged(send: Send) -> bool:
    """Is the transfer logged? All of a transaction is."""
    return send.header.delivery is Delivery.LOG or send.txn != 0


def lies_in_memory(send: Send) -> bool:
    """Does its body lie in no file of the spool?"""
    return send.header.length <= (LARGEST_INLINE if is_logged(send) else LARGEST_BYTES)


@dataclass(slots=True)
class Chain:
    """A body of which a part has come."""

    send: Send
    """The Send without its data."""
    got: int = 0
    memory: bytearray = field(default_factory=bytearray)

    @property
    def in_memory(self) -> bool:
        return lies_in_memory(self.send)


class Bodies:
    """The bodies that come in blocks, of all programs. Raises TransferRefused: more blocks than the header says."""

    def __init__(self) -> None:
        self._chains: dict[Key, Chain] = {}

    def begin(self, key: Key, send: Send) -> None:
        self._chains[key] = Chain(Send(send.txn, send.header, send.once, b""))

    def take(self, key: Key, data: bytes) -> Generator[Any, Any, Chain | None]:
        """Take the next block. None: the body was refused or given up before, so nobody waits for it."""
        chain = self._chains.get(key)
        if chain is None:
            return None
        chain.got += len(data)
        if chain.got > chain.send.header.length:
            yield from self.drop(key)
            raise TransferRefused(f"{chain.got} bytes of a body whose header says {chain.send.header.length}")
        if chain.in_memory:
            chain.memory += data
        else:
            try:
                yield Write(key, chain.send.header.length, data, is_logged(chain.send))
            except OSError:
                yield from self.drop(key)
                raise
        return chain

    def finish(self, key: Key) -> Generator[Any, Any, bytes | Spooled]:
        """Return a body of which all has come."""
        chain = self._chains.pop(key)
        if chain.in_memory:
            return bytes(chain.memory)
        body: Spooled = yield Finish(key, chain.got)
        return body

    def drop(self, key: Key) -> Steps:
        if self._chains.pop(key, None) is not None:
            yield Drop(key)

    def give_up(self, frame: Frame) -> Steps:
        """Give up a body of which its sender sends no more. Nobody is told of a body that has come, or was refused:
        that was answered."""
        key = frame.life, frame.number
        chain = self._chains.get(key)
        if chain is not None:
            yield from self.drop(key)
            error = TransferRefused(f"its sender gave it up after {chain.got} of {chain.send.header.length} bytes")
            yield tell(frame, failed(error), False)

    def arriving(self, name_of: Callable[[Life], str]) -> list[dict[str, Any]]:
        """Return the bodies of which a part has come, as rows. `name_of`: gives the name of a sender."""
        return [
            {
                "from": name_of(life),
                "to": str(chain.send.header.to),
                "got": chain.got,
                "bytes": chain.send.header.length,
                "waits": False,
            }
            for (life, _), chain in self._chains.items()
        ]

    def drop_all(self, life: Life) -> Steps:
        for key in [key for key in self._chains if key[0] == life]:
            yield from self.drop(key)


LARGEST_BATCH: Final = 52 << 10
"""Largest number of bytes of a record of letters: the smallest segment of a log has room for that."""
MOST_LETTERS: Final = (1 << 16) - 1
"""Largest number of letters in one answer."""
_HEADS: Final = 32 + 7 + 103
"""Bytes of letters in the log: the heads of their record and of ENQUEUE, padding, and no bodies, header or names."""


class Letters(NamedTuple):
    """Letters that follow each other, to be enqueued in one step."""

    header: Header
    """Header of the first letter; those of the others differ in the length alone."""
    bodies: Sequence[bytes]


def in_batches(runs: Sequence[Run], *names: str) -> Iterator[Letters]:
    """Yield the letters of a frame. What is logged is one record of the log, which has these names."""
    for letters in _joined(runs) if len(runs) > 1 else (Letters(*runs[0]),):
        header, bodies = letters
        if header.delivery is not Delivery.LOG:
            yield letters
            continue
        largest = header.length if len(runs) == 1 else max(map(len, bodies))
        most = max(1, (LARGEST_BATCH - _beside_bodies(header, names)) // (largest + 2))
        if len(bodies) <= most:
            yield letters
            continue
        for at in range(0, len(bodies), most):
            part = bodies[at : at + most]
            yield Letters(resized(header, len(part[0])), part)


def _beside_bodies(header: Header, names: Iterable[str]) -> int:
    """Return the largest number of bytes that letters take in the log beside their bodies and the lengths of these."""
    return _HEADS + len(header.pack()) + sum(len(name.encode()) for name in names)


def _joined(runs: Iterable[Run]) -> Iterator[Letters]:
    """Yield letters: runs that go the common way, and whose headers differ in the length alone, are one."""
    first, bodies, joins = None, list[bytes](), False
    for header, more in runs:
        is_common = is_plain(header)
        if first is not None and joins and is_common and is_alike(first, header):
            bodies += more
            continue
        if first is not None:
            yield Letters(first, bodies)
        first, bodies, joins = header, list(more), is_common
    if first is not None:
        yield Letters(first, bodies)


class Accepted:
    """The letters of a frame that were accepted and are not answered yet."""

    def __init__(self, frame: Frame) -> None:
        self._frame, self._count, self._logged = frame, 0, False
        self._ids: Sequence[TransferId] = ()

    def add(self, number: int, count: int, ids: Sequence[TransferId], logged: bool) -> Steps:
        """Add `count` letters, from that with this number on; `ids`: those of the first. If they do not follow those
        that were added before, those are answered first."""
        if self._count:
            behind = self._frame.number + self._count, self._logged
            follows = (number, logged) == behind and len(ids) == len(self._ids) == 1
            if follows and ids[0] == _behind(self._ids[0], self._count) and self._count + count <= MOST_LETTERS:
                self._count += count
                return
            yield from self.tell()
        self._frame, self._count, self._ids, self._logged = self._frame._replace(number=number), count, ids, logged

    def tell(self) -> Steps:
        """Answer the letters that were added."""
        if self._count:
            yield tell(self._frame, messages.Accepted(self._count, tuple(self._ids)), self._logged)
        self._count = 0


def _behind(id: TransferId, count: int) -> TransferId:
    return TransferId(id.node, id.incarnation, id.sequence + count)


LARGEST_NUMBER: Final = (1 << 63) - 1
"""Largest number of a request that the log knows."""


_TAKING: Final = (messages.Take, messages.Untake, messages.Settle)
"""Requests of inboxes."""


class Service:
    """Answers requests of programs; see the head of this file. `path`: returns the file of a body in the spool."""

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
        """The maker sets it, before the first step."""

    def step(self, event: Asked) -> Steps:
        """Return the step of an event. It raises TransfersDamaged and LogFailed only."""
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
        """Number of letters that were handed over once more."""
        return self._receiving.redelivered

    def owner(self, txn: int) -> Member | None:
        """Return the program that has begun this transaction; None: it is not there."""
        life = self._owners.of(txn)
        return self.members.get(life) if life is not None else None

    def sends_to(self, member: Member) -> list[str]:
        """Return the addresses to which a sender has sent, at most 64 of them."""
        return self._addressed.of(member.life)

    def arriving(self) -> list[dict[str, Any]]:
        """Return the bodies of which a part has come, as rows."""
        return self._bodies.arriving(lambda life: self.members[life].name)

    # ---- frames ----

    def _frame(self, frame: Frame) -> Steps:
        """Answer a frame. A program that has not joined is of a core before this one; it joins, and asks again."""
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
            self.nodes.receiver_came(Path(join.folder) if join.folder else None)
        yield tell(frame, messages.Done(0), False)

    def _take_back(self, life: Life, held: frozenset[int]) -> Steps:
        """Take back what the core before had taken for the inbox, and had not handed over when it ended."""
        for item in list(self.machines.logged.state.items.made.values()):
            is_taken = item.taker == life and item.state is TransferState.DELIVERED and not item.txn
            if is_taken and item.lsn not in held:
                event = SettleTransfers((item.lsn,), TransferState.ACCEPTED, "its core ended meanwhile")
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
            sources = self.nodes.sources(send.header, body) if looks else None
            told = name, send.txn, (), request, send.once, sources is not None
            sent: Sent = yield Do(SendTransfers(send.header, (body,), *told), logged)
            for id in sent.ids if sources is not None else ():
                self.nodes.accepted(id, sources or ())
        finally:
            if isinstance(body, Spooled) and body.name not in state.bodies:
                yield Remove(body)
        self._addressed.add(frame.life, send.header.to)
        if send.header.kind is not Kind.BUF or send.once:
            yield from self._say_how_far(frame, send.header, body, sent.ids)
        yield tell(frame, messages.Accepted(1, tuple(sent.ids)), logged and not send.txn)
        if not sent.is_new:
            yield from self._catch_up(frame, sent.ids, send.once, logged)

    def _say_how_far(self, frame: Frame, header: Header, body: bytes | Spooled, ids: Sequence[TransferId]) -> Steps:
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
            yield from self._send_letters(frame, number, letters, accepted)
            number += len(letters.bodies)
        yield from accepted.tell()

    def _send_letters(self, frame: Frame, number: int, letters: Letters, accepted: Accepted) -> Steps:
        """Send letters, of which the first one has this number: as many in one step as go together, and as a full disk
        has room for. One that is refused has an answer of its own."""
        (header, bodies), name = letters, self.members[frame.life].name
        logged, most = header.delivery is Delivery.LOG, len(bodies)
        while bodies:
            head, request = resized(header, len(bodies[0])), Request(frame.life, number)
            try:
                sent: Sent = yield Do(SendTransfers(head, bodies[:most], name, request=request), logged)
            except FAILURES as error:
                if isinstance(error, LogFull) and most > 1:
                    most //= 2
                    continue
                sent = Sent(1, ())
                yield from accepted.tell()
                yield tell(frame._replace(number=number), failed(error))
            else:
                self._addressed.add(frame.life, header.to)
                yield from accepted.add(number, sent.done, sent.ids, logged)
                if not sent.is_new:
                    yield from accepted.tell()
                    yield from self._catch_up(frame, sent.ids, b"", logged)
            number, bodies = number + sent.done, bodies[sent.done :]

    def _follow(self, item: Item, life: Life) -> None:
        """Let a sender be told of a transfer that another one has sent, too."""
        request = item.record.request
        if request is not None and request.producer != life:
            self._telling.follow(item.record.id, life)

    def _catch_up(self, frame: Frame, ids: Sequence[TransferId], once: bytes, logged: bool) -> Steps:
        """Tell a sender how transfers are that were sent before, with this id or to another core, and follow them."""
        moves: list[messages.Move] = []
        for id in ids:
            item = self.machines.find(id)
            if item is None:
                moves.append(self.machines.end_of(id, self.members[frame.life].name, once))
                continue
            self._follow(item, frame.life)
            if item.state not in (TransferState.ACCEPTED, TransferState.HELD):
                moves.append(messages.Move((id,), item.state, item.cause))
        if moves:
            yield Tell(Frame(frame.life, frame.slot, 0, messages.Moves(tuple(moves))), logged)

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
        """Answer an Ask. Gathered moves are told first: they are older than the answer."""
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

    def _happened(self, notes: tuple[Moved | Aborted | Came, ...], logged: bool) -> Steps:
        touched: set[str] = set()
        for note in notes:
            if isinstance(note, Came):
                if not note.node:
                    touched.add(note.service)
            elif isinstance(note, Aborted):
                yield from self._aborted(note)
            else:
                to = [item.record.header.to for item in note.items] if note.state is TransferState.ACCEPTED else ()
                touched.update(one.service for one in to if not one.node)
                yield from self._moved(note, logged)
        for service in touched:
            yield from self._receiving.serve(service)

    def _moved(self, note: Moved, logged: bool) -> Steps:
        if note.state is not None and note.state in BAD:
            for item in note.items:
                happening = self.events.of_transfer(item, note.state, note.cause, self.machines.now().wall_ns)
                yield Report(happening, logged)
        self._telling.gather(note, logged)
        if note.state not in (TransferState.ACCEPTED, TransferState.SENT) and self._altering.asks(note.items):
            yield from self._telling.tell()
            yield from self._altering.answer(note, logged)

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
