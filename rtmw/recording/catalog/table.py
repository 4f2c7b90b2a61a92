"""A table of a topic, whatever its format: rows and marks are added together, or not at all."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol
from urllib.parse import quote

if TYPE_CHECKING:
    import pyarrow as pa


LISTS: Final = "_commits"
"""The folder of a table of Parquet files that has the lists of its commits."""


class Table(Protocol):
    """A table on a disk. Readers see all rows of a commit or none of them."""

    @property
    def columns(self) -> Mapping[str, pa.DataType]:
        """All columns of its rows so far; none before the first commit."""
        ...

    def knows(self, mark: str) -> bool:
        """Was there a commit with this mark?"""
        ...

    def commit(self, rows: pa.Table, marks: Collection[str]) -> None:
        """Adds rows, and how far their recordings are in the table by now. Raises OSError, RecordingError."""
        ...

    def widen(self, columns: Mapping[str, pa.DataType]) -> None:
        """Gives columns of it types that hold more values, also in the rows that are there. Raises as `commit`.

        Each row is there at any moment, also if the program is killed.
        """
        ...

    def compact(self) -> None:
        """Makes few large files of many small ones. Raises RecordingError for a format that cannot."""
        ...

    def close(self) -> None:
        """Lets other programs add to it."""
        ...


_HIDDEN: Final = ("_", ".")
"""Readers pass over folders whose names begin so; and `..` is another folder."""


def folder_of(catalog: Path, topic: str) -> Path:
    """The folder of a topic's table: its name, with @2F for a slash and the like.

    The name is the same in a URL. With %2F, Delta Lake would write to one folder and look for the rows in another.
    """
    name = quote(topic, safe="").replace("~", "%7E").replace("%", "@")
    return catalog / (f"@{ord(name[0]):02X}{name[1:]}" if name.startswith(_HIDDEN) else name)
