"""The log of a member on its disk: the `Wal` of the protocol over a folder's writer and readers, and the marks of it.

Nothing here waits for the disk but `open`, `close` and `truncate`, which are for threads. An append for which the
writer has no room yet raises TimeoutError, and nothing was appended; the eventfd of `watch` rings when there is room,
when more is durable, and when the writer has failed.
"""

from __future__ import annotations

import itertools
import json
import os
import struct
from collections import OrderedDict
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Final

from rtmw.checksum import crc32
from rtmw.disk import DISK, Disk
from rtmw.durable_log.log import ABANDONED_S
from rtmw.errors import LogError, LogFull
from rtmw.log import FENCED, HELD, KEEP_ALL, Folder, Reader, bases, cursor_names, pack_labels
from rtmw.log import _log as core
from rtmw.replica.requests import Batch
from rtmw.replica.words import Found, Kind, Marks, Table

SEGMENT: Final = 64 << 20
WINDOW: Final = 65_536
"""Ids that are known, at least: of the last ones."""
_READERS: Final = 64
_EPOCH: Final = struct.Struct("<I12xI")
_LENGTH, _ALIGN = 32, 8


class LogWal:
    """The thread of a loop. `path`: the folder; a log with this uuid and description is made if there is none."""

    def __init__(self, path: Path, uuid: bytes, description: bytes) -> None:
        """LogError and its kind: it is another log, or damaged."""
        self.path, self.uuid, self.description = path, uuid, description
        self._eventfd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        try:
            self.open()
        except BaseException:
            self.forget()
            raise

    def open(self) -> None:
        """Recovers it. In any thread, while nobody else is in here."""
        with ExitStack() as opened:
            DISK.make_folders(self.path)
            descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            folder = self.folder = Folder(str(self.path), descriptor, self.uuid, self.description, True)
            opened.enter_context(folder)
            _make(folder)
            opened.enter_context(folder.hold())
            writer = self._writer = folder.writer(SEGMENT, WINDOW, KEEP_ALL, is_service=True)
            opened.callback(writer.close)
            writer.add_eventfd(self._eventfd)
            opened.callback(writer.remove_eventfd, self._eventfd)
            self._readers = OrderedDict[int, Reader]()
            opened.callback(self._forget)
            self.end = writer.next
            self.earliest = folder.bounds()[0]
            starts = folder.epochs(self.end)
            ends = [start for _, start in starts[1:]] + [self.end]
            self._table = [(epoch, end) for (epoch, _), end in zip(starts, ends, strict=False)]
            self._epoch = writer.last_epoch
            self._whole = (0, 0, 0)
            self.floor = writer.find_id(pack_labels(None, 0) or b"")[1]
            self._opened = opened.pop_all()

    def close(self) -> None:
        """What was appended is durable, unless LogFailed is raised. In any thread. Idempotent."""
        self._opened.close()

    def truncate(self, end: int) -> None:
        """The log ends there, durably. In any thread, while nobody else is in here."""
        self._forget()
        self._writer.close()
        self.folder.truncate(end)
        self.close()
        self.open()

    def watch(self) -> int:
        """The eventfd."""
        return self._eventfd

    def forget(self) -> None:
        """It is closed, and will not be opened again."""
        os.close(self._eventfd)
        self._eventfd = -1

    def _forget(self) -> None:
        while self._readers:
            self._readers.popitem()[1].close()

    # ---- what the protocol asks (words.Wal) ----

    @property
    def durable(self) -> int:
        return self._writer.durable

    def append(self, epoch: int, id: bytes, kind: Kind, data: Batch | bytes) -> tuple[int, int] | None:
        """TimeoutError: there is no room yet."""
        if epoch != self._epoch:
            self._writer.set_epoch(epoch)
            self._epoch = epoch
        try:
            if isinstance(data, bytes):  # a fence has none
                start, end = self._writer.append(b"", id, HELD | FENCED, 0.0)
            elif len(data.values) == 1:
                start, end = self._writer.append(data.values[0], data.labels, HELD, 0.0)
            else:
                starts, end = self._writer.append_many(data.values, HELD, data.labels, 0.0)
                start = starts[0]
        except LogFull:
            return None
        self._went_on(epoch, end)
        return start, end

    def append_raw(self, data: bytes | memoryview) -> bool:
        """TimeoutError: there is no room yet; up to `end` it was appended. LogError: these batches do not follow."""
        begin = self.end
        try:
            self._writer.append_raw(data, 0xFFFF_FFFF, 0.0)
        except LogFull:
            return False
        finally:
            end = self._writer.next
            self._epoch = self._writer.last_epoch
            if end > begin:
                self._note(data[: end - begin], begin)
        return True

    def _note(self, data: bytes | memoryview, begin: int) -> None:
        """The epochs of batches that were appended there. Those of a live master are all of one epoch."""
        length, epoch = _EPOCH.unpack_from(data)
        if epoch == self._epoch:
            self._went_on(epoch, begin + len(data))
            return
        at = 0
        while at < len(data):
            length, epoch = _EPOCH.unpack_from(data, at)
            at += (_LENGTH + length + _ALIGN - 1) & -_ALIGN
            self._went_on(epoch, begin + at)

    def _went_on(self, epoch: int, end: int) -> None:
        if self._table and self._table[-1][0] == epoch:
            self._table[-1] = (epoch, end)
        else:
            self._table.append((epoch, end))
        self.end = end

    def find(self, id: bytes, kind: Kind, data: Batch | bytes) -> Found | None:
        found, self.floor = self._writer.find_id(id)
        if found is None:
            return None
        start, end, number = found
        is_same = number == kind.value and not isinstance(data, bytes) and self._is_same(data)
        return Found(Kind(number), start, end, is_same)

    def _is_same(self, data: Batch) -> bool:
        """Has the batch with this id this content? An append of the same one appends nothing."""
        try:
            self._writer.append_many(data.values, HELD, data.labels, 0.0)
        except LogError:
            return False
        return True

    def epochs(self) -> Table:
        return tuple(self._table)

    def whole(self, start: int, size: int) -> int:
        if start + size >= self.durable:  # which lies between two batches
            return max(start, self.durable)
        if self._whole[:2] != (start, size):
            data = self.raw(start, self.durable, size) or b""
            self._whole = (start, size, start + len(data) if len(data) <= size else start)
        return self._whole[2]

    def same(self, start: int, data: bytes) -> int:
        if start < self.earliest:
            return start
        mine = self.raw(start, min(self.end, start + len(data)), len(data)) if start < self.end else b""
        if mine == data:
            return start + len(data)
        theirs = Reader(str(self.path), -1, self.uuid, start)
        theirs.feed(data)
        while (batch := theirs.raw(start + len(data), 1)) is not None:
            begin = theirs.position - len(batch)
            if begin >= self.end or self.raw(begin, theirs.position, len(batch)) != batch:
                return begin
        return start + len(data)

    # ---- bytes ----

    def raw(self, position: int, limit: int, size: int) -> bytes | None:
        """Whole batches from there up to `limit`, a bound of batches: so many bytes at most, or one batch. None: there
        is none. LogError: they were trimmed; LogDamaged."""
        if position >= limit:
            return None
        if position >= self.durable and (tail := self._writer.tail(position, size)) is not None:
            return tail[: limit - position]
        reader = self._readers.pop(position, None) or self.folder.reader(position)
        try:
            data = reader.raw(min(limit, self.durable), size)
        except BaseException:
            reader.close()
            raise
        if (other := self._readers.pop(reader.position, None)) is not None:
            other.close()
        self._readers[reader.position] = reader
        if len(self._readers) > _READERS:
            self._readers.popitem(last=False)[1].close()
        return data

    def sync(self) -> None:
        """What was appended goes to the disk; the eventfd rings when it is there."""
        self._writer.start(self.end)

    def try_sync(self) -> bool:
        """Syncs in this thread, which waits for the disk. False: another thread syncs, or there is nothing to sync."""
        return self._writer.try_flush()

    def hear(self) -> None:
        """The eventfd rings no more for what was, also while the log is closed."""
        if self._eventfd >= 0:
            with suppress(BlockingIOError):
                os.eventfd_read(self._eventfd)

    def check(self) -> None:
        """LogFailed: nothing can be said of what is on the disk."""
        if self._writer.failed:
            self._writer.wait(self.end, 0.0)

    def commit(self, position: int) -> None:
        """Readers may read to here."""
        self._writer.commit(position)

    def trim(self, position: int) -> None:
        self._writer.ask_trim(position)
        self.earliest = self.folder.bounds()[0]

    def retained(self, age: float, most: int, now_ns: int) -> int:
        """Where the log has to begin that no segment is older than `age`, and no more than so many bytes are left.
        0: no limit. What a cursor needs stays, unless that is abandoned. In any thread, with a folder of its own."""
        with self.folder.copy() as folder:
            start, end = folder.bounds()
            told = [found for name in cursor_names(folder) if (found := folder.cursor(name)) is not None]
            floor = min([at for at, used_ns in told if now_ns - used_ns < ABANDONED_S * 1e9], default=end)
            mine = [base for base in bases(folder) if base >= start]
            left = sum(map(folder.size_of_segment, mine))
            for base, following in itertools.pairwise(mine):
                size, _, _, time_ns, _ = core.segment(folder.path, folder.descriptor, folder.uuid, base)
                is_over = (age and now_ns - time_ns > age * 1e9) or (most and left > most)
                if not is_over or following > floor:
                    break
                start, left = following, left - size
            return start

    def has_room(self) -> bool:
        """For two more segments."""
        found = os.statvfs(self.path)
        return found.f_bavail * found.f_frsize >= 2 * SEGMENT


