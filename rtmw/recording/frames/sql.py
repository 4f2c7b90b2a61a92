"""SQL over recordings: each topic is a table of DuckDB, which reads the columns and the rows that a query needs.

DuckDB's NaN is larger than all numbers, and Arrow's is unlike all of them: so DuckDB hands no condition on floats on to
a table. Chunks whose ranges are known have no NaN. So `hint_of` reads these conditions in DuckDB's plan, and the chunks
may be skipped all the same.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from rtmw.errors import RtmwError, UnsupportedType, needed
from rtmw.recording.frames.frame import Frame, Query
from rtmw.recording.frames.pruning import all_of
from rtmw.recording.frames.scan import Extent, Planned
from rtmw.recording.recording import Recording

if TYPE_CHECKING:
    from types import TracebackType


_SCAN: Final = "ARROW_SCAN"
_AND: Final = " AND "
_NUMBER: Final = r"(-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)"
_COMPARED: Final = re.compile(rf"\((\w+) (>|>=|<|<=|=) {_NUMBER}\)")
_BETWEEN: Final = re.compile(rf"\((\w+) BETWEEN {_NUMBER} AND {_NUMBER}\)")
_WIDTHS: Final = {pa.float32(): np.float32, pa.float64(): np.float64}


def hint_of(plan: str, schema: pa.Schema) -> Any:
    """The conditions of a plan (of EXPLAIN, in JSON) on floats of the one table that it reads, which has this schema.

    An expression of pyarrow.compute; None: the plan has no such condition, or reads several tables.
    """
    conditions = [*_filters(json.loads(plan))]
    if len(conditions) != 1:
        return None
    return all_of(expression for part in _parts(conditions[0]) for expression in _expressions(part, schema))


def _filters(nodes: Any, above: str = "") -> Iterator[str]:
    """The condition on the rows of each scan, directly above it; "" where there is none."""
    for node in nodes:
        if node["name"].strip().endswith(_SCAN):
            yield above
        told = node.get("extra_info", {}).get("Expression", "") if node["name"].strip() == "FILTER" else ""
        yield from _filters(node.get("children", ()), told if isinstance(told, str) else "")


def _parts(condition: str) -> list[str]:
    """Conditions that hold all at once, each in its parentheses; none where it is not made of such."""
    inside = condition[1:-1] if condition.startswith("((") else condition
    parts: list[str] = []
    depth, begin, quote = 0, 0, ""
    for at, letter in enumerate(inside):
        if quote or letter in "'\"":
            quote = "" if letter == quote else quote or letter
            continue
        depth += (letter == "(") - (letter == ")")
        if depth == 0 and letter == ")":
            parts.append(inside[begin : at + 1])
            begin = at + 1
        elif depth == 0 and begin < at + 1 <= begin + len(_AND) and not _AND.startswith(inside[begin : at + 1]):
            return []
        if depth == 0 and inside[begin : at + 1] == _AND:
            begin = at + 1
    return parts if begin == len(inside) else []


def _expressions(part: str, schema: pa.Schema) -> Iterator[Any]:
    compared, between = _COMPARED.fullmatch(part), _BETWEEN.fullmatch(part)
    if compared:
        yield from _bounds(schema, compared[1], compared[2], compared[3])
    elif between:
        yield from _bounds(schema, between[1], ">", between[2])
        yield from _bounds(schema, between[1], "<", between[3])


def _bounds(schema: pa.Schema, name: str, sign: str, text: str) -> Iterator[Any]:
    """Yields conditions that are one step wider than what is written, which may have been rounded."""
    kind = schema.field(name).type if name in schema.names else None
    width: Any = _WIDTHS.get(kind)
    if width is None:
        return
    with np.errstate(over="ignore"):
        number = width(text)
        below, above = np.nextafter(number, width("-inf")), np.nextafter(number, width("inf"))
    if sign in (">", ">=", "="):
        yield pc.field(name) >= pa.scalar(float(below), kind)
    if sign in ("<", "<=", "="):
        yield pc.field(name) <= pa.scalar(float(above), kind)


_SETTINGS: Final = {
    "enable_external_access": "false",  # recordings are what there is to read: no other file, nothing of a network
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
}


class QueryError(RtmwError):
    """The query cannot be answered; DuckDB says why."""


class Tables:
    """The topics of recordings as tables, until it is closed. A context manager; for one thread.

    A topic is a table of its name, in quotes: "pump/speed"; and without quotes, with underscores in place of what is
    no letter or digit: pump_speed, if only one topic is called so. `messages` has those of all topics, as payloads.
    """

    def __init__(self, paths: Sequence[Path]) -> None:
        duckdb = needed("duckdb", "DuckDB", "sql", "rtmw recording sql")
        self._duckdb = duckdb
        self._opened = ExitStack()
        self._reading = _Reading()
        with ExitStack() as opened:
            self._recordings = [opened.enter_context(Recording(path)) for path in paths]
            self._connection = duckdb.connect(":memory:", config=_SETTINGS)
            opened.callback(self._connection.close)
            self._connection.execute("SET TimeZone = 'UTC'")
            self.names = self._register()
            self._opened = opened.pop_all()

    def _register(self) -> tuple[str, ...]:
        """Makes the tables; their names."""
        frames = {topic: self._frame(topic) for topic in sorted({t for one in self._recordings for t in one.topics()})}
        short = [simple(topic) for topic in frames]
        for topic, frame in frames.items():
            table = _Table(frame, self._reading)
            self._connection.register(topic, table)
            if simple(topic) != topic and short.count(simple(topic)) == 1:
                self._connection.register(simple(topic), table)
        if "messages" not in {*frames, *short}:
            self._connection.register("messages", _Table(Frame(self._recordings, None), self._reading))
        return tuple(frames)

    def _frame(self, topic: str) -> Frame:
        try:
            return Frame(self._recordings, topic)
        except (UnsupportedType, ValueError):
            return Frame(self._recordings, topic, typed=False)

    def query(self, sql: str) -> pa.Table:
        """The result of a query. Raises QueryError, RecordingDamaged, ValueMismatch for a damaged payload."""
        self._reading.scans.clear()
        self._reading.plan = self._plan(sql)
        try:
            answer = self._connection.sql(sql)
            return pa.table({}) if answer is None else answer.to_arrow_table()
        except self._duckdb.Error as error:
            for scan in self._reading.scans:
                if scan.error is not None:
                    raise scan.error from None
            raise QueryError(self._sentence(error)) from None

    def _plan(self, sql: str) -> str:
        """DuckDB's plan of a query; "" for a text that is not one query."""
        try:
            if len(self._connection.extract_statements(sql)) != 1:
                return ""
            return str(self._connection.execute(f"EXPLAIN (FORMAT JSON) {sql}").fetchall()[0][1])
        except self._duckdb.Error:
            return ""

    def _sentence(self, error: Exception) -> str:
        told = str(error).strip()
        if isinstance(error, self._duckdb.CatalogException):
            return f"{told}\nThere are the tables {', '.join(map(quoted, self.names)) or 'none'}, and messages"
        return told

    def planned(self) -> Planned:
        """How much the last query read of the recordings, and how much the index spared it."""
        read = sum((scan.planned.read for scan in self._reading.scans), Extent())
        return Planned(read, sum((scan.planned.skipped for scan in self._reading.scans), Extent()))

    def close(self) -> None:
        self._opened.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@dataclass
