"""A core, with a rule taken out (its name; empty: none), that kills itself behind so many batches of records.

`python -m tests.transfer.programs.mutant_core NAME BATCHES durable|lost …`. durable: when they are on the disk, and it
has told nobody; lost: when they would go to the disk, and it has told whatever it tells before. 0: it does not.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

if __name__ == "__main__":
    from tests.transfer.mutants import Finder
    from tests.transfer.programs.mutants import MUTANTS

    *_, name, batches, when = sys.argv
    del sys.argv[-3:]
    if name:
        sys.meta_path.insert(0, Finder(MUTANTS[name]))

    import rtmw
    from rtmw.transfer.core import __main__ as core
    from rtmw.transfer.core.syncing import Syncing
    from rtmw.transfer.store import Store

    left = int(batches)
    append, sync = Store._append, Syncing._sync

    def mortal(self: Store, effect: Any) -> list[int]:
        global left
        lsns = append(self, effect)
        left -= 1
        if left == 0 and when == "durable":
            assert self._last is not None
            self._last.resolve()
            os.kill(os.getpid(), signal.SIGKILL)
        return lsns

    async def lost(self: Syncing, last: rtmw.Appended) -> None:
        if left <= 0 < int(batches) and when == "lost":
            os.kill(os.getpid(), signal.SIGKILL)
        await sync(self, last)

    if when == "lost":  # and a process that is killed loses nothing that it has written
        Syncing._write_ahead = lambda self: None  # type: ignore[method-assign]
    Store._append = mortal  # type: ignore[method-assign]
    Syncing._sync = lost  # type: ignore[method-assign]
    sys.exit(core.main())
