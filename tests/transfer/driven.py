"""A store whose steps a test drives one by one, as the process of a core drives them together."""

from __future__ import annotations

from dataclasses import dataclass
from threading import RLock
from typing import Any

import rtmw
from rtmw.transfer.address import Life
from rtmw.transfer.errors import TransferRefused
from rtmw.transfer.events import (
    Aborted,
    AbortTransaction,
    BeginTransaction,
    CommitTransaction,
    Event,
    Free,
    Moved,
    ReceiverJoined,
    ReceiverLeft,
    RollBack,
    SendTransfers,
    Sent,
    SetSavepoint,
    SettleTransfers,
    TakeTransfers,
    Tick,
)
from rtmw.transfer.header import Header
from rtmw.transfer.queues import Item
from rtmw.transfer.records import LARGEST_INLINE, Spooled, TransferId, TransferState
from rtmw.transfer.state import State
from rtmw.transfer.store import Store, TransactionRow, transaction_rows


@dataclass(frozen=True, slots=True)
class Taken:
    """A transfer that a receiver has taken."""

    item: int
    """Its number in the store."""
    id: TransferId
    header: Header
    sender: str
    body: bytes
    redelivered: int
    """How often it was delivered before."""


class Driven(Store):
    """A step here is what `Process` makes of one: its records are durable before its notes are carried out, and before
    its answer is given, if others may see its work. Threads of a test may share it."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.lock = RLock()
        self.told: list[Moved | Aborted] = []
        """What senders and tools would be told."""
        self.checkpoints = 0
        """Number of checkpoints since it was opened."""
        super().__init__(*arguments, **options)

    def step(self, event: Event) -> Any:
        with self.lock:
            done = self.submit(event)
        bodies = [note.body for note in done.notes if isinstance(note, Free)]
        if done.last is not None and (done.waits or bodies):
            done.last.resolve()
        for body in bodies:
            self.spool.remove(body.name)
        for note in done.notes:
            if isinstance(note, Moved | Aborted):
                self.told.append(note)
        if done.failure is not None:
            raise done.failure
        return done.answer

    def _write_checkpoint(self, state: State) -> rtmw.Appended:
        last = super()._write_checkpoint(state)
        self.checkpoints += 1
        return last

    def checkpoint(self) -> None:
        """Write all of the state anew, as when a checkpoint is due, and wait for it. The next step trims the log."""
        with self.lock:
            self._untrimmed = last = self._write_checkpoint(self.machine.state)
        last.resolve()

    # ---- what programs ask for ----

    def begin(self, owner: Life | None = None) -> int:
        number: int = self.step(BeginTransaction(owner))
        return number

    def send(
        self, header: Header, body: bytes, *, sender: str = "", txn: int = 0, id: TransferId | None = None
    ) -> list[TransferId]:
        """Send a body as a core does: a large one is a file of the spool, which is removed if no transfer names it."""
        held: bytes | Spooled = body
        if len(body) > LARGEST_INLINE:
            with self.lock:
                held = self.spool.write(self.spool_name(), body)
        try:
            sent: Sent = self.step(SendTransfers(header, (held,), sender, txn, () if id is None else (id,)))
        finally:
            if isinstance(held, Spooled) and held.name not in self.machine.state.bodies:
                self.spool.remove(held.name)
        return list(sent.ids)

    def take(self, service: str, life: Life, *, txn: int = 0) -> Taken | None:
        items: list[Item] = self.step(TakeTransfers(service, life, txn))
        if not items:
            return None
        item, record = items[0], items[0].record
        body = self.spool.read(record.body) if isinstance(record.body, Spooled) else record.body
        return Taken(item.lsn, record.id, record.header, record.sender, body, item.deliveries - 1)

    def settle(self, letter: Taken | int, state: TransferState, cause: str = "", by: Life | None = None) -> None:
        item = letter.item if isinstance(letter, Taken) else letter
        refused: dict[int, str] = self.step(SettleTransfers((item,), state, cause, by))
        if refused:
            raise TransferRefused(refused[item])

    def savepoint(self, txn: int, name: str | None = None) -> int:
        lsn: int = self.step(SetSavepoint(txn, name))
        return lsn

    def rollback(self, txn: int, to: str | int) -> None:
        self.step(RollBack(txn, to))

    def commit(self, txn: int) -> None:
        self.step(CommitTransaction(txn))

    def abort(self, txn: int) -> None:
        self.step(AbortTransaction(txn))

    def join(self, service: str, life: Life) -> None:
        self.step(ReceiverJoined(service, life))

    def leave(self, life: Life) -> None:
        self.step(ReceiverLeft(life))

    def tick(self) -> None:
        self.step(Tick())

    # ---- what is there ----

    @property
    def parked(self) -> int:
        """Number of transfers that have not ended."""
        return len(self.machine.state.items)

    @property
    def ended(self) -> dict[TransferState, int]:
        """Transfers that have ended, by how; since the store was made."""
        return dict(self.machine.state.counts)

    def transactions(self) -> list[TransactionRow]:
        return transaction_rows(self.machine, self._now().monotonic_ns)
