"""The columns of a table: what a recording says of each message, and the members of the messages or their payloads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from rtmw import columns
from rtmw.recording.contents import UNSET_NS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rtmw.columns.program import Unsigned
    from rtmw.recording.batch import Batch


_TIME: Final = pa.timestamp("us", tz="UTC")
MESSAGE_FIELDS: Final = {
    field.name: field
    for field in (
        pa.field("log_time", _TIME, True),
        pa.field("publish_time", _TIME, True),
        pa.field("sequence", pa.int64(), False),
        pa.field("priority", pa.int8(), False),
        pa.field("publisher", pa.int64(), False),
        pa.field("expires", _TIME, True),
        pa.field("log_time_ns", pa.int64(), True),
        pa.field("publish_time_ns", pa.int64(), True),
    )
}
"""Times to the microsecond, which every reader knows, and to the nanosecond as numbers; null: nobody set the time."""


def message_column(name: str, batch: Batch) -> pa.Array:
    """Returns one of these columns of a batch."""
    match name:
        case "log_time" | "publish_time":
            stamps = getattr(batch, name)
            return _times(stamps, _unset(stamps))
        case "log_time_ns" | "publish_time_ns":
            stamps = getattr(batch, name.removesuffix("_ns"))
            return pa.array(stamps, mask=_unset(stamps))
        case "expires":
            return _times(batch.expires, batch.expires == 0)
        case "sequence" | "publisher":
            numbers = np.require(getattr(batch, name), requirements="A")  # they may lie at any byte of a record
            return pa.array(numbers.view(np.int64))
        case "priority":
            return pa.array(batch.priority.astype(np.int8))
        case _:
            raise KeyError(name)


def _unset(stamps: NDArray[Any]) -> NDArray[Any] | None:
    """Returns which times nobody has set; None: all are set."""
    mask = stamps == UNSET_NS
    return mask if mask.any() else None


def _times(stamps: NDArray[Any], missing: NDArray[Any] | None = None) -> pa.Array:
    return pa.array(stamps // 1000, pa.int64(), mask=missing).cast(_TIME)


METADATA: Final = {
    field.name: field
    for field in (
        pa.field("topic", pa.string(), False),
        MESSAGE_FIELDS["log_time"],
        MESSAGE_FIELDS["publish_time"],
        MESSAGE_FIELDS["sequence"],
        MESSAGE_FIELDS["priority"],
        MESSAGE_FIELDS["publisher"],
        MESSAGE_FIELDS["expires"],
        pa.field("file", pa.string(), False),
        pa.field("offset", pa.int64(), False),
        MESSAGE_FIELDS["log_time_ns"],
        MESSAGE_FIELDS["publish_time_ns"],
        pa.field("type", pa.string(), False),
        pa.field("payload", pa.binary(), False),
    )
}
"""The fields of a row. `offset`: its number in the file; `expires`: null is never; `publisher`: 64 bits as a long."""

UNTYPED: Final = ("type", "payload")
"""Usual only where messages have no columns of their own."""


@dataclass(frozen=True)
class Column:
    """A column of the table, and where its values come from."""

    name: str
    member: int | None
    """Which member of the message; None: metadata of that name."""
    field: pa.Field


def member_places(columns: Iterable[Column]) -> tuple[int, ...]:
    """Which members of the message some columns are, each once, in the order of the message."""
    return tuple(sorted({column.member for column in columns if column.member is not None}))


@dataclass(frozen=True)
class Layout:
    """All columns that there are, and which of them are read if nothing else is said."""

    columns: dict[str, Column]
    usual: tuple[str, ...]

    def chosen(self, names: tuple[str, ...]) -> tuple[Column, ...]:
        """Columns by name, in any case, as Spark's are. Raises ValueError for one that there is not."""
        found = {name.lower(): column for name, column in self.columns.items()}
        missing = [name for name in names if name.lower() not in found]
        if missing:
            raise ValueError(f"there is no column {missing[0]!r}; there are {', '.join(self.columns)}")
        return tuple(found[name.lower()] for name in names or self.usual)


def layout_of(
    descriptions: tuple[bytes, ...],
    unsigned: Unsigned,
    permissive: bool = False,
    metadata: Mapping[str, pa.Field] = METADATA,
) -> Layout:
    """The columns for messages of a type, by its versions; none: of different types. Raises UnsupportedType.

    `permissive`: members may be null, because a damaged payload is a row without them. `metadata`: the columns that
    each message has.
    """
    found = {name: Column(name, None, field) for name, field in metadata.items()}
    if not descriptions:
        return Layout(found, tuple(found))
    usual = [name for name in metadata if name not in UNTYPED]
    for place, field in enumerate(columns.merged_versions(descriptions, unsigned).schema(permissive)):
        name = free_name(field.name, found)
        found[name] = Column(name, place, pa.field(name, field.type, field.nullable))
        usual.append(name)
    return Layout(found, tuple(usual))


def free_name(name: str, taken: Iterable[str]) -> str:
    """Spark and SQL do not tell `Topic` from `topic`; whoever comes second is called `Topic_`."""
    lower = {known.lower() for known in taken}
    while name.lower() in lower:
        name += "_"
    return name
