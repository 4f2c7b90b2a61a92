"""`rtmw.Log.connect`: a replicated log as a program sees it, with the methods of `rtmw.Log`."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import fields
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar
from weakref import WeakSet

from rtmw.closing import Closing
from rtmw.durable_log.log import Appended, Durability, Log, LogStats, agreed_type, not_bytes
from rtmw.durable_log.reading import Asked, Cursor, LogRecords, Start
from rtmw.errors import LogError, LogFailed, MessageTooLarge, RtmwError
from rtmw.log import AutomaticId, Folder, Label, Reader, Watch, pack_labels
from rtmw.qos import check_seconds
from rtmw.replica import requests as r
from rtmw.replica.connection import Call, Connection, Fetch, Way, error_of
from rtmw.replica.requests import AUTOMATIC_HEAD, PLACE, Ask, Heard, Welcome
from rtmw.replica.words import Reply
from rtmw.settings import values
from rtmw.text.addresses import UNIX, is_loopback, place_to_reach, unix_path
from rtmw.types import AnyType, resolve, shown_name

if TYPE_CHECKING:
    from rtmw.durable_log.batches import LogBatches

__all__ = ["RemoteLog", "connect"]

NODES: Final = "RTMW_LOG_NODES"
"""The environment variable that names the nodes where a program does not."""
_HEAD: Final = 32
"""Bytes before a record's labels and data in the log; all together are a multiple of eight."""
_SINCES: Final = 65536
"""The number of ids that are remembered of appends whose outcome is unknown; nodes remember as many ids."""
_FULL_S: Final = 0.2
"""Seconds after which an append that waits for room is sent again."""
T = TypeVar("T")
_STATES: Final = {
    Reply.WRITTEN: Durability.WRITTEN,
    Reply.CACHED: Durability.CACHED,
    Reply.PENDING: Durability.PENDING,
    Reply.ABSENT: Durability.ABSENT,
}


class RemoteAppended(Appended):
    """The answer to an append to a replicated log."""

    __slots__ = ("_heard", "_labels", "_since")

    def __init__(self, log: RemoteLog[Any], position: int, id: Label | None, sent: _Sent) -> None:
        super().__init__(log, position, 0, id)
        self._heard, self._labels, self._since = sent

    @property
    def state(self) -> Durability:
        return _STATES[self._heard.reply]

    def resolve(self, timeout: float | None = None) -> Durability:
        check_seconds("timeout", timeout)
        if self.state is Durability.PENDING:
            self._log._resolve_pending(self, timeout)  # type: ignore[attr-defined]
        return self.state

    async def resolve_async(self) -> None:
        if self.state is Durability.PENDING:
            await self._log._resolve_pending_async(self)  # type: ignore[attr-defined]


_Sent = tuple[Heard, bytes, int]
"""The answer, the labels with the id, and `since`."""


