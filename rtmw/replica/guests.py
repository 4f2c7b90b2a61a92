"""Programs at a node of replicated logs: their requests go to the member of the log, its answers back to them.

    session ─► stream log/1  ─► requests of a turn ─► Member.ask_many ─► answers of a turn, in one write
            └► stream read/1 ◄─ whole batches up to the commit point, as fast as the program takes them

A program keeps a session with each node, and hears from each whom it takes for the master, and in which epoch.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Coroutine, Mapping
from contextlib import closing, nullcontext, suppress
from functools import partial
from itertools import count
from typing import Any, Final, TypeVar

from rtmw.errors import LogDamaged, LogError, LogFull, LogLocked, RtmwError, SessionError, StreamError
from rtmw.log import Folder, HeldCursor, bases, cursor_names, delete_cursor
from rtmw.net.security.names import is_own_user
from rtmw.net.security.rules import Rights
from rtmw.net.session.session import Session, Stream
from rtmw.replica import requests as r
from rtmw.replica import words as w
from rtmw.replica.member import Member
from rtmw.replica.requests import Ask, Refusal, Request
from rtmw.replica.words import Reply, Role

__all__ = ["Guests"]

log = logging.getLogger("rtmw.service")

LOOK_S: Final = 0.05
"""Seconds between looks whether a log has another master."""
TELL_S: Final = 1.0
"""Seconds between messages to other nodes about cursors that have moved."""
TELL_ALL: Final = 10
"""Turns after which a node tells all cursors: another may have failed to write one, or be a member only since then."""
CURSORS: Final = "log cursors"
"""The purpose of the stream to them."""
TRIM_LOOKS: Final = 40
OPEN_MOST: Final = 4096
OPEN_BYTES: Final = 2 * r.LARGEST_BATCH
"""Requests of a stream without an answer, and their bytes; beyond either the stream is not read."""
OUT_BYTES: Final = 4 << 20
"""Answers that a program has not taken; beyond it no more are made for it."""
CURSORS_MOST: Final = 2000
"""Cursors of a log: what is told of all of them fits in one answer."""
FRAME: Final = 1 << 18
"""Bytes of whole batches that a reader gets at a time; or one batch."""
T = TypeVar("T")
_PROGRAM: Final = "program="
_APPENDS: Final = frozenset({Ask.APPEND, Ask.RESOLVE, Ask.TRIM})
_ANYWHERE: Final = frozenset({Ask.BOUNDS, Ask.SEEK, Ask.STATS})
_OF_ALL: Final = frozenset({Ask.FRESH, Ask.BOUNDS, Ask.STATS})
"""What each guest may ask."""
_LOCKED: Final = (
    "log {log}: the cursor {name!r} is held by {holder}, and one reader at a time may go on with a cursor; end that "
    "one, or read with a cursor of another name"
)


class _Refused(Exception):
    def __init__(self, why: Refusal, words: str) -> None:
        super().__init__(words)
        self.why = why


def _refusal_of(error: Exception) -> Refusal:
    match error:
        case _Refused():
            return error.why
        case LogLocked():
            return Refusal.LOCKED
        case LogDamaged():
            return Refusal.DAMAGED
        case ValueError():
            return Refusal.NO_RECORD
        case _:
            return Refusal.TRIMMED if "trimmed" in str(error) else Refusal.OTHER


def _words(member: Member, error: Exception) -> str:
    """A program knows the name of the log, and not where a node has it."""
    return str(error).replace(str(member.path), f"log {member.name}")


class _Guest:
    """A program: its session, and who it is."""

    def __init__(self, session: Session) -> None:
        self.session = session
        said = [word for word in session.peer.capabilities if word.startswith(_PROGRAM)]
        self.words = " ".join(filter(None, [*(word.removeprefix(_PROGRAM) for word in said[:1]), session.name]))
        self.desks: set[_Desk] = set()
        self.pumps = set[asyncio.Event]()
        """Events of the guest's readers: when one is set, its reader looks again whether there is more for it."""
        self.tasks: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self.tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a program %s: %r", self.words, error, exc_info=error)
            self.session.close(f"an error of the node, which its log has: {error!r}")


