"""`rtmw recording ingest`: recordings into tables that last, each message once."""

from __future__ import annotations

import argparse

from rtmw.cli.common import CommandError
from rtmw.cli.parsing import runs
from rtmw.cli.recording import working
from rtmw.cli.sources import add_paths, partly
from rtmw.cli.terminal import Cell, Table, show, show_json, warn
from rtmw.errors import NotInstalled, RecordingError
from rtmw.patterns import is_meant
from rtmw.recording.places import is_remote, place


def add_ingest(parser: argparse.ArgumentParser) -> None:
    runs(parser, ingest, domain=False)
    add_paths(parser)
    parser.add_argument("--to", required=True, metavar="FOLDER", help="a table for each topic, partitioned by day")
    parser.add_argument("--format", choices=("delta", "parquet"), default="delta", help="default: delta")
    parser.add_argument("--topics", nargs="+", metavar="PATTERN", help="default: all")
    parser.add_argument(
        "--evolve",
        action="store_true",
        help="widen a column that a recording needs wider: int32 to int64, float to double",
    )
    parser.add_argument("--compact", action="store_true", help="make few large files of many small ones; delta only")


def ingest(arguments: argparse.Namespace) -> int:
    """Status 1 if something could not be added, 3 if of several files only some could be read; all else is added."""
    try:
        from rtmw.recording.catalog import Catalog  # which needs pyarrow
    except ImportError as error:
        raise NotInstalled(f"tables need pyarrow ({error}): pip install 'rtmw[catalog]'") from error
    if arguments.compact and arguments.format != "delta":
        raise CommandError("--compact needs --format delta: files of Parquet cannot be replaced while others read them")
    if is_remote(arguments.to) and arguments.format != "delta":
        raise CommandError(
            f"--to {arguments.to} needs --format delta: files of Parquet are renamed when they are complete, which "
            "remote places do not do at once"
        )
    with working("added") as (found, progress):
        try:
            with Catalog(place(arguments.to), arguments.format, evolve=arguments.evolve) as catalog:
                paths = found(arguments.paths)
                for path in paths:
                    catalog.add(path, arguments.topics, progress)
                if arguments.compact:
                    catalog.compact()
        except RecordingError as error:
            raise CommandError(str(error)) from error
    messages, problems, damaged = catalog.ingested.messages, catalog.ingested.problems, catalog.ingested.damaged
    known = ", ".join(sorted(catalog.known)) or "none"
    for pattern in arguments.topics or ():
        if not any(is_meant(topic, pattern) for topic in catalog.known):
            problems[f"topic {pattern}"] = f"no recording has it; there are {known}"
    if arguments.json:
        show_json({"path": arguments.to, "messages": messages, "problems": damaged | problems})
    else:
        rows: list[list[Cell]] = [[topic, count] for topic, count in sorted(messages.items())]
        show(Table(f"Added to {arguments.to}", ("topic", "messages"), rows))
        for where, why in (damaged | problems).items():
            warn(f"rtmw: {where}: not added: {why}")
    return 1 if problems else partly(len(damaged), len(paths))
