"""Steps of a core without I/O, by short names."""

from __future__ import annotations

from typing import Any

from rtmw.transfer.address import Life
from rtmw.transfer.events import Moved, Now, SendTransfer, TakeTransfer
from rtmw.transfer.queues import Item
from rtmw.transfer.records import TransferId, TransferState
from tests.transfer.memory import ME, Core, header

OTHER = Life(4712, 1000, 1)
SECOND = 1_000_000_000


def send(core: Core, body: bytes, to: str = "ingest", txn: int = 0, **more: Any) -> list[TransferId]:
    found: Any = core.step(SendTransfer(header(body, to, **more), body, txn=txn))
    return list(found)


def take(core: Core, life: Life = ME, txn: int = 0) -> Item:
    item = core.step(TakeTransfer("ingest", life, txn))
    assert isinstance(item, Item)
    return item


def nothing(core: Core, life: Life = ME) -> bool:
    return core.step(TakeTransfer("ingest", life)) is None


def moved(core: Core) -> list[TransferState | None]:
    return [effect.state for effect in core.effects if isinstance(effect, Moved)]


def later(core: Core, seconds: float) -> None:
    core.now = Now(core.now.monotonic_ns + int(seconds * SECOND), core.now.wall_ns + int(seconds * SECOND))
