"""The recordings that a command reads: those that cannot be read do not stop it, and are named."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Final, TypeVar

from rtmw.cli.parsing import moment
from rtmw.cli.terminal import warn
from rtmw.errors import RecordingDamaged, RecordingError
from rtmw.recording.files import open_file, read_header
from rtmw.recording.index import is_finished

PARTLY: Final = 3
"""The exit status of a command that has left out recordings."""

T = TypeVar("T")


def add_paths(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("paths", nargs="+", metavar="PATH", help="recordings, folders or patterns")


def add_strict(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--strict", action="store_true", help="refuse what cannot be read; default: go on with the rest, status 3"
    )


def add_section(parser: argparse.ArgumentParser) -> None:
    when = "seconds since the recording began, or date and time (UTC)"
    parser.add_argument("--start", type=moment, metavar="MOMENT", help=when)
    parser.add_argument("--end", type=moment, metavar="MOMENT", help="likewise; default: to its end")


def tell_parts(paths: Sequence[Path], *, leave_out: bool = False) -> list[Path]:
    """The paths. Says on standard error which recordings may be there in part only: an outcome does not show it.

    `leave_out`: without those that do not begin as recordings, which is said; raises what is wrong with the first one
    if there are no others. Else the command finds out, and says it.
    """
    left, first = list[Path](), None
    for path in paths:
        try:
            _begin(path)
        except (RecordingError, OSError) as error:
            if leave_out:
                first = first or error
                tell_left_out(error)
                continue
        left.append(path)
    if first is not None and not left:
        raise first
    return left


def _begin(path: Path) -> None:
    """Raises what is wrong with its beginning; says whether it has no end, as far as that can be read."""
    with closing(open_file(path)) as file:
        read_header(file)
        with suppress(RecordingError, OSError):
            if not is_finished(file):
                why = "its recorder was killed or still writes, or the file was cut"
                warn(f"rtmw: {path} has no end: {why}. What is whole is read")


def over_readable(paths: Sequence[Path], strict: bool, work: Callable[[list[Path]], T]) -> tuple[T, int]:
    """What `work` makes of the recordings that can be read, and the exit status: 0, or 3 if some were left out.

    A recording is left out if it does not begin as one, or if `work` finds damage in it: then `work` is called again
    without it, so it must undo what it did before it raises. The only recording that is left is never left out, and
    with `strict` none is: the error is raised.
    """
    readable = tell_parts(paths, leave_out=not strict and len(paths) > 1)
    while True:
        try:
            return work(readable), PARTLY if len(readable) < len(paths) else 0
        except RecordingDamaged as error:
            rest = [path for path in readable if str(path) != error.path]
            if strict or not rest or len(rest) == len(readable):
                raise
            tell_left_out(error)
            readable = rest


def partly(bad: int, all: int) -> int:
    """The exit status of a command that reads each of its recordings by itself, by how many of them it could not read:
    3, or 1 where none is left."""
    if not bad:
        return 0
    return PARTLY if bad < all else 1


def tell_left_out(why: Exception) -> None:
    """Says on standard error that a recording, which the reason names, is left out."""
    what = f"{why.filename}: {why.strerror}" if isinstance(why, OSError) and why.filename else why
    warn(f"rtmw: left out: {what}")