class RemoteLog(Log[T]):
    """See Log.connect. One thread of its own keeps sessions with the nodes."""

    def __init__(self, name: str, type: Any, way: Way, timeout: float | None) -> None:
        self._net = Connection(name, way, timeout)
        try:
            welcome = self._net.welcome
            assert welcome is not None
            self.path, self._welcome = Path(name), welcome
            wanted = None if isinstance(type, AnyType) else resolve(type)
            self.type = agreed_type(Path(f"log {name}"), welcome.description, wanted)
        except BaseException:
            self._net.close()
            raise
        self._encode = self.type.encode
        self._decode: Callable[[bytes], Any] = self.type.decode or bytes
        self._producer = AUTOMATIC_HEAD + os.urandom(16)
        self._sinces = dict[bytes, int]()
        """By id of the program, while its outcome is not known: `since` of its first try, which later ones have, too.
        Else a node that has forgotten the id would take it for new."""
        self._readers = WeakSet()
        self._closed = self._waits_for_room = False

    def wait_for_ever(self) -> None:
        """From now on calls wait for a master without limit, whatever `timeout` was, and `append_async` for room."""
        self._net.timeout, self._waits_for_room = None, True

    # ---- append ----

    def append(
        self, value: T, *, key: Label | None = None, id: Label | None = None, timeout: float | None = None
    ) -> Appended:
        check_seconds("timeout", timeout)
        call, labels, since = self._call(value, key, id)
        self._net.wait(call, timeout)
        return self._answer(call, labels, since, id)

    async def append_async(self, value: T, *, key: Label | None = None, id: Label | None = None) -> Appended:
        call, labels, since = self._call(value, key, id)
        await self._net.wait_async(call)
        while self._waits_for_room and call.heard is not None and call.heard.reply is Reply.FULL:
            await asyncio.sleep(_FULL_S)
            if call.was_resent:  # an earlier master may have kept it
                call = Call(call.ticket, call.data, 1)
                call.was_sent = True
            else:
                call, labels, since = self._call(value, key, id)
            await self._net.wait_async(call)
        return self._answer(call, labels, since, id)

    def _call(self, value: T, key: Label | None, id: Label | None) -> tuple[Call, bytes, int]:
        """One record: as r.pack_request and r.pack_batch have it, in one step."""
        data: Any = value if self._encode is None else self._encode(value)
        if type(data) is not bytes:
            data = self._bytes(value, data)
        net, ticket = self._net, self._net.ticket()
        since, labels = net.known, self._labels(key, id, ticket)
        size = len(labels) + len(data) + 12
        if r.size_of(size, 1) > r.LARGEST_BATCH:
            raise self._too_large(r.size_of(size, 1))
        if id is not None:
            since = self._since(labels)
        head = r.ONE.pack(size, Ask.APPEND, ticket, since, len(labels), 1, len(data))
        return Call(ticket, head + labels + data, 1), labels, since

    def _since(self, labels: bytes) -> int:
        since = self._sinces.setdefault(r.id_of(labels), self._net.known)
        if len(self._sinces) > _SINCES:
            with suppress(RuntimeError):  # another thread adds to it: the next append looks again
                self._sinces.pop(next(iter(self._sinces)), None)
        return since

    def _labels(self, key: Label | None, id: Label | None, ticket: int) -> bytes:
        """With the id of the program, or an automatic one."""
        if key is None and id is None:
            return self._producer + ticket.to_bytes(8, "little")
        packed = pack_labels(key, AutomaticId(self._producer[8:], ticket) if id is None else id)
        assert packed is not None
        return packed

    def _bytes(self, value: object, data: object) -> bytes:
        if isinstance(data, bytes | bytearray | memoryview):
            return bytes(data)  # pyright: ignore[reportUnknownArgumentType]
        raise not_bytes(Path(f"log {self.path}"), value)

    def _too_large(self, size: int) -> MessageTooLarge:
        return MessageTooLarge(
            f"log {self.path}: {size} bytes, with 40 for each record, are too many for one append to a replicated log, "
            f"which takes {r.LARGEST_BATCH}; append less at once. Nothing was appended"
        )

    def _answer(self, call: Call, labels: bytes, since: int, id: Label | None) -> Appended:
        heard = call.heard
        assert heard is not None
        if heard.reply is Reply.FULL and call.was_resent:
            raise LogFailed(
                f"log {self.path}: the disks of its nodes have no room, and whether an earlier master has kept this is "
                "unknown: append again with the same id, or without an id look for it in the log"
            )
        if id is not None and heard.reply is not Reply.PENDING:
            self._sinces.pop(r.id_of(labels), None)
        if heard.reply not in _STATES:
            raise self._failure(heard)
        return RemoteAppended(self, heard.position, id, (heard, labels, since))

    def _failure(self, heard: Heard) -> Exception:
        """Why an append, or the search for it, has no state."""
        if heard.reply is Reply.UNKNOWABLE:
            return LogFailed(
                f"log {self.path}: whether this was appended cannot be known any more: so many records with ids came "
                "since that the nodes do not remember its id. It was not appended again",
            )
        if heard.reply is Reply.TAKEN:
            return LogError(
                f"log {self.path}: the record at position {heard.position} has this id, and other data or another key, "
                "or is the mark that no record with it shall come. Nothing was appended. An id means one record: "
                "append with a new one, or without"
            )
        return error_of(str(self.path), heard)

    def append_many(self, values: Iterable[T]) -> list[Appended]:
        """Errors as of `append`. One batch: it is written, cached or pending as a whole."""
        data = [self._bytes(one, one) for one in (values if self._encode is None else map(self._encode, values))]
        if not data:
            return []
        ticket, since = self._net.ticket(), self._net.known
        labels = self._labels(None, None, ticket)
        body = r.pack_batch(labels, data)
        if (size := r.size_of(len(body), len(data))) > r.LARGEST_BATCH:
            raise self._too_large(size)
        call = Call(ticket, r.pack_request(Ask.APPEND, ticket, since, body), len(data))
        heard = self._net.wait(call, None)
        self._answer(call, labels, since, None)
        sent, made, position, more = (heard, labels, since), list[Appended](), heard.position, len(labels)
        for one in data:
            made.append(RemoteAppended(self, position, None, sent))
            position += (_HEAD + more + len(one) + 7) & ~7
            more = 0
        return made

    def _places(self, data: list[Any], *, ends: bool = False) -> tuple[Sequence[int], int]:
        raise LogError(f"log {self.path}: a service keeps its records in a log of its own")

    def _resolving(self, appended: RemoteAppended) -> Call:
        ticket = self._net.ticket()
        return Call(ticket, r.pack_request(Ask.RESOLVE, ticket, appended._since, r.id_of(appended._labels)))

    def _resolved(self, appended: RemoteAppended, heard: Heard) -> bool:
        """Does it have an end?"""
        if heard.reply not in _STATES:
            raise self._failure(heard)
        appended._heard = heard
        return heard.reply is not Reply.PENDING

    def _resolve_pending(self, appended: RemoteAppended, timeout: float | None) -> None:
        from rtmw.clock import CLOCK

        until = None if timeout is None else CLOCK.monotonic() + timeout
        while True:
            left = float("inf") if until is None else until - CLOCK.monotonic()
            if left <= 0:
                return
            try:
                heard = self._net.wait(self._resolving(appended), min(left, 60.0))
            except TimeoutError:
                continue
            if self._resolved(appended, heard):
                return

    async def _resolve_pending_async(self, appended: RemoteAppended) -> None:
        while not self._resolved(appended, await self._net.wait_async(self._resolving(appended))):
            pass

    # ---- read ----

    def read(
        self, start: Start | int | datetime = Start.EARLIEST, *, cursor: str | None = None, follow: bool = False
    ) -> LogRecords[T]:
        self._check_open()
        folder = RemoteFolder(self._net, self._welcome, follows=follow)
        records = LogRecords[T](folder, Asked(start, cursor, follow), self._decode, self)
        self._readers.add(records)
        return records

    def read_batches(
        self, start: Start | int | datetime = Start.EARLIEST, *, cursor: str | None = None, follow: bool = False
    ) -> LogBatches[T]:
        from rtmw.durable_log.batches import LogBatches

        self._check_open()
        folder = RemoteFolder(self._net, self._welcome, follows=follow)
        batches = LogBatches[T](folder, Asked(start, cursor, follow), self._decode, self)
        self._readers.add(batches)
        return batches

    def cursors(self) -> dict[str, Cursor]:
        heard = self._net.ask(Ask.CURSORS)
        told: dict[str, tuple[int, int, str | None]] = r.json_of(heard.words)
        return {name: Cursor(at, time_ns, max(0, heard.commit - at), by) for name, (at, time_ns, by) in told.items()}

    def delete_cursor(self, name: str) -> None:
        self._net.ask(Ask.DELETE, name.encode())

    def trim(self, before: int | datetime) -> int:
        """The nodes keep what a member of the in-sync set does not have yet."""
        return self._net.ask(Ask.TRIM, PLACE.pack(self._position_of(before))).position

    @property
    def end(self) -> int:
        """The position behind the last committed record. The master asks the control store, once for all who wait."""
        return self._net.ask(Ask.FRESH).position

    def stats(self) -> LogStats:
        """The state of the log at one node, and counters of this object; what only a local writer knows is 0."""
        heard = self._net.ask(Ask.STATS, anywhere=True)
        segments, disk = r.json_of(heard.words)
        records, size, waiting = self._net.counted()
        rest = dict.fromkeys([field.name for field in fields(LogStats)][6:-1], 0)
        return LogStats(heard.position, heard.commit, segments, disk, records, size, **rest, persist_queue=waiting)

    # ---- end ----

    def _check_open(self) -> None:
        self._net.check()

    def close(self) -> None:
        """Waits for what was appended, some seconds at most, ends readers, and leaves the nodes."""
        if self._closed:
            return
        self._closed = True
        for records in list(self._readers):
            records.close()
        self._net.close()

    def __repr__(self) -> str:
        closed = ", closed" if self._closed else ""
        return (
            f"<rtmw.Log {str(self.path)!r} {shown_name(self.type.name)} at {', '.join(self._net.way.places)}{closed}>"
        )


