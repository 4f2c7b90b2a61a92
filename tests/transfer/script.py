"""A life of a core, event by event: in memory, and in a store whose process is killed behind one of its records."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from rtmw.transfer.events import (
    AbortTransaction,
    Append,
    BeginTransaction,
    CommitTransaction,
    Event,
    ReceiverJoined,
    RollBack,
    SendTransfers,
    SetSavepoint,
    SettleTransfers,
    TakeTransfers,
)
from rtmw.transfer.records import TransferState
from tests.transfer.driven import Driven
from tests.transfer.memory import ME, header

NODE = "plant"


def run(step: Callable[[Event], Any]) -> None:
    """Transactions with savepoints that are rolled back, committed and undone, and one that stays open."""

    def send(body: bytes, txn: int = 0) -> None:
        step(SendTransfers(header(body), (body,), txn=txn))

    step(ReceiverJoined("ingest", ME))
    send(b"a")
    send(b"b")
    first, second = step(BeginTransaction()), step(BeginTransaction())
    send(b"c", first)
    step(SetSavepoint(first, "half"))
    step(TakeTransfers("ingest", ME, first))
    send(b"undone", first)
    send(b"never", second)
    step(RollBack(first, "half"))
    step(TakeTransfers("ingest", ME, second))
    send(b"d", first)
    step(CommitTransaction(first))
    step(AbortTransaction(second))
    (item,) = step(TakeTransfers("ingest", ME))
    step(SettleTransfers((item.lsn,), TransferState.CONSUMED, by=ME))
    open = step(BeginTransaction())
    step(TakeTransfers("ingest", ME, open))
    send(b"open", open)
    step(SetSavepoint(open, "last"))


class Mortal(Driven):
    """Its process is killed when so many batches of this life are on the disk."""

    batches = 0

    def _append(self, effect: Append) -> list[int]:
        lsns = super()._append(effect)
        Mortal.batches -= 1
        if Mortal.batches == 0:
            assert self._last is not None
            self._last.resolve()
            os.kill(os.getpid(), signal.SIGKILL)
        return lsns


if __name__ == "__main__":
    Mortal.batches = int(sys.argv[2])
    with Mortal(sys.argv[1], node=NODE) as mortal:
        if sys.argv[3:]:
            run(mortal.step)
    print("ended")
