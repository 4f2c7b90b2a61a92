"""What tests of the store send: short names for headers and takes."""

from __future__ import annotations

from rtmw.transfer.address import Life
from rtmw.transfer.records import TransferState
from tests.transfer.driven import Driven, Taken
from tests.transfer.memory import header


def me(generation: int = 0) -> Life:
    life = Life.of_process(generation=generation)
    assert life is not None
    return life


def send(store: Driven, body: bytes, txn: int = 0, to: str = "ingest") -> None:
    store.send(header(body, to), body, txn=txn)


def take(store: Driven, txn: int = 0) -> Taken:
    letter = store.take("ingest", me(), txn=txn)
    assert letter is not None
    return letter


def drain(store: Driven, service: str = "ingest") -> list[bytes]:
    """All that can be taken, consumed."""
    store.join(service, me())
    found: list[bytes] = []
    while (letter := store.take(service, me())) is not None:
        store.settle(letter, TransferState.CONSUMED, by=me())
        found.append(letter.body)
    return found
