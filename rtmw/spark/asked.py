"""The conditions of queries of `format("rtmw")`: one query for each `load` with `pushdown`, and a word where it is off.

With `pushdown`, other queries would get the rows of the first, and are refused.

Spark keeps what it planned last for a Python data source in an object that all DataFrames of one `load` share, and does
not plan a query without conditions again. So each plan has a name, under which its tasks note on their host for which
query they run; and each `load` has one, under which the first plan notes its conditions.
"""

from __future__ import annotations

import os
import sys
import warnings
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from pyspark import TaskContext

from rtmw.clock import CLOCK
from rtmw.errors import RtmwError
from rtmw.spark.ledger import ledgers

if TYPE_CHECKING:
    from rtmw.recording.frames.scan import Planned

_KEPT_S: Final = 86400
_ADVICE: Final = 'with .option("pushdown", "true") call load once for each query, or leave the option out'
_PLANNER: Final = "pyspark.sql.worker.data_source_pushdown_filters"
"""The worker that tells a data source the conditions of a query: only with spark.sql.python.filterPushdown.enabled."""
_QUERY: Final = ("spark.sql.execution.root.id", "spark.sql.execution.id")


def check_conditions(load: str, conditions: object) -> None:
    """RtmwError: another query of this `load` was planned with other conditions."""
    if _first_text(load, str(conditions)) != str(conditions):
        raise RtmwError(f"another query of the same load was planned with other conditions; {_ADVICE}")


def hears_conditions() -> bool:
    """Does this process plan a query with conditions? Spark refuses readers that listen where it has none to tell."""
    return _PLANNER in sys.modules


def say_unpruned(load: str, needed: Planned) -> None:
    """Warns once a `load`, if the conditions of a query need less than what it reads."""
    if needed.skipped.chunks and _is_first(load):
        warnings.warn(
            f'the conditions of this query need {needed}, and format("rtmw") reads all of them. rtmw.spark.read(path)'
            ".where(…) reads only what is needed, and so do the options topic, start and end of the load; .option("
            '"pushdown", "true") does for a load that is asked once',
            stacklevel=3,
        )


def _is_first(load: str) -> bool:
    caller = uuid4().hex
    return _first_text(f"{load}.said", caller) == caller


class OneQuery:
    """Goes to the tasks with what was planned."""

    def __init__(self) -> None:
        self._plan = uuid4().hex

    def check(self) -> None:
        """In a task. RtmwError: another query runs with what was planned for one that had its own conditions."""
        task = TaskContext.get()
        query = next(filter(None, map(task.getLocalProperty, _QUERY)), None) if task is not None else None
        if query is not None and _first_text(self._plan, query) != query:
            raise RtmwError(f"another query of the same load would get the rows that the first one chose; {_ADVICE}")


def _first_text(name: str, text: str) -> str:
    """The text that is stored under a name on this host; `text`, if none was."""
    folder = ledgers() / "asked"
    folder.mkdir(mode=0o700, exist_ok=True)
    path, new = folder / name, folder / f"{name}.{uuid4().hex}"
    if not path.exists():
        _remove_old(folder)
        new.write_text(text)
        with suppress(FileExistsError):
            os.link(new, path)  # it appears with its content, and once
        new.unlink()
    return path.read_text()


def _remove_old(folder: Path) -> None:
    for path in folder.iterdir():
        with suppress(FileNotFoundError):  # another task has removed it
            if path.stat().st_mtime < CLOCK.wall() - _KEPT_S:
                path.unlink()
