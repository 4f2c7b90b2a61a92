"""`python -m rtmw.relay` for a disk of few MiB: small segments, and a checkpoint and a seal many times a second.

What its own command line begins with, up to `-m rtmw.relay`, is left out. With RTMW_UNSYNCED it answers before its rows
are on the disk: then the rig has to find harm.
"""

from __future__ import annotations

import os
import sys
from functools import partial

from rtmw.relay import __main__ as service
from rtmw.relay import server, store


async def _none(_: store.Store) -> None:
    pass


if __name__ == "__main__":
    sys.argv[1:] = sys.argv[sys.argv.index("rtmw.relay") + 1 :]
    store.ROOM_LEAST = 0  # type: ignore[misc]
    store.CHECKPOINT_S = server._LOOK_S = 0.05  # type: ignore[misc]
    if "RTMW_UNSYNCED" in os.environ:
        store.Store.sync = _none  # type: ignore[method-assign]
    server.Store = partial(store.Store, segment="64K")  # type: ignore[misc,assignment]
    sys.exit(service.main())
