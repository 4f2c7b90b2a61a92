"""The limits of the transfers of a core: `[transfer.limits]` of a node's settings file."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Final, cast

from rtmw.settings import Declaration, Setting, SettingsError, SettingsFile, values

__all__ = ["LIMITS", "Limits", "read_limits"]

_TABLE: Final = "transfer.limits"
_LONGEST_S: Final = 1e9
_DELIVERIES: Final = 16
"""Number of deliveries of a transfer, after which it is a dead letter."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a core: an open transaction beyond one of them is undone, and a transfer is refused."""

    transaction_age: float = 60.0
    """Seconds that a transaction may be open."""
    transaction_records: int = 10_000
    """Sends, takes and savepoints of a transaction."""
    transaction_bytes: int = 64 << 20
    """Bytes of the bodies that a transaction sends."""
    transactions: int = 1024
    """Number of transactions that are open at a time."""
    parked: int = 1_000_000
    """Number of transfers that have not ended."""
    deliveries: int = _DELIVERIES
    """Number of deliveries of a transfer; then it is a dead letter."""
    left_age: float = 7 * 86_400.0
    """Seconds for which the part of a transfer is kept whose node has gone."""
    left_bytes: int = 64 << 30
    """Bytes of such parts, together; those go first whose node has been gone for longest."""

    def __post_init__(self) -> None:
        for name in (field.name for field in fields(self)):
            value = getattr(self, name)
            if isinstance(value, bool) or not value > 0:
                raise ValueError(f"{name}={value!r} is not possible; it is a number above 0")


_SECONDS: Final = values.seconds(0.001, _LONGEST_S)
# fmt: off
LIMITS: Final = Declaration(
    (
        Setting("transaction_age", _SECONDS, "SECONDS", "how long a transaction may be open", "60s", is_reloaded=True),
        Setting("transaction_records", values.count, "NUMBER",
            "sends, takes and savepoints of a transaction", "10000", is_reloaded=True),
        Setting("transaction_bytes", values.size, "BYTES",
            "of the bodies that a transaction sends", "64M", is_reloaded=True),
        Setting("transactions", values.count, "NUMBER", "transactions that are open at a time", "1024",
            is_reloaded=True),
        Setting("parked", values.count, "NUMBER", "transfers that have not ended; more are refused", "1000000",
            is_reloaded=True),
        Setting("deliveries", values.count, "NUMBER", "of a letter; then it is a dead letter", str(_DELIVERIES),
            is_reloaded=True),
        Setting("left_age", _SECONDS, "SECONDS",
            "how long the part of a transfer is kept whose node has gone", "7d", is_reloaded=True),
        Setting("left_bytes", values.size, "BYTES",
            "of such parts, together; those go first whose node has been gone for longest", "64G", is_reloaded=True),
    ),
    _TABLE,
)
# fmt: on


def read_limits(file: SettingsFile) -> Limits:
    """Return the limits that the file names, and the defaults of the others. `[transfer]` has to be a table, which
    rtmw/net/security/tables.py checks. Raises SettingsError, with file and line."""
    table = cast("dict[str, Any]", file.values.get("transfer", {}))
    given = table.get("limits", {})
    if not isinstance(given, dict):
        raise SettingsError(f"{file.place('limits', 'transfer')}: limits must be a table, [{_TABLE}]")
    return Limits(**LIMITS.check(cast("dict[str, Any]", given), lambda key: file.place(key, _TABLE)))