class _Freed(Closing):
    """A cursor that a node holds for this program."""

    def __init__(self, net: Connection, name: str) -> None:
        self._net, self._name = net, name

    def close(self) -> None:
        try:
            self._net.ask(Ask.FREE, self._name.encode(), timeout=1.0)
        except (RtmwError, TimeoutError):  # the node gives it to another one when this session is cut
            return


class RemoteFolder(Folder):
    """What a reader needs of a folder, asked of the nodes; one a reader."""

    is_remote = True

    def __init__(self, net: Connection, welcome: Welcome, *, follows: bool) -> None:
        super().__init__(f"log {net.name}", -1, welcome.uuid, welcome.description, True)
        self._net, self._follows = net, follows
        self._limit = r.NO_LIMIT
        self._watch = Watch(None)
        self._fetch: Fetch | None = None
        self._cursor_at: int | None = None

    def copy(self) -> Folder:
        return self

    def bounds(self) -> tuple[int, int]:
        """Before it is read, those of the log; a reader that follows needs no master for them. Then up to where bytes
        have come."""
        if self._fetch is not None:
            return 0, self._fetch.came
        heard = self._net.ask(Ask.BOUNDS, anywhere=True)
        if self._follows:
            return heard.position, max(heard.commit, self._net.known)
        self._limit = self._net.ask(Ask.FRESH).position
        return heard.position, self._limit

    def reader(self, position: int, *, begins: bool = False) -> Reader:
        self._fetch = Fetch(position, self._limit, self._watch)
        return FedReader(self, self._net, self._fetch)  # type: ignore[return-value]

    def watch(self) -> Watch:
        return self._watch

    def close(self) -> None:
        self._watch.close()

    def hold_cursor(self, name: str) -> Closing:
        held = self._net.ask(Ask.HOLD, PLACE.pack(r.NO_LIMIT) + name.encode())
        self._cursor_at = None if held.position == r.NO_LIMIT else held.position
        return _Freed(self._net, name)

    def cursor(self, name: str) -> tuple[int, int] | None:
        return None if self._cursor_at is None else (self._cursor_at, 0)

    def begin_cursor(self, name: str, position: int, *, is_new: bool) -> None:
        self._net.ask(Ask.HOLD, PLACE.pack(position) + name.encode())

    def write_cursor(self, name: str, position: int) -> None:
        self._net.ask(Ask.COMMIT, PLACE.pack(position) + name.encode())


