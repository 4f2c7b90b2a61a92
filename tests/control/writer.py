"""Adds 1 to the number in a control store, again and again: `python -m tests.control.writer SPEC TIMES`.

Prints `applied NUMBER VERSION` behind each change that was applied, and `unknown`, after which it reads. The state is
the number, and the one slice of the log has it, too.
"""

from __future__ import annotations

import asyncio
import sys

from rtmw.replica.control.store import Outcome
from tests.control.stores import store_of

LOG = "orders"


async def main(spec: str, times: int) -> None:
    store, done = store_of(spec, 10.0), 0
    value = None
    while done < times:
        value = value or await store.read(LOG)
        if value is None:
            print("unread", store.fault, flush=True)
            continue
        number = int(value.state or b"0") + 1
        state = b"%d" % number
        changed = await store.change(LOG, value.version, state, {number: state})
        if changed.outcome is Outcome.APPLIED:
            print("applied", number, changed.version, flush=True)
            done += 1
            value = value._replace(version=changed.version, state=state)
        else:
            value = None
            if changed.outcome is Outcome.UNKNOWN:
                print("unknown", store.fault, flush=True)
    store.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