class Guests:
    """All programs at this node. Not for several threads."""

    def __init__(self, members: Mapping[str, Member], rights: Rights, node: str) -> None:
        self.node, self.members = node, members
        self._rights = rights
        self._guests: set[_Guest] = set()
        self._held: dict[tuple[str, str], tuple[HeldCursor, _Guest]] = {}
        """By log and name of the cursor; of this node only while it is the master."""
        self._news: dict[str, tuple[int, str]] = {}
        self._watching: asyncio.Task[None] | None = None

    async def run(self, session: Session) -> None:
        """Serves a program until its session ends."""
        guest = _Guest(session)
        self._guests.add(guest)
        if self._watching is None or self._watching.done():
            self._watching = asyncio.get_running_loop().create_task(self._watch())
        try:
            async for stream in session:
                guest.start(self._serve(guest, stream))
        finally:
            self._guests.discard(guest)
            for task in list(guest.tasks):
                task.cancel()
            self.free(guest=guest)

    def close(self) -> None:
        """Gives cursors back. Sessions are closed by whoever has made them."""
        if self._watching is not None:
            self._watching.cancel()
        self.free()

    def gone(self, log: str) -> None:
        """This node has the log no more: who reads or asks here goes on at another node."""
        for guest in self._guests:
            for desk in [one for one in guest.desks if one.log == log]:
                desk.stream.reset(f"node {self.node} has log {log} no more")
            for pump in guest.pumps:
                pump.set()
        self.free(log)
        self._news.pop(log, None)

    async def _serve(self, guest: _Guest, stream: Stream) -> None:
        with suppress(SessionError):  # the program, or its session, has gone
            try:
                kind, name, position, limit = r.purpose_of(stream.purpose)
                member = self._member(guest, name, ("read",) if kind == "read" else ("append", "read"))
            except (ValueError, _Refused) as error:
                why = error.why if isinstance(error, _Refused) else Refusal.OTHER
                if stream.purpose.startswith("read"):
                    await stream.write(_last(why, str(error)))
                else:
                    await stream.write(r.pack_answer(Reply.REFUSED, 0, why, 0, str(error).encode()))
                stream.end()
                return
            if kind == "log":
                return await _Desk(self, guest, stream, member).run()
            async with asyncio.TaskGroup() as tasks:
                pumping = tasks.create_task(self._pump(guest, stream, member, position, limit))
                with suppress(SessionError):
                    while await stream.read():  # until the program ends its side, which says nothing else
                        pass
                pumping.cancel()

    def _member(self, guest: _Guest, name: str, verbs: tuple[str, ...]) -> Member:
        """The log, which the guest has one of these rights to. Raises _Refused."""
        if all(self.why_not(guest, verb, name) for verb in verbs):
            raise _Refused(Refusal.NO_RIGHT, self.why_not(guest, verbs[0], name, others=verbs[1:]))
        member = self.members.get(name)
        if member is None:
            raise _Refused(
                Refusal.NO_LOG,
                f"node {self.node} has no log {name!r}; name its members' nodes, or make it: rtmw log create {name}",
            )
        return member

    def why_not(self, guest: _Guest, verb: str, name: str, size: int = 0, others: tuple[str, ...] = ()) -> str:
        """Empty: it may. Without any rule, programs without a certificate that came to this host may do all. `others`:
        rights that would do, too."""
        peer = guest.session.name
        if not self._rights.table.rules and (not peer or is_own_user(peer)):
            return ""
        verdict = self._rights.verdict(peer, verb, name, size=size)
        if verdict.allowed:
            return ""
        rule, verbs = f" ({verdict.place})" if verdict.place else "", (verb, *others)
        return (
            f"{peer or 'a program without keys'} may not {' or '.join(verbs)} log {name} at node {self.node}: "
            f"{verdict.why}{rule}; a rule that allows it has " + " or ".join(f'{one} = ["{name}"]' for one in verbs)
        )

    # ---- news ----

    async def _watch(self) -> None:
        """Tells programs of another master, and lets cursors go that another node has now."""
        while self._guests:
            for name, member in list(self.members.items()):
                status = member.status()
                known = status.epoch, status.master
                if self._news.get(name) != known:
                    self._news[name] = known
                    for guest in self._guests:
                        for desk in [one for one in guest.desks if one.log == name]:
                            desk.tell(status.epoch, status.master.encode())
                if status.role is not Role.MASTER:
                    self.free(name)
            await asyncio.sleep(LOOK_S)

    # ---- readers ----

    async def _pump(self, guest: _Guest, stream: Stream, begun: Member, position: int, limit: int) -> None:
        name, changed = begun.name, asyncio.Event()
        leave = begun.on_commit(changed.set)
        guest.pumps.add(changed)
        try:
            stream.accept()
            while position < limit:
                changed.clear()
                member = self._member(guest, name, ("read",))  # rules may have changed
                if member is not begun:
                    raise _Refused(Refusal.NO_LOG, f"node {self.node} has another copy of log {name} now")
                data = member.read_raw(position, FRAME) if position < member.committed else None
                if data is None:
                    await changed.wait()
                    continue
                await stream.write(r.RAW.pack(len(data), 0))
                await stream.write(data)
                position += len(data)
                await asyncio.sleep(0)
            stream.end()
        except SessionError:  # the program has gone
            return
        except (LogError, ValueError, _Refused) as error:
            with suppress(SessionError):
                await stream.write(_last(_refusal_of(error), _words(begun, error)))
        finally:
            guest.pumps.discard(changed)
            leave()

    # ---- cursors ----

    async def hold(self, guest: _Guest, member: Member, name: str, begin: int) -> int:
        """The guest has this cursor from now on; where it stands, or NO_LIMIT. `begin`: where it begins if it is new;
        NO_LIMIT: it is not made yet. Raises LogLocked and what HeldCursor raises."""
        key = member.name, name
        self._check_held(guest, member, name)
        if key in self._held:
            cursor = self._held[key][0]
        else:
            cursor = await _opened(member.folder, name)
            cursor.write_later(lambda _: True)  # `commit` flushes, in a thread
        self._held[key] = cursor, guest
        if begin != r.NO_LIMIT:
            if cursor.position is None and len(await asyncio.to_thread(cursor_names, member.folder)) >= CURSORS_MOST:
                raise LogError(f"log {member.name} has {CURSORS_MOST} cursors, and no more can be made; delete some")
            await asyncio.to_thread(cursor.begin, begin)
        return r.NO_LIMIT if cursor.position is None else cursor.position

    def _check_held(self, guest: _Guest, member: Member, name: str) -> None:
        """A program that lives, and has a connection, keeps its cursor. Raises LogLocked."""
        _, other = self._held.get((member.name, name), (None, guest))
        if other is not guest and other in self._guests and other.session.is_connected:
            raise LogLocked(_LOCKED.format(log=member.name, name=name, holder=other.words or "another program"))

    async def commit(self, guest: _Guest, member: Member, name: str, position: int) -> None:
        held = self._held.get((member.name, name))
        if held is None or held[1] is not guest:
            await self.hold(guest, member, name, position)
        cursor = self._held[member.name, name][0]
        try:
            cursor.commit(min(position, member.committed))  # a new master may know of less
            await asyncio.to_thread(cursor.flush)
        except Exception:  # the next commit begins with what is on the disk
            if self._held.get((member.name, name), (None,))[0] is cursor:
                self.free(member.name, name)
            raise

    async def delete(self, guest: _Guest, member: Member, name: str) -> None:
        """LogLocked, LogError: it cannot be deleted."""
        self._check_held(guest, member, name)
        if name not in (known := await asyncio.to_thread(cursor_names, member.folder)):
            raise LogError(f"log {member.name}: there is no cursor {name!r}; it has {known or 'none'}")
        self._check_held(guest, member, name)  # another program may have taken it meanwhile
        self.free(member.name, name)
        await asyncio.to_thread(delete_cursor, member.folder, name)

    def free(self, log: str | None = None, name: str | None = None, guest: _Guest | None = None) -> None:
        """Gives cursors back: all, or those of a log, of this name, of a guest."""
        for one, (cursor, holder) in list(self._held.items()):
            if log in (None, one[0]) and name in (None, one[1]) and guest in (None, holder):
                del self._held[one]
                with suppress(LogError, OSError):  # the commit is made again by whoever reads it again
                    cursor.close()

    async def known_cursors(self, member: Member) -> dict[str, tuple[int, int, str | None]]:
        """Returns position, time of the last use, and holder of each cursor, by name."""
        known, all = await asyncio.to_thread(_cursors, member.folder)
        if all > CURSORS_MOST:  # a program of the node's host has made them
            raise LogError(f"log {member.name} has {all} cursors, which are too many to be told; delete some")
        held = {one: guest.words or "a program" for one, (_, guest) in self._held.items()}
        return {name: (*one, held.get((member.name, name))) for name, one in known.items()}

    async def tell_cursors(self, session: Session) -> None:
        """Tells another node, once a second, the cursors of logs of which this node is the master. Raises
        SessionError."""
        stream, told = session.open(CURSORS, priority=1), dict[str, dict[str, int]]()
        for turn in count():
            if turn % TELL_ALL == 0:
                told.clear()
            for member in [one for one in self.members.values() if one.replica.role is Role.MASTER]:
                try:
                    known = await asyncio.to_thread(_positions, member.folder)
                except (LogError, OSError) as error:  # other nodes keep what they know
                    log.warning("log %s: other nodes are not told of its cursors: %s", member.name, error)
                    continue
                if member.replica.role is Role.MASTER and known != told.get(member.name):  # still
                    told[member.name], data = known, json.dumps({member.name: known}).encode()
                    await stream.write(r.RAW.pack(len(data), 0) + data)
            await asyncio.sleep(TELL_S)

    async def hear_cursors(self, node: str, stream: Stream) -> None:
        """Takes over the cursors that a log's master tells: after a switch a reader goes on there. A node that was
        master, and does not know yet that it is not, does not know cursors that were made since. Raises
        SessionError, ValueError."""
        splitter = r.Splitter(r.RAW, r.LONGEST_WORDS)
        stream.accept()
        while data := await stream.read():
            for _, words in splitter.feed(data):
                for name, told in _cursors_in(words).items():
                    member = self.members.get(name)
                    if member is not None and member.status().master == node != self.node:
                        with suppress(LogError, OSError):
                            await asyncio.to_thread(self._mirror, member.folder, told)

    def _mirror(self, folder: Folder, told: dict[str, int]) -> None:
        known = _positions(folder)
        for name, position in told.items():
            if known.get(name) != position:
                with HeldCursor(folder, name) as cursor:
                    cursor.begin(position)
                    cursor.commit(position)
        for name in known.keys() - told.keys() if len(told) < CURSORS_MOST else ():
            delete_cursor(folder, name)