class FedReader:
    """The reader in C over bytes that come from nodes. As Reader, but for what only files have."""

    def __init__(self, folder: RemoteFolder, net: Connection, fetch: Fetch) -> None:
        self._folder, self._net, self._fetch = folder, net, fetch
        self._core = self._reader(fetch.came)
        self._has_begun = False

    def _reader(self, position: int) -> Reader:
        return Reader(self._folder.path, -1, self._folder.uuid, position)

    @property
    def position(self) -> int:
        return self._core.position

    def seek_time(self, time_ns: int, limit: int) -> None:
        self._fetch.begin(self._net.ask(Ask.SEEK, PLACE.pack(time_ns), anywhere=True).position)
        self._core = self._reader(self._fetch.came)

    def take(self, limit: int, kind: Any, origin: object, size: int) -> list[Any]:
        made: list[Any] = self._of_what_came(lambda: self._core.take(limit, kind, origin, size))
        return made

    def run(self, limit: int, *arguments: Any) -> Any:
        return self._of_what_came(lambda: self._core.run(limit, *arguments))

    def _of_what_came(self, make: Callable[[], Any]) -> Any:
        """What is made of bytes that have come; nothing, if too few have."""
        if not self._has_begun and self.position < self._fetch.limit:
            self._has_begun = True
            self._net.fetch(self._fetch)
        made = make()
        while not made and (data := self._fetch.take()):
            self._core.feed(data)
            self._net.has_taken(self._fetch)
            made = make()
        return made

    def close(self) -> None:
        self._net.end_fetch(self._fetch)
        self._core.close()


