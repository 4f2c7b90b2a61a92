"""The recordings that a command reads, and what a reader of its outcome has to know of them."""

from __future__ import annotations

import sys
from contextlib import closing
from pathlib import Path

from rtmw.errors import RecordingError
from rtmw.recording.footer import is_finished
from rtmw.recording.records import MAGIC
from rtmw.recording.remote_file import open_file


def tell_parts(paths: list[Path]) -> list[Path]:
    """The paths. Says on standard error which recordings may be there in part only: an outcome does not show it."""
    for path in paths:
        if _has_no_end(path):
            why = "its recorder was killed or still writes, or the file was cut"
            print(f"rtmw: {path} has no end: {why}. What is whole is read", file=sys.stderr)
    return paths


def _has_no_end(path: Path) -> bool:
    """False also where it cannot be read: the command says that."""
    try:
        with closing(open_file(path)) as file:
            return file.window(0, len(MAGIC)) == MAGIC and not is_finished(file)
    except (RecordingError, OSError):
        return False
