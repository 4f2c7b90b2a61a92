"""The options with which a log is opened."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypedDict

from rtmw.errors import TypeMismatch
from rtmw.log import KEEP_ALL, NO_LIMIT, SEGMENT_LEAST
from rtmw.types import MessageType, from_description, shown_name
from rtmw.units import seconds_of, size_of

__all__ = ["LogOptions", "Retention"]

LARGEST_SEGMENT: Final = 4 << 30
DEDUPE: Final = 65_536
MOST_IDS: Final = 1 << 24
MOST_PER_KEY: Final = 1_000_000
ABANDONED_S: Final = 7 * 86400.0
LONGEST_S: Final = 100 * 365 * 86400.0


@dataclass(frozen=True)
class Retention:
    """Which full segments of a log go: those that one of the limits does not want, and no cursor needs.

    Looked at when a segment is full, once a minute, and when a writer begins. The last segment always stays.
    """

    age: float | str | None = None
    """Seconds, or `"7d"`: a segment goes when it was full longer ago. None: no limit."""
    bytes: int | str | None = None
    """Bytes of the files of all segments, or `"10G"`: the oldest segments go until at most this is left. None: no
    limit."""
    cursors: bool | float | str = True
    """Whether a segment stays until each cursor has passed it; but a cursor that was neither opened nor committed for
    7 days, or so many seconds as are given here (`"30d"`), is abandoned, and keeps nothing."""
    per_key: int | None = None
    """How many records with the same key stay, the newest ones; older ones that each cursor has passed go from full
    segments. Records without a key stay. None: all stay."""

    def __post_init__(self) -> None:
        self.numbers()

    def numbers(self) -> tuple[int, int, int, int]:
        """Nanoseconds, bytes, nanoseconds and records a key (0: all), for the writer. Raises ValueError."""
        age = NO_LIMIT if self.age is None else int(_seconds("age", self.age) * 1e9)
        size = NO_LIMIT if self.bytes is None else size_of(self.bytes)
        if isinstance(self.cursors, bool):
            cursors = int(ABANDONED_S * 1e9) if self.cursors else 0
        else:
            cursors = int(_seconds("cursors", self.cursors) * 1e9)
        return age, size, cursors, 0 if self.per_key is None else _count(self.per_key)


def _count(per_key: int) -> int:
    if isinstance(per_key, bool) or not 1 <= per_key <= MOST_PER_KEY:
        raise ValueError(f"per_key={per_key!r} is not possible; it is a number of records from 1 to {MOST_PER_KEY}")
    return per_key


def _seconds(what: str, written: float | str) -> float:
    seconds = seconds_of(written)
    if isinstance(written, bool) or not 0 <= seconds <= LONGEST_S:
        raise ValueError(f"{what}={written!r} is not possible; write seconds as a number, or as '10min', '2h', '7d'")
    return seconds


def numbers_of(retention: Retention | None) -> tuple[int, int, int, int]:
    """Returns the limits of a retention as the writer takes them; None: all is kept. TypeError: it is no Retention."""
    if retention is not None and not isinstance(retention, Retention):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(
            f"retention={retention!r} is not possible; write rtmw.Retention(age={retention!r}) for a time, in seconds "
            f"or as '7d', or rtmw.Retention(bytes={retention!r}) for a size, in bytes or as '10G'"
        )
    return KEEP_ALL if retention is None else retention.numbers()


class LogOptions(TypedDict, total=False):
    """Keywords of Log."""

    create: bool
    segment: int | str
    retention: Retention | None
    sync: bool
    dedupe: int


class ConnectOptions(TypedDict, total=False):
    """Keywords of Log.connect."""

    nodes: Sequence[str] | None
    keys: str | os.PathLike[str] | None
    insecure: bool
    timeout: float | None


def log_path(path: str | os.PathLike[str]) -> Path:
    """The folder that is meant. ValueError: a bare name, which is not said to be a folder."""
    text = os.fspath(path)
    if isinstance(path, str) and os.sep not in text:
        raise ValueError(f"{text!r} is a bare name; a log is a folder: write {text + '/'!r}, or pathlib.Path({text!r})")
    return Path(text)


def check_segment(segment: int | str) -> int:
    """Bytes of the largest segment, in whole pages."""
    size = size_of(segment)
    if not SEGMENT_LEAST <= size <= LARGEST_SEGMENT:
        raise ValueError(f"segment={segment!r} is not possible; it is a size from 64K to 4G")
    return size & ~4095


def check_dedupe(dedupe: int) -> int:
    """The length of the dedupe window, in ids."""
    if isinstance(dedupe, bool) or not 1 <= dedupe <= MOST_IDS:
        raise ValueError(f"dedupe={dedupe!r} is not possible; it is a number of ids from 1 to {MOST_IDS}")
    return dedupe


def agreed_type(path: Path, description: bytes, wanted: MessageType | None) -> MessageType:
    """The type of a log, as its folder describes it. `wanted`: what was asked for; None: any. Raises TypeMismatch."""
    found = from_description(description)
    if wanted is None:
        return found
    if wanted.identity != found.identity:
        raise TypeMismatch(
            f"{path}: the log is one of {shown_name(found.name)}, and {shown_name(wanted.name)} was asked for; open it "
            "with the type that it was made with, or with rtmw.ANY"
        )
    return wanted


def not_bytes(path: Path, value: object) -> TypeMismatch:
    """The error of an append that was given something else."""
    return TypeMismatch(
        f"{path}: a log of bytes was given {value!r:.80}; give bytes, bytearray or memoryview, or make a log of the "
        "values' type, such as rtmw.Log(path, str)"
    )
