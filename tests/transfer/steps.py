"""Steps of a core without I/O, by short names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rtmw.transfer.address import Life
from rtmw.transfer.errors import TransferRefused
from rtmw.transfer.events import Moved, Now, SendTransfers, SettleTransfers, TakeTransfers
from rtmw.transfer.header import Header
from rtmw.transfer.queues import Item
from rtmw.transfer.records import TransferId, TransferState
from tests.transfer.memory import ME, Core, header

OTHER = Life(4712, 1000, 1)
SECOND = 1_000_000_000


def send(core: Core, body: bytes, to: str = "ingest", txn: int = 0, **more: Any) -> list[TransferId]:
    return ids_of(core, SendTransfers(header(body, to, **more), (body,), txn=txn))


def ids_of(core: Core, event: SendTransfers) -> list[TransferId]:
    """Send, and return the ids of the first body."""
    found: Any = core.step(event)
    return list(found.ids)


def arriving(head: Header, letters: Mapping[TransferId, bytes]) -> SendTransfers:
    """Letters that come from another node."""
    return SendTransfers(head, tuple(letters.values()), "valve", ids=tuple(letters))


def take(core: Core, life: Life = ME, txn: int = 0) -> Item:
    item = first_of(core, "ingest", life, txn)
    assert item is not None
    return item


def first_of(core: Core, service: str, life: Life, txn: int = 0) -> Item | None:
    """Take the first transfer of a service; None: there is none."""
    found: Any = core.step(TakeTransfers(service, life, txn))
    return found[0] if found else None


def settle(core: Core, item: int, state: TransferState, cause: str = "", by: Life | None = None) -> None:
    """Settle one transfer. TransferRefused: it cannot become so."""
    refused: Any = core.step(SettleTransfers((item,), state, cause, by))
    if refused:
        raise TransferRefused(refused[item])


def nothing(core: Core, life: Life = ME) -> bool:
    return first_of(core, "ingest", life) is None


def moved(core: Core) -> list[TransferState | None]:
    return [effect.state for effect in core.effects if isinstance(effect, Moved)]


def later(core: Core, seconds: float) -> None:
    core.now = Now(core.now.monotonic_ns + int(seconds * SECOND), core.now.wall_ns + int(seconds * SECOND))
