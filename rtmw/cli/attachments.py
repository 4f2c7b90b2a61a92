"""`rtmw recording extract` and `attach`: what lies in recordings besides messages."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from pathlib import Path

from rtmw.cli.common import CommandError
from rtmw.cli.parsing import runs
from rtmw.cli.recording import working
from rtmw.cli.terminal import Cell, Table, counted, say, show, show_json, size
from rtmw.recording.files import find_recording
from rtmw.recording.places import STANDARD_OUTPUT
from rtmw.recording.recording import Recording
from rtmw.recording.tools.copying import Additions, attach_to, attachment_named, extract_to, metadata_named


def add_extract(parser: argparse.ArgumentParser) -> None:
    runs(parser, extract, domain=False)
    parser.add_argument("path", metavar="PATH")
    parser.add_argument("name", nargs="?", metavar="NAME", help="of an attachment; of several the last one")
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="must not exist; default: NAME, here; - is standard output"
    )
    parser.add_argument("--metadata", metavar="NAME", help="print metadata of this name as JSON, one object a line")


def add_attach(parser: argparse.ArgumentParser) -> None:
    runs(parser, attach, domain=False)
    parser.add_argument("path", metavar="PATH")
    parser.add_argument("files", nargs="*", metavar="FILE", help="attached under its name")
    parser.add_argument("--metadata", nargs="+", action="append", default=[], metavar=("NAME", "KEY=VALUE"))
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("-o", "--output", metavar="FILE", help="must not exist")
    where.add_argument("--in-place", action="store_true", help="put it in the place of the old one")


def extract(arguments: argparse.Namespace) -> int:
    """Write an attachment, print metadata, or list both."""
    with working("extracted"):
        source = find_recording(arguments.path)
        if arguments.metadata is not None:
            with Recording(source) as recording:
                for values in metadata_named(recording, arguments.metadata):
                    show_json(values)
        elif arguments.name is None:
            with Recording(source) as recording:
                _list(recording, arguments.json)
        elif arguments.output == STANDARD_OUTPUT:
            with Recording(source) as recording:
                sys.stdout.buffer.write(recording.attachment(attachment_named(recording, arguments.name)))
                sys.stdout.buffer.flush()
        else:
            path, length = extract_to(source, arguments.name, Path(arguments.output) if arguments.output else None)
            if arguments.json:
                show_json({"path": str(path), "size": length})
            else:
                say(f"{path}: {size(length)}")
    return 0


def attach(arguments: argparse.Namespace) -> int:
    """Write a recording anew, with more in it."""
    additions = Additions([Path(name) for name in arguments.files], _metadata(arguments.metadata))
    if not additions.files and not additions.metadata:
        raise CommandError("there is nothing to attach: name files, or --metadata NAME KEY=VALUE")
    with working("written") as (_, progress):
        source = find_recording(arguments.path)
        target = None if arguments.in_place else Path(arguments.output)
        written = attach_to(source, target, additions, progress)
    if arguments.json:
        show_json({"path": str(target or source), **asdict(written)})
    else:
        say(f"{target or source} has {counted(written.attachments, 'attachment')}")
    return 0


def _metadata(asked: list[list[str]]) -> dict[str, dict[str, str]]:
    """Returns metadata by name, from the words behind each --metadata. Raises CommandError."""
    found: dict[str, dict[str, str]] = {}
    for name, *pairs in asked:
        for pair in pairs:
            key, sign, value = pair.partition("=")
            if not sign:
                raise CommandError(f"--metadata {name} {pair}: KEY=VALUE was expected")
            found.setdefault(name, {})[key] = value
        found.setdefault(name, {})
    return found


def _list(recording: Recording, as_json: bool) -> None:
    if as_json:
        attachments = [asdict(one) for one in recording.attachments]
        metadata = [{"name": name, "values": values} for name, values in recording.metadata]
        show_json({"path": str(recording.path), "attachments": attachments, "metadata": metadata})
        return
    rows: list[list[Cell]] = [[one.name, one.media_type, size(one.size)] for one in recording.attachments]
    show(Table(f"{recording.path}: {counted(len(rows), 'attachment')}", ("name", "type", "size"), rows))
    counts: list[list[Cell]] = [[name, len(values)] for name, values in recording.metadata]
    show(Table(f"{len(counts)} of metadata", ("name", "entries"), counts))