async def _opened(folder: Folder, name: str) -> HeldCursor:
    """In a thread, which goes on where its program leaves meanwhile: nobody holds the cursor then."""
    opening = asyncio.ensure_future(asyncio.to_thread(HeldCursor, folder, name))
    try:
        return await asyncio.shield(opening)
    except asyncio.CancelledError:
        opening.add_done_callback(lambda done: None if done.exception() else done.result().close())
        raise


def _cursors(folder: Folder) -> tuple[dict[str, tuple[int, int]], int]:
    """Position and time of each, and how many there are. Not in the loop: there may be thousands. No more of them than
    fit in what is told: a program of this host may have made others."""
    names = cursor_names(folder)
    return {name: known for name in names[:CURSORS_MOST] if (known := folder.cursor(name)) is not None}, len(names)


def _positions(folder: Folder) -> dict[str, int]:
    return {name: position for name, (position, _) in _cursors(folder)[0].items()}


def _cursors_in(words: bytes) -> dict[str, dict[str, int]]:
    """By log. Raises ValueError."""
    told = r.json_of(words)
    try:
        return {str(log): {str(name): int(at) for name, at in known.items()} for log, known in told.items()}
    except (AttributeError, TypeError, OverflowError):
        raise ValueError(f"{words[:80]!r} is nothing of cursors") from None


