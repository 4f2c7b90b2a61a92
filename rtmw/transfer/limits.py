"""The limits of the transfers of a core."""

from __future__ import annotations

from dataclasses import dataclass, fields

from rtmw.transfer.undoing import DELIVERIES

__all__ = ["Limits"]


@dataclass(frozen=True, slots=True)
class Limits:
    """An open transaction beyond one of these is undone, and a transfer is refused."""

    age: float = 60.0
    """Seconds that a transaction may be open."""
    records: int = 10_000
    """Sends, takes and savepoints of a transaction."""
    bytes: int = 64 << 20
    """Of the bodies that a transaction sends."""
    transactions: int = 1024
    """Open at a time."""
    parked: int = 1_000_000
    """Transfers that have not ended."""
    deliveries: int = DELIVERIES
    """Of a transfer; then it is a dead letter."""
    left_age: float = 7 * 86_400.0
    """Seconds for which the part of a transfer is kept whose node has gone."""
    left_bytes: int = 64 << 30
    """Of such parts, together; those go first whose node has been gone for longest."""

    def __post_init__(self) -> None:
        for name in (field.name for field in fields(self)):
            value = getattr(self, name)
            if isinstance(value, bool) or not value > 0:
                raise ValueError(f"{name}={value!r} is not possible; it is a number above 0")
