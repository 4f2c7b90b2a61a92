"""A core that kills itself when so many batches of records of this life are on the disk: `--batches N`; with `--lost`,
when the last of so many that begin work is about to go there, and it has told whatever it tells before."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys

import rtmw
from rtmw.transfer.core import __main__ as core
from rtmw.transfer.core.syncing import Syncing
from rtmw.transfer.effects import Append
from rtmw.transfer.store import Store

TELLS_S = 0.1
"""So long what it tells too early has time to leave."""

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--batches", type=int)
    parser.add_argument("--lost", action="store_true")
    asked, sys.argv[1:] = parser.parse_known_args()
    left = asked.batches
    append, sync = Store._append, Syncing._sync

    def mortal(self: Store, effect: Append) -> list[int]:
        global left
        lsns = append(self, effect)
        left -= not asked.lost or effect.begins
        if left == 0 and not asked.lost:
            assert self._last is not None
            self._last.resolve()
            os.kill(os.getpid(), signal.SIGKILL)
        return lsns

    async def lost(self: Syncing, last: rtmw.Appended) -> None:
        if left <= 0 and asked.lost:
            await asyncio.sleep(TELLS_S)
            os.kill(os.getpid(), signal.SIGKILL)
        await sync(self, last)

    if asked.lost:  # and a process that is killed loses nothing that it has written
        Syncing._write_ahead = lambda self: None  # type: ignore[method-assign]
    Store._append = mortal  # type: ignore[method-assign]
    Syncing._sync = lost  # type: ignore[method-assign]
    sys.exit(core.main())
