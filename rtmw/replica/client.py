"""`rtmw.Log.connect`: a replicated log as a program sees it, with the methods of `rtmw.Log`."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import fields
from datetime import datetime
from math import inf
from pathlib import Path
from typing import Any, Final, TypeVar
from weakref import WeakSet

from rtmw.clock import CLOCK
from rtmw.closing import Closing
from rtmw.durable_log.log import Appended, Durability, Log, LogStats, agreed_type, not_bytes
from rtmw.durable_log.reading import Asked, Cursor
from rtmw.errors import LogError, LogFailed, MessageTooLarge, RtmwError
from rtmw.log import AutomaticId, Folder, Label, Reader, Watch, pack_labels
from rtmw.qos import check_seconds
from rtmw.replica import requests as r
from rtmw.replica.connection import Call, Connection, FedReader, Way, error_of
from rtmw.replica.requests import AUTOMATIC_HEAD, PLACE, Ask, Heard
from rtmw.replica.words import Reply
from rtmw.settings import values
from rtmw.text.addresses import UNIX, is_loopback, place_to_reach, unix_path
from rtmw.types import AnyType, resolve, shown_name

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
    _log: RemoteLog[Any]

    def __init__(self, log: RemoteLog[Any], position: int, call: Call) -> None:
        super().__init__(log, position, 0, call.id)
        assert call.heard is not None
        self._heard, self._labels, self._since = call.heard, call.labels, call.since

    @property
    def state(self) -> Durability:
        return _STATES[self._heard.reply]

    def resolve(self, timeout: float | None = None) -> Durability:
        check_seconds("timeout", timeout)
        until = inf if timeout is None else CLOCK.monotonic() + timeout
        while self.state is Durability.PENDING and (left := until - CLOCK.monotonic()) > 0:
            with suppress(TimeoutError):
                self._hear(self._log._net.wait(self._call(), min(left, 60.0)))
        return self.state

    async def resolve_async(self) -> None:
        while self.state is Durability.PENDING:
            self._hear(await self._log._net.wait_async(self._call()))

    def _call(self) -> Call:
        ticket = self._log._net.ticket()
        return Call(ticket, r.pack_request(Ask.RESOLVE, ticket, self._since, r.id_of(self._labels)))

    def _hear(self, heard: Heard) -> None:
        if heard.reply not in _STATES:
            raise error_of(str(self._log.path), heard)
        self._heard = heard


class RemoteLog(Log[T]):
    """See Log.connect. One thread of its own keeps sessions with the nodes."""

    def __init__(self, name: str, type: Any, way: Way, timeout: float | None) -> None:
        self._net = Connection(name, way, timeout)
        try:
            welcome = self._net.welcome
            assert welcome is not None
            self.path = Path(name)
            wanted = None if isinstance(type, AnyType) else resolve(type)
            self.type = agreed_type(Path(f"log {name}"), welcome.description, wanted)
        except BaseException:
            self._net.close()
            raise
        self._encode, self._decode = self.type.encode, self.type.decode or bytes
        self._producer = AUTOMATIC_HEAD + os.urandom(16)
        self._sinces = dict[bytes, int]()
        """By id of the program, while its outcome is not known: `since` of its first try, which later ones have, too.
        Else a node that has forgotten the id would take it for new."""
        self._readers, self._lock = WeakSet(), nullcontext()  # readers ask nodes, each at its own pace
        self._closed = self._waits_for_room = False

    def wait_for_ever(self) -> None:
        """From now on calls wait for a master without limit, whatever `timeout` was, and `append_async` for room."""
        self._net.timeout, self._waits_for_room = None, True

    # ---- append ----

    def append(
        self, value: T, *, key: Label | None = None, id: Label | None = None, timeout: float | None = None
    ) -> Appended:
        check_seconds("timeout", timeout)
        call = self._call([self._bytes(value)], key, id)
        self._net.wait(call, timeout)
        return self._answer(call)

    async def append_async(self, value: T, *, key: Label | None = None, id: Label | None = None) -> Appended:
        data = [self._bytes(value)]
        call = self._call(data, key, id)
        while (await self._net.wait_async(call)).reply is Reply.FULL and self._waits_for_room:
            await asyncio.sleep(_FULL_S)
            if not call.was_resent:  # else an earlier master may have kept it
                call = self._call(data, key, id)
        return self._answer(call)

    def append_many(self, values: Iterable[T]) -> list[Appended]:
        """Errors as of `append`. One batch: it is written, cached or pending as a whole."""
        data = [*map(self._bytes, values)]
        if not data:
            return []
        call = self._call(data, None, None)
        self._net.wait(call, None)
        position, labels = self._answer(call).position, len(call.labels)
        made = list[Appended]()
        for one in data:
            made.append(RemoteAppended(self, position, call))
            position += (_HEAD + labels + len(one) + 7) & ~7
            labels = 0
        return made

    def _bytes(self, value: T) -> bytes:
        data: Any = value if self._encode is None else self._encode(value)
        if type(data) is bytes:
            return data
        if isinstance(data, bytes | bytearray | memoryview):
            return bytes(data)  # pyright: ignore[reportUnknownArgumentType]
        raise not_bytes(Path(f"log {self.path}"), value)

    def _call(self, data: list[bytes], key: Label | None, id: Label | None) -> Call:
        net, ticket = self._net, self._net.ticket()
        if key is None and id is None:
            labels = self._producer + ticket.to_bytes(8, "little")
        else:
            labels = pack_labels(key, AutomaticId(self._producer[8:], ticket) if id is None else id) or b""
        body, since = r.pack_batch(labels, data), net.known
        if (size := r.size_of(len(body), len(data))) > r.LARGEST_BATCH:
            raise MessageTooLarge(
                f"log {self.path}: {size} bytes, with 40 for each record, are too many for one append to a replicated "
                f"log, which takes {r.LARGEST_BATCH}; append less at once. Nothing was appended"
            )
        if id is not None:
            since = self._sinces.setdefault(r.id_of(labels), since)
            if len(self._sinces) > _SINCES:
                with suppress(RuntimeError):  # another thread adds to it: the next append looks again
                    self._sinces.pop(next(iter(self._sinces)), None)
        call = Call(ticket, r.pack_request(Ask.APPEND, ticket, since, body), len(data))
        call.labels, call.since, call.id = labels, since, id
        return call

    def _answer(self, call: Call) -> Appended:
        heard = call.heard
        assert heard is not None
        if heard.reply is Reply.FULL and call.was_resent:
            raise LogFailed(
                f"log {self.path}: the disks of its nodes have no room, and whether an earlier master has kept this is "
                "unknown: append again with the same id, or without an id look for it in the log"
            )
        if call.id is not None and heard.reply is not Reply.PENDING:
            self._sinces.pop(r.id_of(call.labels), None)
        if heard.reply not in _STATES:
            raise error_of(str(self.path), heard)
        return RemoteAppended(self, heard.position, call)

    def _places(self, data: list[Any], *, ends: bool = False) -> tuple[Sequence[int], int]:
        raise LogError(f"log {self.path}: a service keeps its records in a log of its own")

    # ---- read ----

    def _folder_for(self, asked: Asked) -> Folder:
        return RemoteFolder(self._net, follows=asked.follow)

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


class _Held(Closing):
    """A cursor that a node holds for this program."""

    def __init__(self, net: Connection, name: str) -> None:
        self._net, self._name = net, name

    def close(self) -> None:
        with suppress(RtmwError, TimeoutError):  # the node gives it to another one when this session is cut
            self._net.ask(Ask.FREE, self._name.encode(), timeout=1.0)


class RemoteFolder(Folder):
    """What a reader needs of a folder, asked of the nodes; one a reader."""

    is_remote = True

    def __init__(self, net: Connection, *, follows: bool) -> None:
        assert net.welcome is not None
        super().__init__(f"log {net.name}", -1, net.welcome.uuid, net.welcome.description, True)
        self._net, self._follows = net, follows
        self._limit = r.NO_LIMIT
        self._watch = Watch(None)
        self._reader: FedReader | None = None
        self._cursor_at: int | None = None

    def copy(self) -> Folder:
        return self

    def bounds(self) -> tuple[int, int]:
        """Before it is read, those of the log; a reader that follows needs no master for them. Then up to where bytes
        have come."""
        if self._reader is not None:
            return 0, self._reader.came
        heard = self._net.ask(Ask.BOUNDS, anywhere=True)
        if self._follows:
            return heard.position, max(heard.commit, self._net.known)
        self._limit = self._net.ask(Ask.FRESH).position
        return heard.position, self._limit

    def reader(self, position: int, *, begins: bool = False) -> Reader:
        self._reader = FedReader(self._net, position, self._limit, self._watch)
        return self._reader  # type: ignore[return-value]

    def watch(self) -> Watch:
        return self._watch

    def close(self) -> None:
        self._watch.close()

    def hold_cursor(self, name: str) -> Closing:
        held = self._net.ask(Ask.HOLD, PLACE.pack(r.NO_LIMIT) + name.encode())
        self._cursor_at = None if held.position == r.NO_LIMIT else held.position
        return _Held(self._net, name)

    def cursor(self, name: str) -> tuple[int, int] | None:
        return None if self._cursor_at is None else (self._cursor_at, 0)

    def begin_cursor(self, name: str, position: int, *, is_new: bool) -> None:
        self._net.ask(Ask.HOLD, PLACE.pack(position) + name.encode())

    def write_cursor(self, name: str, position: int) -> None:
        self._net.ask(Ask.COMMIT, PLACE.pack(position) + name.encode())


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


def connect(
    name: str,
    type: Any,
    *,
    nodes: Sequence[str] | None = None,
    keys: str | os.PathLike[str] | None = None,
    insecure: bool = False,
    timeout: float | None = 30.0,
    **others: object,
) -> RemoteLog[Any]:
    """See Log.connect."""
    try:
        values.name(name)
    except ValueError as error:
        raise ValueError(f"the name of the log: {error}") from None
    for option in others:
        raise ValueError(
            f"{option} is no option of a replicated log, which its nodes keep; `rtmw log create` says what it is like. "
            "Compaction (per_key) is for logs of one host"
        )
    check_seconds("timeout", timeout)
    folder = None if keys is None else Path(keys)
    return RemoteLog(name, type, Way(_places(nodes, folder, insecure), folder, insecure), timeout)