def _places(nodes: Sequence[str] | None, keys: Path | None, insecure: bool) -> tuple[str, ...]:
    """Raises TypeError, ValueError."""
    if isinstance(nodes, str):
        raise TypeError(f"nodes={nodes!r} is not possible; it is a list, such as [{nodes!r}]")
    if not all(isinstance(one, str) for one in nodes or ()):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"nodes={nodes!r} is not possible; each is a text, such as '127.0.0.1:7501'")
    given = [one.strip() for one in os.environ.get(NODES, "").split(",")] if nodes is None else list(nodes)
    found = [one if one == UNIX or not one.startswith(UNIX) else _absolute(one) for one in given if one]
    if not found:
        raise ValueError(
            f"nodes={nodes!r} names none; give the nodes of the log, such as ['127.0.0.1:7501', 'b.plant:7501'], or "
            f"set {NODES}=127.0.0.1:7501,b.plant:7501"
        )
    for place in found:
        if unix_path(place) is None and not (keys or insecure or is_loopback(place_to_reach(place)[0])):
            raise ValueError(
                f"{place} is not loopback: anyone on the way could read and change what is sent. Give the program keys "
                "(keys='folder', from `rtmw node keys`), or insecure=True"
            )
    return tuple(dict.fromkeys(found))


def _absolute(place: str) -> str:
    return f"{UNIX}{Path(place.removeprefix(UNIX)).absolute()}"


def connect(name: str, type: Any, options: dict[str, Any]) -> RemoteLog[Any]:
    """See Log.connect."""
    try:
        values.name(name)
    except ValueError as error:
        raise ValueError(f"the name of the log: {error}") from None
    known: dict[str, Any] = {"nodes": None, "keys": None, "insecure": False, "timeout": 30.0}
    for option in options.keys() - known.keys():
        raise ValueError(
            f"{option} is no option of a replicated log, which its nodes keep; `rtmw log create` says what it is like. "
            "Compaction (per_key) is for logs of one host"
        )
    given = known | options
    check_seconds("timeout", given["timeout"])
    keys = None if given["keys"] is None else Path(given["keys"])
    way = Way(_places(given["nodes"], keys, given["insecure"]), keys, given["insecure"])
    return RemoteLog(name, type, way, given["timeout"])
