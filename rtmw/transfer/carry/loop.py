"""Two ends of a stream within one process: a node that carries files to its own receivers is its own peer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from rtmw.errors import StreamError

__all__ = ["LoopEnd", "loop_ends"]

ROOM: Final = 1 << 20
"""Bytes on their way, above which `write` waits."""


class LoopEnd:
    """One end; for one reader and one writer, in one event loop. See `half.Bytes`."""

    def __init__(self) -> None:
        self._other: LoopEnd = self
        self._inbox: list[bytes] = []
        self._changed = asyncio.Event()
        self._error: StreamError | None = None

    async def read_parts(self) -> list[bytes]:
        await self._until(lambda: bool(self._inbox))
        parts, self._inbox = self._inbox, []
        self._other._changed.set()
        return parts

    async def write(self, data: bytes) -> None:
        await self._until(lambda: sum(map(len, self._other._inbox)) < ROOM)
        self._other._inbox.append(data)
        self._other._changed.set()

    async def _until(self, met: Callable[[], bool]) -> None:
        while self._error is None and not met():
            self._changed.clear()
            await self._changed.wait()
        if self._error is not None:
            raise StreamError(str(self._error), self._error.code)

    def reset(self, words: str, code: int) -> None:
        for end in (self, self._other):
            end._error = end._error or StreamError(words, code)
            end._changed.set()


def loop_ends() -> tuple[LoopEnd, LoopEnd]:
    one, other = LoopEnd(), LoopEnd()
    one._other, other._other = other, one
    return one, other
