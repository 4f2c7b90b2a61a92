"""The messages of recordings as tables of Arrow, pandas and Polars; neither Spark nor Java is needed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TypedDict, Unpack, cast

from rtmw.closing import Closing
from rtmw.optional import needed
from rtmw.recording.times import Time, time_ns
from rtmw.recording.versions import version_number

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa
    import pyarrow.compute as pc

    from rtmw.recording.frames.extent import Planned
    from rtmw.recording.frames.frame import Frame, Query
    from rtmw.recording.recording import Recording


class TableKeywords(TypedDict, total=False):
    """Which rows and columns a table has."""

    start: Time | None
    """Logged then or later; a datetime or a text is of UTC, if it does not say."""
    end: Time | None
    """Logged before."""
    columns: Sequence[str] | None
    """The only columns, in this order; None: the usual ones. docs/spark.md lists them."""
    filter: pc.Expression | None
    """Rows for which an expression of pyarrow.compute is true; chunks in which there can be none are not read."""
    typed: bool
    """False: payloads instead of a column for each member."""
    mode: str
    """Treatment of a damaged payload: FAILFAST, an error; PERMISSIVE, a row without members; DROPMALFORMED, no row."""
    type_version: int | str
    """Only messages of this version of the topic's type, from 1, or `latest`; without it, all, with columns merged by
    name."""


class Tabular(Closing):
    """The methods of `Recording` and `Recordings` that read them as a table."""

    def _recordings(self) -> Sequence[Recording]:
        """Returns the recordings that the table is made of."""
        raise NotImplementedError

    def _rows(self, frame: Frame, query: Query) -> Iterator[pa.RecordBatch]:
        """The rows in their order."""
        return frame.read(query)

    def record_batches(self, topic: str | None = None, **wanted: Unpack[TableKeywords]) -> pa.RecordBatchReader:
        """The messages of a topic as a stream of record batches, a row a message, a column a member, a batch a chunk.

            for batch in recording.record_batches("pump/speed", columns=["log_time", "rpm"]): ...

        `topic` None: those of all topics, as payloads. Memory stays small. Last values that a recorder carried over
        from the file before are left out. Read from it before the recording is closed.

        Errors: ValueError for a topic, a column or a time that there is not, UnsupportedType for a type that columns
        cannot hold, NotInstalled; while it is read: RecordingDamaged, ValueMismatch for a damaged payload.
        """
        arrow = needed("pyarrow", "PyArrow", "arrow", "a recording as a table")
        frame, query = self._asked(topic, wanted)
        return arrow.RecordBatchReader.from_batches(frame.schema(query.columns), self._rows(frame, query))

    def to_arrow(self, topic: str | None = None, **wanted: Unpack[TableKeywords]) -> pa.Table:
        """Returns what `record_batches` yields as one table in memory.

        table = rtmw.Recording("monday.mcap").to_arrow("pump/speed", start="2026-11-22T08", columns=["rpm"])
        """
        return self.record_batches(topic, **wanted).read_all()

    def to_pandas(self, topic: str | None = None, **wanted: Unpack[TableKeywords]) -> pd.DataFrame:
        """Returns what `record_batches` yields as a DataFrame of pandas."""
        needed("pandas", "pandas", "pandas", "to_pandas()")
        return self.to_arrow(topic, **wanted).to_pandas()

    def to_polars(self, topic: str | None = None, **wanted: Unpack[TableKeywords]) -> pl.DataFrame:
        """Returns what `record_batches` yields as a DataFrame of Polars."""
        polars = needed("polars", "Polars", "polars", "to_polars()")
        return cast("pl.DataFrame", polars.from_arrow(self.to_arrow(topic, **wanted)))

    def planned(self, topic: str | None = None, **wanted: Unpack[TableKeywords]) -> Planned:
        """How many chunks, messages and bytes such a table is read from, and how many are skipped; by the index."""
        frame, query = self._asked(topic, wanted)
        return frame.planned(query)

    def _asked(self, topic: str | None, wanted: TableKeywords) -> tuple[Frame, Query]:
        unknown = sorted(wanted.keys() - TableKeywords.__annotations__)
        if unknown:
            known = ", ".join(TableKeywords.__annotations__)
            raise TypeError(f"a table of a recording has no keyword {unknown[0]!r}; there are {known}")
        needed("pyarrow", "PyArrow", "arrow", "a recording as a table")
        from rtmw.recording.frames.frame import Frame, Query
        from rtmw.recording.frames.scan import MODES, TimeRange

        columns = wanted.get("columns") or ()
        selection = TimeRange(_moment("start", wanted.get("start")), _moment("end", wanted.get("end")))
        query = Query((columns,) if isinstance(columns, str) else tuple(columns), selection, wanted.get("filter"))
        version = _version(wanted["type_version"]) if "type_version" in wanted else None
        mode = _one_of(MODES, wanted.get("mode", MODES[0]), "mode")
        return Frame(self._recordings(), topic, wanted.get("typed", True), version, mode), query


def _one_of(allowed: Sequence[str], given: str, name: str) -> str:
    """The one that is meant, in any case of letters. Raises ValueError."""
    found = [word for word in allowed if word.lower() == given.lower()]
    if not found:
        raise ValueError(f"{name}={given!r} is not possible: one of {', '.join(allowed)} was expected")
    return found[0]


def _version(written: int | str) -> int:
    try:
        return version_number(written)
    except ValueError as error:
        raise ValueError(f"type_version={written!r} is not possible: {error} was expected") from None


def _moment(name: str, time: Time | None) -> int | None:
    if time is None:
        return None
    try:
        return time_ns(time)
    except ValueError as error:
        raise ValueError(f"{name}={time!r} is not possible: {error} was expected") from None
