"""The counters of a core of transfers: eight numbers in one small message, which can be read without taking part."""

from __future__ import annotations

from dataclasses import astuple, dataclass
from pathlib import Path
from struct import Struct
from typing import Final

from rtmw.clock import CLOCK
from rtmw.domain import Domain
from rtmw.observe.queues import queue
from rtmw.patterns import OWN_PREFIX

__all__ = ["COUNTERS_TOPIC", "TransferActivity", "TransferCounters", "transfers"]

COUNTERS_TOPIC: Final = OWN_PREFIX + "transfer/counters"
"""Where a core says about once a second what it has counted; kept for late subscribers."""
_LAYOUT: Final = Struct("<8Q")


@dataclass(frozen=True)
class TransferCounters:
    """Of one core."""

    parked: int
    """Transfers that have not ended."""
    body_bytes: int
    """Of all these."""
    dead: int
    """Of them, dead letters."""
    transactions: int
    """Open ones."""
    accepted: int
    """Transfers since the store was made; those that no log keeps, since the core was started."""
    consumed: int
    failed: int
    """Expired, refused or cancelled."""
    redelivered: int
    """Letters that were handed over once more, since the core was started."""

    def pack(self) -> bytes:
        return _LAYOUT.pack(*astuple(self))

    @classmethod
    def unpack(cls, data: bytes) -> TransferCounters:
        return cls(*_LAYOUT.unpack(data))


@dataclass(frozen=True)
class TransferActivity:
    """The counters of a core, and their age."""

    pid: int
    silent: float
    """Seconds since it has said so."""
    counters: TransferCounters


def transfers(domain: Domain) -> TransferActivity | None:
    """None: no core runs in this domain. For a domain that is only observed, too."""
    for message in reversed(queue(domain, COUNTERS_TOPIC)):
        if message.size == _LAYOUT.size and Path(f"/proc/{message.publisher}").exists():
            silent = max(0.0, (CLOCK.wall_ns() - message.source_time_ns) / 1e9)
            return TransferActivity(message.publisher, silent, TransferCounters.unpack(message.preview[: _LAYOUT.size]))
    return None
