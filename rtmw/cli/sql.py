"""`rtmw recording sql`: ask recordings in SQL."""

from __future__ import annotations

import argparse
import base64
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rtmw.cli.parsing import runs
from rtmw.cli.recording import working
from rtmw.cli.sources import add_paths, add_strict, over_readable
from rtmw.cli.terminal import Cell, Table, counted, say, show, warn
from rtmw.optional import needed
from rtmw.strict_json import as_json

if TYPE_CHECKING:
    import pyarrow as pa

    from rtmw.recording.frames.scan import Planned


def add_sql(parser: argparse.ArgumentParser) -> None:
    runs(parser, sql, domain=False)
    parser.add_argument("query", metavar="QUERY", help="""as 'SELECT max(rpm) FROM "pump/speed" WHERE rpm > 3000'""")
    add_paths(parser)
    add_strict(parser)
    parser.add_argument("--explain", action="store_true", help="also say on stderr how much was read and skipped")


def sql(arguments: argparse.Namespace) -> int:
    """Show what a query answers; with `--json`, an object a row."""
    for module, package in (("pyarrow", "PyArrow"), ("duckdb", "DuckDB")):
        needed(module, package, "sql", "rtmw recording sql")
    with working("read") as (found, _):
        (answer, planned), status = over_readable(
            found(arguments.paths), arguments.strict, lambda paths: _answer(paths, arguments.query)
        )
        rows: list[dict[str, Any]] = answer.to_pylist()
        if arguments.json:
            for row in rows:
                say(as_json(row, plain))
        elif answer.column_names:
            cells = [[cell(value) for value in row.values()] for row in rows]
            show(Table(counted(len(rows), "row"), answer.column_names, cells))
        if arguments.explain:
            warn(f"rtmw: read {planned}")
    return status


def _answer(paths: list[Path], query: str) -> tuple[pa.Table, Planned]:
    """The rows, and how much was read for them."""
    from rtmw.recording.frames.sql import Tables

    with Tables(paths) as tables:
        return tables.query(query), tables.planned()


def cell(value: Any) -> Cell:
    """A value of a row in a table."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return str(value)  # in full, where tables of measured values are cut to three digits
    if value is None or isinstance(value, (int, str)):
        return value
    if isinstance(value, (list, dict)):
        return as_json(value, plain)
    return str(plain(value))


def plain(value: Any) -> Any:
    """A value without a JSON type: whole decimals as numbers, bytes as base64, times in ISO format."""
    match value:
        case Decimal():
            return int(value) if value == value.to_integral_value() else float(value)
        case bytes():
            return base64.b64encode(value).decode()
        case datetime() | date() | time():
            return value.isoformat()
        case timedelta():
            return value.total_seconds()
        case _:
            return str(value)
