"""Versions of a type as one set of columns: merged by the names of their members.

A type keeps its name when a member is added, and messages of both versions lie in one recording. Each version is
decoded by its own decoder; the columns of its batches are then put in the order and the types of the merged schema.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from rtmw.errors import UnsupportedType
from rtmw.types.checks import shown_name

if TYPE_CHECKING:
    from rtmw.columns import Decoder, Integers, Mask
    from rtmw.columns.rows import Rows

_RANGES: Final[dict[pa.DataType, tuple[int, int]]] = {
    pa.int8(): (-(1 << 7), (1 << 7) - 1),
    pa.uint8(): (0, (1 << 8) - 1),
    pa.int16(): (-(1 << 15), (1 << 15) - 1),
    pa.uint16(): (0, (1 << 16) - 1),
    pa.int32(): (-(1 << 31), (1 << 31) - 1),
    pa.uint32(): (0, (1 << 32) - 1),
    pa.int64(): (-(1 << 63), (1 << 63) - 1),
    pa.uint64(): (0, (1 << 64) - 1),
    pa.decimal128(20, 0): (-(1 << 63), (1 << 64) - 1),
}
"""Whole numbers, the narrowest first, and what they hold; a decimal holds what the integers do."""
_DIGITS: Final[dict[pa.DataType, int]] = {pa.float32(): 24, pa.float64(): 53}
"""Floats, and up to how many bits a whole number keeps its value in them."""
_MOST_BYTES: Final = 1 << 30
"""Bytes of rows that are put back into their order at once. More rows are halved: offsets of Arrow have 31 bits."""


class Versions:
    """The columns of several versions of a type. Any thread may use them.

    The columns are those of the first version, then those that later versions add. A member that a version lacks is
    null in its rows; numbers are widened to a type that holds the values of all versions.
    Raises UnsupportedType for a version that no columns can hold, and, with the member's name and the versions, for a
    member that no column can hold: text here and a number there, or 64 bits here and a float there.
    `decoder`: gives that of a description, for these members alone or for all. `places`: only the columns at these
    places of all of them.
    """

    def __init__(
        self,
        name: str,
        descriptions: Sequence[bytes],
        decoder: Callable[[bytes, frozenset[str] | None], Decoder],
        places: Sequence[int] | None = None,
    ) -> None:
        self.descriptions = tuple(descriptions)
        """Descriptions of the types. An error's version N is the one at place N, from 1."""
        self.name = shown_name(name)
        self._decoders = [decoder(description, None) for description in descriptions]
        self._schemas = [self._merged(permissive) for permissive in (False, True)]
        if places is not None:
            self._schemas = [pa.schema([schema.field(place) for place in places]) for schema in self._schemas]
            names = frozenset(self._schemas[0].names)
            self._decoders = [decoder(description, names) for description in descriptions]
        self._fits = [
            [one.schema(permissive).equals(self._schemas[permissive]) for permissive in (False, True)]
            for one in self._decoders
        ]

    def schema(self, permissive: bool) -> pa.Schema:
        """The schema of the batches of `decode`. Permissive: each column may be null."""
        return self._schemas[permissive]

    def _merged(self, permissive: bool) -> pa.Schema:
        schemas = [[*decoder.schema(permissive)] for decoder in self._decoders]
        return pa.schema(_merged_fields(schemas, self.name))

    def decode(
        self, rows: Rows, version: Integers | int, permissive: bool
    ) -> Iterator[tuple[pa.RecordBatch, Mask | None]]:
        """Decodes like `Decoder.decode`, in the order of the rows. `version`: that of all rows, or of each, as a
        place from 0."""
        there = [version] if isinstance(version, int) else np.unique(version).tolist()
        if len(there) == 1:
            made = self._decoders[there[0]].decode(rows, permissive)
            yield from made if self._fits[there[0]][permissive] else self._fitted(made, permissive)
        elif there:
            assert not isinstance(version, int)
            yield from self._mixed(rows, version, there, permissive)

    def _fitted(
        self, made: Iterator[tuple[pa.RecordBatch, Mask | None]], permissive: bool
    ) -> Iterator[tuple[pa.RecordBatch, Mask | None]]:
        for batch, damaged in made:
            yield fitted_batch(batch, self.schema(permissive)), damaged

    def _mixed(
        self, rows: Rows, version: Integers, there: list[int], permissive: bool
    ) -> Iterator[tuple[pa.RecordBatch, Mask | None]]:
        places = [np.flatnonzero(version == number) for number in there]
        made = [[*self.decode(rows[at], number, permissive)] for at, number in zip(places, there, strict=True)]
        if any(len(parts) > 1 for parts in made) or sum(parts[0][0].nbytes for parts in made) > _MOST_BYTES:
            first, second = rows.halves()
            yield from self.decode(first, version[: len(first)], permissive)
            yield from self.decode(second, version[len(first) :], permissive)
            return
        order = np.argsort(np.concatenate(places))
        batches, masks = zip(*(parts[0] for parts in made), strict=True)
        batch = pa.Table.from_batches(batches).take(order).combine_chunks().to_batches()[0]
        yield batch, _joined(masks, places)[order] if any(mask is not None for mask in masks) else None


