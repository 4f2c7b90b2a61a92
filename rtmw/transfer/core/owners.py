"""Whose the open transactions are, and what their programs ask of them."""

from __future__ import annotations

from rtmw.transfer import messages
from rtmw.transfer.address import Life
from rtmw.transfer.errors import TransactionAborted
from rtmw.transfer.events import (
    AbortTransaction,
    CommitTransaction,
    DestroySavepoint,
    Event,
    RollBack,
    SetSavepoint,
)
from rtmw.transfer.frames import Frame
from rtmw.transfer.machine import Machine
from rtmw.transfer.records import Request

__all__ = ["Owners", "transaction_event"]


class Owners:
    """Of the open transactions of a machine."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._lives: dict[int, Life] = {}

    def begin(self, txn: int, life: Life) -> None:
        self._lives[txn] = life

    def check(self, frame: Frame, txn: int) -> None:
        """Raises TransactionAborted, unless the transaction is of the process that has sent the frame."""
        owner = self._lives.get(txn)
        if owner is None:
            self._machine.check_undone(txn)
        if owner is None or (owner.pid, owner.start) != (frame.life.pid, frame.life.start):
            raise TransactionAborted(
                f"transaction {txn} is not open: it was committed or undone, or its core was started anew; begin "
                "a new one"
            )

    def of(self, txn: int) -> Life | None:
        return self._lives.get(txn)

    def end(self, txn: int) -> None:
        self._lives.pop(txn, None)

    def leave(self, life: Life) -> None:
        """Its transactions are undone."""
        self._lives = {txn: owner for txn, owner in self._lives.items() if owner != life}


def transaction_event(frame: Frame) -> Event:
    """The event that a program asks for of its transaction. Raises ValueError: it asks for none."""
    match frame.message:
        case messages.Savepoint(txn=txn, name=name):
            return SetSavepoint(txn, name or None)
        case messages.RollBack(txn=txn, savepoint=savepoint):
            return RollBack(txn, savepoint)
        case messages.Release(txn=txn, savepoint=savepoint):
            return DestroySavepoint(txn, savepoint)
        case messages.Commit(txn=txn):
            return CommitTransaction(txn, Request(frame.life, frame.number))
        case messages.Abort(txn=txn):
            return AbortTransaction(txn)
        case _:
            raise ValueError(f"{type(frame.message).__name__} is nothing that a program says to its core")
