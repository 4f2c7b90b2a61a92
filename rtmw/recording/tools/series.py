"""Members of messages as series of numbers over time; texts, such as the names of enumerators, as numbers of names."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rtmw.recording.contents import UNSET_NS
from rtmw.recording.frames.frame import Frame, Query
from rtmw.recording.frames.scan import TimeRange
from rtmw.recording.versions import some
from rtmw.types import shown_name
from rtmw.types.text import Json, member_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rtmw.recording.recording import Recording

_STEP: Final = re.compile(r"\.?([^.\[\]]+)|\[(\d+)\]")
_TIMES: Final = ("publish_time_ns", "log_time_ns")
JSON_TYPE: Final = Json.__idl_typename__
JSON_MEMBER: Final = member_of(JSON_TYPE)
MOST_NAMES: Final = 20
"""Texts that one axis can show."""


@dataclass(frozen=True)
class Series:
    """The values of a member, in the order of time."""

    name: str
    times_ns: NDArray[np.int64]
    """When they were published; where nobody says it, when they were recorded."""
    values: NDArray[np.float64]
    """NaN where the member is absent."""
    names: tuple[str, ...] = ()
    """For a member that is text: the texts that the values 0, 1, … stand for, in the order in which they came first."""

    def thinned(self, columns: int) -> Series:
        """Returns so few points that a picture of this many columns looks the same: the least and the largest of
        each column."""
        if len(self.values) <= 4 * columns:
            return self
        first, last = int(self.times_ns[0]), int(self.times_ns[-1])
        column = (
            (self.times_ns - first) * np.int64(columns) // (last - first + 1) if last > first else 0 * self.times_ns
        )
        starts = np.flatnonzero(np.diff(column, prepend=-1))
        bounds = zip(starts.tolist(), [*starts[1:].tolist(), len(column)], strict=True)
        kept = sorted({row for begin, end in bounds for row in _extremes(self.values, begin, end)})
        return Series(self.name, self.times_ns[kept], self.values[kept], self.names)


def _extremes(values: NDArray[np.float64], begin: int, end: int) -> Iterator[int]:
    part = values[begin:end]
    yield begin
    if not np.isnan(part).all():
        yield begin + int(np.nanargmin(part))
        yield begin + int(np.nanargmax(part))
    yield end - 1


def series(recordings: Sequence[Recording], wanted: str, selection: TimeRange) -> Series:
    """`wanted`: a topic, a dot and a member, as pump/speed.rpm, imu.rates.x or arm.angles[2]; of a topic of type `dict`
    a member of its values.

    Raises ValueError for a topic or a member that there is not, or that is no number and no text, and for more texts
    than an axis can show; RecordingDamaged, ValueMismatch.
    """
    topic, steps = _split(recordings, wanted)
    frame = Frame(recordings, topic)
    column = next((name for name in frame.layout.columns if name.lower() == steps[0].lower()), None)
    if column is None and _carries_json(recordings, topic):
        return _series_of_json(frame, wanted, steps, selection)
    kind = None if column is None else _kind(frame, column, steps[1:])
    if column is None or kind is None:
        members = [column.field for column in frame.layout.columns.values() if column.member is not None]
        known = some([f"{topic}.{name}" for field in members for name in _plottable(field)])
        raise ValueError(f"{wanted} is no number and no text of {topic}; there are {known}")
    times, found = list[Any](), list[Any]()
    for at, values in _read(frame, column, selection):
        for step in steps[1:]:
            values = _element(values, int(step)) if step.isdecimal() else pc.struct_field(values, [step])
        found.append(values)
        times.append(at)
    return _made(wanted, times, pa.chunked_array(found, kind))


def _series_of_json(frame: Frame, wanted: str, steps: Sequence[str], selection: TimeRange) -> Series:
    times, found = list[Any](), list[Any]()
    for at, texts in _read(frame, JSON_MEMBER, selection):
        found += [_part(text, steps) for text in texts.to_pylist()]
        times.append(at)
    kinds: set[Any] = {value.__class__ for value in found if value is not None}
    if not (kinds and (kinds <= {int, float, bool} or kinds == {str})):
        what = "both numbers and texts, or others" if kinds else "in no value"
        raise ValueError(f"{wanted} is {what}, and a series is of numbers or of texts")
    kind = pa.string() if kinds == {str} else pa.float64()
    numbers = found if kinds == {str} else [None if value is None else float(value) for value in found]
    return _made(wanted, times, pa.chunked_array([pa.array(numbers, kind)], kind))


def _carries_json(recordings: Sequence[Recording], topic: str) -> bool:
    """Whether the topic has the type `dict` in all recordings that have it."""
    names = {r.type_name(channel) or "" for r in recordings for channel in r.topics().get(topic, ())}
    return {*map(shown_name, names)} == {JSON_TYPE}


def _part(text: str | None, steps: Sequence[str]) -> Any:
    """The part of a JSON value to which the steps lead; None: they lead to none."""
    try:
        value: Any = None if text is None else json.loads(text)
        for step in steps:
            value = value[int(step) if value.__class__ is list else step]
    except (ValueError, TypeError, LookupError, RecursionError):
        return None
    return value


def _read(frame: Frame, column: str, selection: TimeRange) -> Iterator[tuple[NDArray[Any], Any]]:
    """Times and values, batch by batch."""
    for batch in frame.read(Query((*_TIMES, column), selection)):
        publish, log = (batch.column(at).fill_null(UNSET_NS).to_numpy(zero_copy_only=False) for at in (0, 1))
        yield np.where(publish == UNSET_NS, log, publish), batch.column(2)


def _made(wanted: str, times: list[Any], values: pa.ChunkedArray) -> Series:
    at = np.concatenate(times) if times else np.zeros(0)
    value, names = _numbered(wanted, values)
    order = np.argsort(at, kind="stable")
    order = order[at[order] != UNSET_NS]
    return Series(wanted, at[order].astype(np.int64), value[order].astype(np.float64), names)


def _numbered(wanted: str, values: pa.ChunkedArray) -> tuple[NDArray[Any], tuple[str, ...]]:
    """Numbers, and of texts what they stand for. Raises ValueError for too many of these."""
    names = tuple[str, ...]()
    if _is_text(values.type):
        texts = values.combine_chunks().dictionary_encode()
        texts = texts.combine_chunks() if isinstance(texts, pa.ChunkedArray) else texts
        names, values = tuple(texts.dictionary.to_pylist()), texts.indices
        if len(names) > MOST_NAMES:
            raise ValueError(f"{wanted} has {len(names)} different texts; an axis shows {MOST_NAMES} at most")
    return pc.cast(values, pa.float64(), safe=False).to_numpy(zero_copy_only=False), names


def _split(recordings: Sequence[Recording], wanted: str) -> tuple[str, list[str]]:
    """The topic, whose name may have dots, and the steps to the member."""
    topics = sorted({topic for recording in recordings for topic in recording.topics()})
    fitting = [topic for topic in topics if wanted.startswith((f"{topic}.", f"{topic}["))]
    if not fitting:
        known = f"there are the topics {some(topics)}" if topics else "there is no topic"
        raise ValueError(f"{wanted} is no member of a topic, as TOPIC.member; {known}")
    topic = max(fitting, key=len)
    rest = wanted[len(topic) :].removeprefix(".")
    steps = [name or number for name, number in _STEP.findall(rest)]
    if not steps or "".join(found.group() for found in _STEP.finditer(rest)) != rest:
        raise ValueError(f"{wanted} is no member of {topic}, as rates.x or angles[2]")
    return topic, steps


def _kind(frame: Frame, column: str, steps: Sequence[str]) -> Any:
    """The type of the number or text to which the steps lead; None: they lead to none."""
    kind: Any = frame.layout.columns[column].field.type
    for step in steps:
        if step.isdecimal() and _is_list(kind):
            kind = kind.value_type
        elif pa.types.is_struct(kind) and kind.get_field_index(step) >= 0:
            kind = kind.field(step).type
        else:
            return None
    return kind if _is_number(kind) or _is_text(kind) else None


def _element(lists: Any, index: int) -> Any:
    """The elements of this index; null where the list is shorter."""
    if pa.types.is_fixed_size_list(lists.type) and index >= lists.type.list_size:
        return pa.nulls(len(lists), lists.type.value_type)
    long = pc.fill_null(pc.greater(pc.list_value_length(lists), index), False)
    kept = pc.list_element(lists.filter(long), index)
    places = pc.cumulative_sum(pc.cast(long, pa.int64()))
    return kept.take(pc.if_else(long, pc.subtract(places, 1), pa.scalar(None, pa.int64())))


def _is_list(kind: Any) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _is_number(kind: Any) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind))


def _is_text(kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _plottable(field: Any, above: str = "") -> Iterator[str]:
    """The numbers and texts of a column, as they are written."""
    name = f"{above}{field.name}"
    if pa.types.is_struct(field.type):
        for part in field.type:
            yield from _plottable(part, f"{name}.")
    elif _is_number(field.type) or _is_text(field.type):
        yield name
    elif _is_list(field.type) and (_is_number(field.type.value_type) or _is_text(field.type.value_type)):
        yield f"{name}[0]"
