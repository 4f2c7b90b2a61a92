"""The arguments of `rtmw recording`."""

from __future__ import annotations

import argparse
from typing import Any, Final

from rtmw.cli.quantities import moment
from rtmw.cli.subcommands import add_subcommand

_HOMES: Final = {
    "sql": "rtmw.cli.sql",
    "ingest": "rtmw.cli.ingest",
    "extract": "rtmw.cli.attachments",
    "attach": "rtmw.cli.attachments",
}
"""The modules of those that are not in rtmw.cli.recording."""


def add_commands(commands: Any) -> None:
    """`rtmw recording info|check|recover|cut|merge|convert|extract|attach|export|images|ingest|sql`."""
    parser = commands.add_parser("recording", help="look into recordings, ask, repair, cut, merge and export them")
    kinds = parser.add_subparsers(metavar="COMMAND", required=True)
    _many(_add(kinds, "info", "show what is in recordings, from their index"))
    _many(_add(kinds, "check", "read all of recordings, and compare it with every CRC and index; status 1: damaged"))
    _add_recover(kinds)
    parser = _add(kinds, "cut", "write some topics, or some time, of a recording as a new one")
    _one(parser)
    _section(parser)
    _compression(parser)
    _output(parser)
    parser = _add(kinds, "merge", "write several recordings as one, in the order of their times")
    _many(parser)
    add_strict(parser)
    _section(parser)
    _compression(parser)
    _output(parser)
    parser = _add(kinds, "convert", "write a bag of ROS 2 in SQLite (.db3) as a recording")
    _one(parser)
    parser.add_argument("--compression", choices=("lz4", "zstd", "none"), help="default: lz4")
    _output(parser)
    _add_attachments(kinds)
    _add_export(kinds)
    _add_ingest(kinds)
    parser = _add(kinds, "images", "write images as files: raw ones as PNG, compressed ones as they are")
    _many(parser)
    add_strict(parser)
    _section(parser)
    parser.add_argument("-o", "--output", required=True, metavar="FOLDER", help="must not exist")
    _add_sql(kinds)


def _add(kinds: Any, name: str, help: str) -> argparse.ArgumentParser:
    return add_subcommand(kinds, name, help, (_HOMES.get(name, "rtmw.cli.recording"), name))


def _add_attachments(kinds: Any) -> None:
    parser = _add(kinds, "extract", "write an attachment as a file, or print metadata; without a name: list both")
    _one(parser)
    parser.add_argument("name", nargs="?", metavar="NAME", help="of an attachment; of several the last one")
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="must not exist; default: NAME, here; - is standard output"
    )
    parser.add_argument("--metadata", metavar="NAME", help="print metadata of this name as JSON, one object a line")
    parser = _add(kinds, "attach", "write a recording anew, with more attachments and metadata")
    _one(parser)
    parser.add_argument("files", nargs="*", metavar="FILE", help="attached under its name")
    parser.add_argument("--metadata", nargs="+", action="append", default=[], metavar=("NAME", "KEY=VALUE"))
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("-o", "--output", metavar="FILE", help="must not exist")
    where.add_argument("--in-place", action="store_true", help="put it in the place of the old one")


def _add_recover(kinds: Any) -> None:
    parser = _add(kinds, "recover", "write all that is whole of a cut or damaged recording as a complete one")
    _one(parser)
    add_strict(parser)
    where = parser.add_mutually_exclusive_group()
    where.add_argument("-o", "--output", metavar="FILE", help="default: PATH with .recovered.mcap at its end")
    where.add_argument("--in-place", action="store_true", help="put it in the place of the damaged one")


def _add_export(kinds: Any) -> None:
    parser = _add(kinds, "export", "write messages as columns, for other programs")
    _many(parser)
    add_strict(parser)
    _section(parser)
    form = parser.add_mutually_exclusive_group(required=True)
    form.add_argument("--parquet", metavar="FOLDER", help="partitioned by topic and hour")
    form.add_argument("--csv", metavar="FILE", help="of one topic; - for standard output")
    form.add_argument("--jsonl", metavar="FILE", help="one JSON object a message; - for standard output")


def _add_ingest(kinds: Any) -> None:
    parser = _add(kinds, "ingest", "add recordings to tables that last, of Delta Lake or Parquet; each message once")
    _many(parser)
    parser.add_argument("--to", required=True, metavar="FOLDER", help="a table for each topic, partitioned by day")
    parser.add_argument("--format", choices=("delta", "parquet"), default="delta", help="default: delta")
    parser.add_argument("--topics", nargs="+", metavar="PATTERN", help="default: all")
    parser.add_argument(
        "--evolve",
        action="store_true",
        help="widen a column that a recording needs wider: int32 to int64, float to double",
    )
    parser.add_argument("--compact", action="store_true", help="make few large files of many small ones; delta only")


def _add_sql(kinds: Any) -> None:
    parser = _add(kinds, "sql", "ask recordings in SQL, with DuckDB: each topic is a table")
    parser.add_argument("query", metavar="QUERY", help="""as 'SELECT max(rpm) FROM "pump/speed" WHERE rpm > 3000'""")
    _many(parser)
    add_strict(parser)
    parser.add_argument("--explain", action="store_true", help="also say on stderr how much was read and skipped")


def add_strict(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--strict", action="store_true", help="refuse what cannot be read; default: go on with the rest, status 3"
    )


def _one(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", metavar="PATH")


def _many(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("paths", nargs="+", metavar="PATH", help="recordings, folders or patterns")


def _section(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--topics", nargs="+", metavar="PATTERN", help="default: all")
    add_section(parser)


def add_section(parser: argparse.ArgumentParser) -> None:
    when = "seconds since the recording began, or date and time (UTC)"
    parser.add_argument("--start", type=moment, metavar="MOMENT", help=when)
    parser.add_argument("--end", type=moment, metavar="MOMENT", help="likewise; default: to its end")


def _compression(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--compression", choices=("lz4", "zstd", "none"), help="default: as it was")


def _output(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-o", "--output", required=True, metavar="FILE", help="must not exist")
