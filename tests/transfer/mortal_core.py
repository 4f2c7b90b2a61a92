"""A core that kills itself when so many batches of records of this life are on the disk: `--batches N`."""

from __future__ import annotations

import os
import signal
import sys

from rtmw.transfer.core import __main__ as core
from rtmw.transfer.effects import Append
from rtmw.transfer.store import Store

if __name__ == "__main__":
    at = sys.argv.index("--batches")
    left = int(sys.argv[at + 1])
    del sys.argv[at : at + 2]
    append = Store._append

    def mortal(self: Store, effect: Append) -> list[int]:
        global left
        lsns = append(self, effect)
        left -= 1
        if left == 0:
            assert self._last is not None
            self._last.resolve()
            os.kill(os.getpid(), signal.SIGKILL)
        return lsns

    Store._append = mortal  # type: ignore[method-assign]
    sys.exit(core.main())
