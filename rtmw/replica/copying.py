"""A member that was left behind, or is damaged, gets its master's log anew: sealed segments as files, ids, cursors.

    member                                    master
      │ {"log": …}                              │       one stream of their session: its credit is the push-back
      ├────────────────────────────────────────►│
      │ {"start", "end", "files"}               │       segments that end at or below the commit point
      │◄────────────────────────────────────────┤
      │ [[name, from], …]                       │       what is not here yet
      ├────────────────────────────────────────►│
      │ their bytes, one file behind the other  │
      │◄────────────────────────────────────────┤

What follows behind the copy is shipped as to any member. While it comes, the member has an empty log. A copy that is
broken off goes on with the bytes that it has; it is read through before it becomes the log (rtmw.log.copied).
"""

from __future__ import annotations

import asyncio
import errno
import json
import logging
import os
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from rtmw.errors import LogDamaged, LogError, LogFull, SessionError
from rtmw.log import Folder
from rtmw.log.copied import Copied, Copy, CopyFile, copy_files, make_room, set_aside
from rtmw.net.session import Code, Session, Stream
from rtmw.replica.member import Member
from rtmw.replica.wal import SEGMENT
from rtmw.replica.wire import COPY
from rtmw.replica.words import Role
from rtmw.text.units import size

__all__ = ["refetch", "serve"]

log = logging.getLogger("rtmw.replica")

PART: Final = 1 << 20
_PRIORITY: Final = 1
_LONGEST: Final = 16 << 20
"""Bytes of a list of files."""
_AGAIN_S: Final = 1.0
T = TypeVar("T")
_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


class _Words:
    """Lines of a stream, and the bytes behind them."""

    def __init__(self, stream: Stream) -> None:
        self._stream, self._rest = stream, b""

    async def line(self) -> Any:
        """ValueError: it is none."""
        while b"\n" not in self._rest:
            part = await self._stream.read()
            if not part or len(self._rest) > _LONGEST:
                raise ValueError("the stream of a copy has no such line")
            self._rest += part
        line, _, self._rest = self._rest.partition(b"\n")
        return json.loads(line)

    async def some(self, most: int) -> bytes:
        """At least one byte; empty behind the last."""
        if not self._rest:
            return await self._stream.read(most)
        part, self._rest = self._rest[:most], self._rest[most:]
        return part


def _line(told: object) -> bytes:
    return json.dumps(told).encode() + b"\n"


async def _in_thread(work: Callable[..., T], *arguments: Any) -> T:
    """A thread cannot be cancelled: whoever is cancelled here waits for it first, so that nothing is done behind it."""
    working = asyncio.ensure_future(asyncio.to_thread(work, *arguments))
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        await asyncio.wait([working])
        raise


# ---- at the master ----


async def serve(stream: Stream, members: Mapping[bytes, Member]) -> None:
    """Gives what is asked for. ValueError: it is no question. SessionError: the stream or the session is over."""
    words = _Words(stream)
    stream.accept()
    member = members.get(bytes.fromhex((await words.line())["log"]))
    if member is None or not member.is_open or member.replica.role is not Role.MASTER:
        stream.reset("this node is not the master of that log", Code.REFUSED)
        return
    with member.folder.copy() as folder:
        copied = await _in_thread(copy_files, folder, member.committed)
        await stream.write(_line(copied._asdict()))
        sizes = {file.name: file.size for file in copied.files}
        try:
            for name, at in await words.line():
                await _send(stream, folder, name, range(at, sizes[name]))
        except (OSError, KeyError) as error:
            stream.reset(f"{error} is not there any more: begin again", Code.REFUSED)
            return
    stream.end()


async def _send(stream: Stream, folder: Folder, name: str, part: range) -> None:
    file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder.descriptor)
    try:
        for at in range(part.start, part.stop, PART):
            data = await _in_thread(os.pread, file, min(PART, part.stop - at), at)
            if len(data) < min(PART, part.stop - at):
                raise FileNotFoundError(errno.ENOENT, "a part of the file", name)
            await stream.write(data)
    finally:
        os.close(file)


# ---- at the member ----


async def refetch(member: Member, session: Session) -> bool:
    """The log of the member is set aside, and is that of its master when this returns True. False: it is empty, and
    another try goes on. LogError, OSError: that of this node cannot be changed, and the member has failed."""
    member.committed = 0
    if member.wal.end > 0:
        await _replaced(member, lambda: set_aside(member.wal.path))
    try:
        while member.failed is None:
            try:
                return await _copied(member, session)
            except (OSError, LogFull) as error:
                if isinstance(error, OSError) and error.errno not in _NO_ROOM:
                    raise
                member.copying = f"the disk of {member.wal.path} is full: {error}"
                log.warning("log %s: %s; the copy goes on when there is room", member.name, error)
                await asyncio.sleep(_AGAIN_S)
        return False
    except (SessionError, LogDamaged, ValueError, TypeError, KeyError) as error:
        log.warning("log %s: the copy is broken off: %s", member.name, error)
        return False
    finally:
        member.copying = ""


async def _copied(member: Member, session: Session) -> bool:
    stream = session.open(COPY, priority=_PRIORITY)
    try:
        words = _Words(stream)
        await stream.write(_line({"log": member.uuid.hex()}))
        told = await words.line()
        copied = Copied(told["start"], told["end"], tuple(CopyFile(*file) for file in told["files"]))
        copy = await _in_thread(Copy, member.wal.path, copied)
        wanted = [(file, at) for file in copied.files if (at := copy.has(file)) < file.size]
        await stream.write(_line([(file.name, at) for file, at in wanted]))
        stream.end()
        left, all = sum(file.size - at for file, at in wanted), sum(file.size for file in copied.files)
        log.info("log %s: %s of %s are copied", member.name, size(left), size(all))
        for file, at in wanted:
            while at < file.size:
                member.copying = f"{size(all - left)} of {size(all)} are copied"
                data = await words.some(min(PART, file.size - at))
                if not data:
                    raise ValueError(f"{file.name} ends at {at} of {file.size}")
                await _written(copy, file, at, data)
                at, left = at + len(data), left - len(data)
        await _replaced(member, lambda: copy.finish(member.uuid, member.description, SEGMENT))
    finally:
        stream.reset("the copy is here, or broken off")
    log.info("log %s: the copy is whole; it begins at %d and ends at %d", member.name, copied.start, copied.end)
    return True


async def _written(copy: Copy, file: CopyFile, at: int, data: bytes) -> None:
    """What was set aside gives its room to the copy, if there is no other."""
    try:
        await _in_thread(copy.write, file, at, data)
    except OSError as error:
        if error.errno not in _NO_ROOM or not await _in_thread(make_room, copy.path):
            raise
        log.warning("log %s: the disk is full: what was set aside goes", copy.path.name)
        await _in_thread(copy.write, file, at, data)


async def _replaced(member: Member, work: Callable[[], Any]) -> None:
    """The log is closed meanwhile, and open again in any case; if it is not, the member has failed."""

    def replaced() -> None:
        wal.close()
        try:
            work()
        finally:
            try:
                wal.open()
            except LogFull:
                if not make_room(wal.path):
                    raise
                wal.open()
            is_open.append(True)

    member.is_open, wal, is_open = False, member.wal, list[bool]()
    try:
        await _in_thread(replaced)
    except (OSError, LogError) as error:
        member.failed = member.failed if is_open else error
        raise
    finally:
        if is_open:
            member.opened()