def _last(why: Refusal, words: str) -> bytes:
    said = words.encode()[: r.LONGEST_WORDS]
    return r.RAW.pack(len(said), why) + said


class _Desk:
    """The requests of one program for one log."""

    def __init__(self, guests: Guests, guest: _Guest, stream: Stream, member: Member) -> None:
        self._guests, self._guest, self.stream, self._member = guests, guest, stream, member
        self._out = list[bytes]()
        self._asked = dict[int, Request]()
        """Requests that the member has not answered, by ticket."""
        self._has_out, self._has_room = asyncio.Event(), asyncio.Event()
        self._long = asyncio.Lock()
        """Held for a request for which a thread looks into many files: one such request at a time, and only while
        fewer than OUT_BYTES of answers wait."""
        self._open = self._bytes = self._unwritten = 0
        self.log = member.name

    async def run(self) -> None:
        member, status = self._member, self._member.status()
        welcome = r.Welcome(self._guests.node, member.uuid, member.description, status.master, status.epoch)
        self.tell(status.epoch, welcome.packed())
        self._guest.desks.add(self)
        writing = asyncio.get_running_loop().create_task(self._write())
        splitter = r.request_splitter()
        try:
            while data := await self.stream.read():
                self._take(r.requests_in(splitter, data))
                while self._open >= OPEN_MOST or self._bytes >= OPEN_BYTES or self._unwritten >= OUT_BYTES:
                    await self._room()
            self.stream.end()
        except ValueError as error:
            self.stream.reset(str(error))
        finally:
            writing.cancel()
            self._guest.desks.discard(self)

    async def _room(self) -> None:
        """Until something was answered, or taken by the program."""
        self._has_room.clear()
        await self._has_room.wait()

    async def _write(self) -> None:
        with suppress(StreamError):
            while True:
                await self._has_out.wait()
                self._has_out.clear()
                out, self._out = self._out, []
                data = b"".join(out)
                await self.stream.write(data)
                self._unwritten -= len(data)
                self._has_room.set()

    def _say(self, answer: bytes) -> None:
        self._out.append(answer)
        self._unwritten += len(answer)
        self._has_out.set()

    def tell(self, epoch: int, words: bytes) -> None:
        """The welcome, or news."""
        self._say(r.pack_answer(Reply.DONE, 0, epoch, self._member.committed, words))

    def _take(self, asked: list[Request]) -> None:
        """The requests of a turn: what the protocol decides is one turn of its own."""
        events = list[w.Request]()
        for request in asked:
            self._open += 1
            self._bytes += len(request.body)
            try:
                event = self._event(request)
            except (ValueError, _Refused) as error:
                self._refuse(request, error)
                continue
            if event is None:
                self._guest.start(self._do(request))
            else:
                self._asked[event.ticket] = request
                events.append(event)
        if events:
            self._member.ask_many(events, self._heard)

    def _event(self, request: Request) -> w.Request | None:
        """None: it is no event of the protocol. Raises ValueError, _Refused."""
        ask, _, since, body = request
        if ask not in _OF_ALL:
            needs = "append" if ask in _APPENDS else "read"
            why = self._guests.why_not(self._guest, needs, self._member.name, len(body) if ask == Ask.APPEND else 0)
            if why:
                raise _Refused(Refusal.NO_RIGHT, why)
        if ask == Ask.APPEND:
            batch = r.unpack_batch(body)
            return w.Append(self._member.ticket(), r.id_of(batch.labels), since, batch)
        if ask == Ask.RESOLVE:
            return w.Resolve(self._member.ticket(), r.id_of(body), since)
        return w.Fresh(self._member.ticket()) if ask == Ask.FRESH else None

    def _heard(self, answer: w.Answer) -> None:
        words = self._member.status().master if answer.reply is Reply.MOVED else answer.words
        self._answer(self._asked.pop(answer.ticket), answer.reply, answer.position, words.encode())

    def _answer(self, request: Request, reply: Reply, position: int = 0, words: bytes = b"") -> None:
        self._open -= 1
        self._bytes -= len(request.body)
        self._has_room.set()
        self._say(r.pack_answer(reply, request.ticket, position, self._member.committed, words))

    def _refuse(self, request: Request, error: Exception) -> None:
        self._answer(request, Reply.REFUSED, _refusal_of(error), _words(self._member, error).encode())

    async def _do(self, request: Request) -> None:
        is_long = request.ask in (Ask.CURSORS, Ask.STATS)
        try:
            async with self._long if is_long else nullcontext():
                while self._unwritten >= OUT_BYTES:
                    await self._room()
                done = await self._carry_out(request)
            self._answer(request, Reply.DONE, *done)
        except (RtmwError, ValueError, OSError) as error:
            status = self._member.status()
            if status.role is not Role.MASTER and request.ask not in _ANYWHERE:  # its log may be closed, to be cut
                self._answer(request, Reply.MOVED, 0, status.master.encode())
            elif isinstance(error, LogFull):
                self._answer(request, Reply.FULL, 0, str(error).encode())
            else:
                self._refuse(request, error)

    async def _found(self, look: Callable[[Folder], T]) -> T:
        """What a thread finds in the files of the log; if they are closed meanwhile, to be cut, it looks again."""
        while True:
            await self._opened()
            folder = self._member.folder
            try:
                found = await asyncio.to_thread(look, folder)
            except (LogError, OSError):
                if self._has_open(folder):
                    raise
            else:
                if self._has_open(folder):
                    return found

    def _has_open(self, folder: Folder) -> bool:
        return self._member.is_open and self._member.folder is folder

    async def _opened(self) -> None:
        """Waits while the log is closed, because it is cut or copied anew; if it is dropped, until the stream ends."""
        changed = asyncio.Event()
        leave = self._member.on_commit(changed.set)
        try:
            while not self._member.is_open:
                changed.clear()
                await changed.wait()
        finally:
            leave()

    async def _carry_out(self, request: Request) -> tuple[int, bytes]:
        """Position and words of the answer. Where another is the master, any error says so."""
        member, guests, guest, body = self._member, self._guests, self._guest, request.body
        match request.ask:
            case Ask.BOUNDS:
                return member.earliest, b""
            case Ask.SEEK:
                return await self._found(partial(_seek, member, _placed(body)[0])), b""
            case Ask.STATS:
                return member.earliest, json.dumps(await self._found(Folder.segments)).encode()
            case _ if member.replica.role is not Role.MASTER:
                raise LogError("another node is the master")
            case Ask.CURSORS:
                return 0, json.dumps(await guests.known_cursors(member)).encode()
            case Ask.FREE:
                guests.free(member.name, body.decode(), guest)
            case Ask.DELETE:
                await guests.delete(guest, member, body.decode())
            case Ask.HOLD:
                position, name = _placed(body)
                return await guests.hold(guest, member, name, position), b""
            case Ask.COMMIT:
                position, name = _placed(body)
                await guests.commit(guest, member, name, position)
                return position, b""
            case _:
                return await _trim(member, _placed(body)[0]), b""
        return 0, b""


def _placed(body: bytes) -> tuple[int, str]:
    """The number that a request begins with, and the name behind it. Raises ValueError."""
    if len(body) < r.PLACE.size:
        raise ValueError("a request without its number")
    return r.PLACE.unpack_from(body)[0], body[r.PLACE.size :].decode()


def _seek(member: Member, time_ns: int, folder: Folder) -> int:
    with closing(folder.reader(member.earliest, begins=True)) as reader:
        reader.seek_time(time_ns, member.committed)
        return reader.position


async def _trim(member: Member, position: int) -> int:
    """Where the log begins, once what may go has gone, or is on its way for too long."""
    member.step(w.TrimTo(position))
    known = await asyncio.to_thread(bases, member.folder)
    least = max((base for base in known if base <= min(position, member.status().checkpoint)), default=0)
    for _ in range(TRIM_LOOKS):
        if member.folder.bounds()[0] >= least:
            break
        await asyncio.sleep(LOOK_S)
    return member.folder.bounds()[0]
