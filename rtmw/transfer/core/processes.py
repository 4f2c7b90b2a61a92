"""The processes of programs: that one has ended is known at once, and of the very one that joined."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

from rtmw.transfer.address import Life

__all__ = ["Processes"]


class Processes:
    """In the running event loop. `ended`: is called with a life of the process, whose generation counts for nothing."""

    def __init__(self, ended: Callable[[frozenset[Life]], None]) -> None:
        self._ended = ended
        self._watched: dict[tuple[int, int], int] = {}

    def watch(self, life: Life) -> bool:
        """False: it has ended already."""
        process = life.pid, life.start
        if process in self._watched:
            return True
        try:
            descriptor = os.pidfd_open(life.pid)
        except OSError:
            return False
        if not life.lives():  # asked behind pidfd_open, so the descriptor is of this process and no later one
            os.close(descriptor)
            return False
        self._watched[process] = descriptor
        asyncio.get_running_loop().add_reader(descriptor, self._gone, life)
        return True

    def _gone(self, life: Life) -> None:
        self._unwatch((life.pid, life.start))
        self._ended(frozenset({life}))

    def _unwatch(self, process: tuple[int, int]) -> None:
        descriptor = self._watched.pop(process)
        asyncio.get_running_loop().remove_reader(descriptor)
        os.close(descriptor)

    def close(self) -> None:
        for process in list(self._watched):
            self._unwatch(process)