def _joined(masks: Sequence[Mask | None], places: Sequence[Integers]) -> Mask:
    return np.concatenate([np.zeros(len(at), bool) if m is None else m for m, at in zip(masks, places, strict=True)])


# ---- one schema of several ----


def _merged_fields(versions: Sequence[Sequence[pa.Field] | None], path: str) -> list[pa.Field]:
    """Fields by name. None: a version that lacks the struct whose fields these are."""
    by_name = [None if fields is None else {field.name: field for field in fields} for fields in versions]
    names = dict.fromkeys(name for fields in by_name if fields is not None for name in fields)
    return [_merged_field(name, by_name, f"{path}.{name}") for name in names]


def _merged_field(name: str, versions: Sequence[dict[str, pa.Field] | None], path: str) -> pa.Field:
    fields = [None if version is None else version.get(name) for version in versions]
    kind = merged_type([None if field is None else field.type for field in fields], path)
    is_lacking = any(field is None and version is not None for field, version in zip(fields, versions, strict=True))
    if is_lacking:
        return nullable(pa.field(name, kind))
    return pa.field(name, kind, any(field.nullable for field in fields if field is not None))


def merged_type(kinds: Sequence[pa.DataType | None], path: str) -> pa.DataType:
    """The narrowest type that holds each value of all of these exactly. None: the version has no such member.

    Raises UnsupportedType, with the member's `path`, where there is none.
    """
    distinct = list(dict.fromkeys(kind for kind in kinds if kind is not None))
    if len(distinct) == 1:
        return distinct[0]
    if all(pa.types.is_struct(kind) for kind in distinct):
        return pa.struct(_merged_fields([None if kind is None else [*kind] for kind in kinds], path))
    if all(pa.types.is_list(kind) for kind in distinct):
        elements = [None if kind is None else kind.value_type for kind in kinds]
        is_nullable = any(kind.value_field.nullable for kind in distinct)
        return pa.list_(pa.field("element", merged_type(elements, f"{path}[]"), is_nullable))
    common = _common(distinct)
    if common is None:
        raise UnsupportedType(f"no column can hold {path}: it is {_said(kinds)}")
    return common


def _common(kinds: Sequence[pa.DataType]) -> pa.DataType | None:
    """The narrowest type that holds each value of all of these exactly; None: there is none."""
    whole = [_RANGES[kind] for kind in kinds if kind in _RANGES]
    floats = [_DIGITS[kind] for kind in kinds if kind in _DIGITS]
    if len(whole) + len(floats) < len(kinds):
        return None
    low, high = min((low for low, _ in whole), default=0), max((high for _, high in whole), default=0)
    if not floats:
        return next((kind for kind, (least, most) in _RANGES.items() if least <= low and high <= most), None)
    digits = max(max(floats), max(-low, high).bit_length() if whole else 0)
    return next((kind for kind, most in _DIGITS.items() if digits <= most), None)


def _said(kinds: Sequence[pa.DataType | None]) -> str:
    found: dict[str, list[int]] = {}
    for number, kind in enumerate(kinds, 1):
        if kind is not None:
            found.setdefault("a struct" if pa.types.is_struct(kind) else str(kind), []).append(number)
    return " and ".join(f"{kind} in {_numbered(numbers)}" for kind, numbers in found.items())


def _numbered(numbers: Sequence[int]) -> str:
    return f"version{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"


def nullable(field: pa.Field) -> pa.Field:
    """The field, which may be null; where it is a struct, its members may be, too."""
    kind = field.type
    if pa.types.is_struct(kind):
        kind = pa.struct([nullable(part) for part in kind])
    return pa.field(field.name, kind, True)


# ---- the rows of one version in it ----


def fitted_batch(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Returns the rows in a merged schema: columns are found by name, and those that are missing are null."""
    names = {name: place for place, name in enumerate(batch.schema.names)}
    arrays = [
        fitted(batch.column(names[field.name]), field.type)
        if field.name in names
        else pa.nulls(batch.num_rows, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def fitted(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Returns the values as a type of a merged schema: members are found by name, and those that are missing are
    null."""
    if array.type == kind:
        return array
    if pa.types.is_struct(kind):
        names = {field.name: place for place, field in enumerate(array.type)}
        parts: list[Any] = [
            fitted(array.field(names[part.name]), part.type) if part.name in names else pa.nulls(len(array), part.type)
            for part in kind
        ]
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(parts, fields=[*kind], mask=mask)
    if pa.types.is_list(kind):
        elements = fitted(array.values, kind.value_type)
        validity, offsets = array.buffers()[:2]
        return pa.Array.from_buffers(kind, len(array), [validity, offsets], -1, array.offset, [elements])
    return array.cast(kind)