class _Reading:
    """The plan and the scans of one query."""

    plan: str = ""
    scans: list[_Scan] = field(default_factory=list["_Scan"])


class _Table(ds.Dataset):  # type: ignore[misc]
    """A frame as DuckDB takes it: it says which columns and which rows it needs, and gets a stream of batches."""

    def __init__(self, frame: Frame, reading: _Reading) -> None:
        self._frame, self._reading = frame, reading

    @property
    def schema(self) -> pa.Schema:
        return self._frame.schema()

    def scanner(self, columns: Sequence[str] | None = None, filter: Any = None, **_: Any) -> _Scan:
        hint = hint_of(self._reading.plan, self.schema) if self._reading.plan else None
        scan = _Scan(self._frame, Query(tuple(columns or ()), condition=filter, hint=hint))
        self._reading.scans.append(scan)
        return scan


class _Scan:
    """One reading of a table."""

    def __init__(self, frame: Frame, query: Query) -> None:
        self._frame, self._query = frame, query
        self.planned = frame.planned(query)
        self.error: RtmwError | None = None
        """The error that ended the scan; DuckDB reports it as an error of its own."""

    def to_reader(self) -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(self._frame.schema(self._query.columns), self._batches())

    def _batches(self) -> Any:
        try:
            yield from self._frame.read(self._query)
        except RtmwError as error:
            self.error = error
            raise


def simple(topic: str) -> str:
    """A name that needs no quotes."""
    return re.sub(r"\W", "_", topic, flags=re.ASCII).strip("_")


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
