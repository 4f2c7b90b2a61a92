"""Queues and transactions of a core, as rows for people and tools."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from rtmw.transfer.machine import Machine
from rtmw.transfer.queues import queue_name
from rtmw.transfer.records import TransferState

__all__ = ["QueueRow", "StoreStats", "TransactionRow", "queue_rows", "transaction_rows"]


@dataclass(frozen=True)
class QueueRow:
    """The transfers of a service that have not ended."""

    queue: str
    """`service`, or `service@node`."""
    states: dict[TransferState, int]
    """How many of each."""
    bytes: int
    """Of their bodies."""
    receivers: int


@dataclass(frozen=True)
class TransactionRow:
    """A row of the transaction table, under the paper's names, and what bounds it."""

    txn_id: int
    state: str
    last_lsn: int
    undo_nxt_lsn: int
    save_list: tuple[str, ...]
    """The newest one first."""
    records: int
    """That would be undone."""
    bytes: int
    age: float
    """Seconds."""


@dataclass(frozen=True)
class StoreStats:
    """Counters of a store since it was opened, and its contents."""

    parked: int
    """Transfers that have not ended."""
    transactions: int
    """Open ones."""
    ended: dict[TransferState, int]
    """Transfers that have ended, by how; since the store was made."""
    checkpoints: int
    orphans: int
    """Files of the spool without a transfer, removed when it was opened."""
    log_bytes: int
    """From the last checkpoint to the end of the log."""


def queue_rows(machine: Machine) -> list[QueueRow]:
    """By their names."""
    states: dict[str, Counter[TransferState]] = {name: Counter() for name in machine.receivers}
    sizes: Counter[str] = Counter()
    for item in machine.state.items.values():
        name = queue_name(item.record.header.to)
        states.setdefault(name, Counter())[item.state] += 1
        sizes[name] += item.record.header.length
    receivers = machine.receivers
    return [QueueRow(name, dict(states[name]), sizes[name], len(receivers.get(name, ()))) for name in sorted(states)]


def transaction_rows(machine: Machine, monotonic_ns: int) -> list[TransactionRow]:
    """The oldest one first; also those that have logged nothing yet."""
    rows: list[TransactionRow] = []
    for txn in machine.open:
        row, age = machine.row(txn), machine.age_ns(txn, monotonic_ns) / 1e9
        names = tuple(entry.spname for entry in row.savepoints())
        numbers = row.last_lsn, row.undo_next, names, len(row.undoable), row.bytes
        rows.append(TransactionRow(txn, row.phase.name, *numbers, age))
    return rows
