"""How a core kills itself behind so many batches of records of its life; called in its process, before it begins."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Sequence

from rtmw.durable_log.syncing import Syncing
from rtmw.transfer.events import Append
from rtmw.transfer.store import Store


def die_when_durable(batches: int) -> None:
    """When they are on the disk, and it has told nobody."""
    append, left = Store._append, batches

    def mortal(self: Store, effect: Append) -> Sequence[int]:
        nonlocal left
        lsns = append(self, effect)
        left -= 1
        if left == 0:
            assert self._last is not None
            self._last.resolve()
            os.kill(os.getpid(), signal.SIGKILL)
        return lsns

    Store._append = mortal  # type: ignore[method-assign]


def die_when_lost(batches: int, counts: Callable[[Append], bool], tells_s: float) -> None:
    """When the last of so many that count is about to go to the disk, and it has told whatever it tells before; that
    has so long to leave. Nothing is written ahead, for a process that is killed loses nothing that it has written."""
    append, sync, left = Store._append, Syncing._sync, batches

    def mortal(self: Store, effect: Append) -> Sequence[int]:
        nonlocal left
        left -= counts(effect)
        return append(self, effect)

    async def lost(self: Syncing) -> bool:
        if left <= 0:
            await asyncio.sleep(tells_s)
            os.kill(os.getpid(), signal.SIGKILL)
        return await sync(self)

    Store._append = mortal  # type: ignore[method-assign]
    Syncing._sync = lost  # type: ignore[method-assign]
    Syncing.try_sync = lambda self: False  # type: ignore[method-assign]
    Syncing._write_ahead = lambda self: None  # type: ignore[method-assign]