def _make(folder: Folder) -> None:
    """The log is made, if there is none. LogError: it is another one."""
    found = core.identify(folder.path, folder.descriptor)
    if found is None:
        first = min(core.SEGMENT_FIRST, SEGMENT)
        core.create(folder.path, folder.descriptor, folder.uuid, first, folder.description, True, 0)
    elif found != (folder.uuid, folder.description, True):
        raise LogError(
            f"{folder.path} is {'a copy of another log' if found[2] else 'a log that is not replicated'}: its uuid is "
            f"{found[0].hex()}, and this node's copy has {folder.uuid.hex()}; move the folder away, or give the node "
            "another one as data"
        )


# ---- marks ----


class MarksFile:
    """The marks of a member, in two copies that take turns, so that a torn write spoils one of them at most.

    0          ROOM       2 ROOM
    | copy 0   | copy 1   |          each: CRC-32 u32, length u32, JSON with a number that grows

    The file has its size from the beginning: a full disk keeps no promise from being stored.
    """

    ROOM: Final = 16 << 10
    _HEAD: Final = struct.Struct("<II")

    def __init__(self, path: Path, disk: Disk = DISK) -> None:
        """LogError: the file is there, and neither copy is valid."""
        self._path, self._disk = path, disk
        self.life, self.marks, self.others = 0, Marks(), frozenset[str]()
        """`life`: how often the member was started. `others`: members, as this one knew them last."""
        self._number = 0
        if not path.exists():
            disk.make_folders(path.parent)
            disk.replace(path, bytes(2 * self.ROOM), 0o600)
        data = path.read_bytes()
        copies = [copy for at in (0, self.ROOM) if (copy := self._copy(data[at : at + self.ROOM])) is not None]
        if not copies and any(data):
            raise LogError(
                f"{path}: neither copy of what this member has promised is whole, so it could acknowledge what it must "
                "not; move it away with the folder of the log, and let the member be replaced: rtmw log members"
            )
        for copy in sorted(copies, key=lambda copy: copy["number"]):
            self.life, self.marks, self._number = copy["life"], Marks(*copy["marks"]), copy["number"]
            self.others = frozenset(copy["others"])

    def _copy(self, data: bytes) -> dict[str, Any] | None:
        if len(data) < self._HEAD.size:
            return None
        crc, length = self._HEAD.unpack_from(data)
        body = data[self._HEAD.size : self._HEAD.size + length]
        return json.loads(body) if length and len(body) == length and crc32(body) == crc else None

    def keep(self, marks: Marks) -> None:
        """Durably. In any thread, one at a time. Raises OSError."""
        self._number += 1
        told = {"number": self._number, "life": self.life, "marks": marks, "others": sorted(self.others)}
        body = json.dumps(told).encode()
        file = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
        try:
            self._disk.write_all(file, [self._HEAD.pack(crc32(body), len(body)), body], self._number % 2 * self.ROOM)
            self._disk.sync_data(file)
        finally:
            os.close(file)
        self.marks = marks
