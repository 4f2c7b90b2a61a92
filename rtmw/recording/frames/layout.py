"""The columns of a table: what a recording says of each message, and the members of the messages or their payloads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from rtmw import columns
from rtmw.recording.arrow import MESSAGE_FIELDS

if TYPE_CHECKING:
    from rtmw.columns.program import Unsigned

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
