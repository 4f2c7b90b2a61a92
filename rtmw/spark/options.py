"""The options of `spark.read.format("rtmw")` in text, and of `rtmw.spark.read` in Python's values; checked. A path may
stand for several files.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from glob import glob
from pathlib import Path
from typing import Any, Final, TypedDict

from rtmw.recording.contents import nanoseconds, time_ns
from rtmw.recording.files import find_recordings
from rtmw.recording.frames.scan import MODES
from rtmw.recording.versions import version_number
from rtmw.text.units import some_bytes
from rtmw.types import resolve


def recordings_of(paths: Iterable[str], *, growing: bool = False) -> list[Path]:
    """Returns what `find_recordings` does, as absolute paths: they mean the same file in each task. Raises
    FileNotFoundError."""
    return [path.absolute() for path in find_recordings(map(local, paths), growing=growing)]


def is_there(path: str) -> bool:
    """Does it stand for a file or folder as it is? Then its commas are of a name, and not between several paths."""
    return os.path.exists(local(path)) or bool(glob(local(path), recursive=True))


def local(path: str) -> str:
    """Returns the path without the `file:` that Spark's users may write."""
    return path.removeprefix("file://") if path.startswith("file://") else path.removeprefix("file:")


BOOLEANS: Final = {"true": True, "false": False}
PATHS: Final = frozenset({"path", "paths"})
OF_TABLES: Final = frozenset({"location", "provider"})
"""The entries about a table that Spark's catalog puts among its options."""


@dataclass(frozen=True)
class ReadOptions:
    """Options of a read, each with what it means."""

    paths: tuple[str, ...]
    """Recordings, folders of them, patterns."""
    topics: tuple[str, ...] = ()
    """Names, or patterns with * ? []; none: all topics."""
    type: str | None = None
    """Only messages of the type of this name."""
    type_version: int | None = None
    """Only messages of this version of the type, from 1; LATEST; None: all, with columns that are merged by name."""
    columns: tuple[str, ...] = ()
    """Only these columns, in this order; none: those that are usual."""
    typed: bool = True
    """Columns for the members, if all messages are of one type; else always the payload."""
    mode: str = "FAILFAST"
    """The treatment of a damaged payload: an error, a row without members, or no row."""
    unsigned: str = "decimal"
    """The type of unsigned numbers of 64 bits: `decimal` (20, 0), or `long`, with an error beyond its range."""
    carried: bool = False
    """Whether rows include the messages that a recorder carried over from the file before."""
    incomplete: str = "warn"
    """A recording without its end, still written or cut off: `warn` and read what is whole, `read` it, or `fail`."""
    start_ns: int | None = None
    """Only messages logged then or later."""
    end_ns: int | None = None
    """Only messages logged before."""
    pushdown: bool = False
    """The index also answers conditions of the query; for DataFrames that are asked once, see docs/spark.md."""
    partition_bytes: int | None = None
    """Bytes of messages in a partition; None: as many as keep all processors busy."""


class ReadKeywords(TypedDict, total=False):
    """Keywords of `rtmw.spark.read`; what they mean is said in ReadOptions."""

    topic: str | Sequence[str]
    type: str | type
    columns: str | Sequence[str]
    type_version: int | str
    start: datetime | str | int
    end: datetime | str | int
    typed: bool
    mode: str
    unsigned64: str
    carried: bool
    incomplete: str
    partition_bytes: str | int


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


def _one_of(*allowed: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        found = [word for word in allowed if word.lower() == text.lower()]
        if not found:
            raise ValueError(f"one of {', '.join(allowed)}")
        return found[0]

    return read


def _boolean(text: str) -> bool:
    if text.lower() not in BOOLEANS:
        raise ValueError("true or false")
    return BOOLEANS[text.lower()]


def _bytes(text: str) -> int:
    try:
        return some_bytes(text)
    except ValueError:
        raise ValueError("a number of bytes, such as 32M") from None


_READERS: Final[dict[str, tuple[str, Callable[[str], Any]]]] = {
    "topic": ("topics", _words),
    "type": ("type", str),
    "type_version": ("type_version", version_number),
    "columns": ("columns", _words),
    "typed": ("typed", _boolean),
    "mode": ("mode", _one_of(*MODES)),
    "unsigned64": ("unsigned", _one_of("decimal", "long")),
    "carried": ("carried", _boolean),
    "incomplete": ("incomplete", _one_of("warn", "read", "fail")),
    "start": ("start_ns", time_ns),
    "end": ("end_ns", time_ns),
    "pushdown": ("pushdown", _boolean),
    "partition_bytes": ("partition_bytes", _bytes),
}
"""For each option: the attribute, and what makes its value of the text; ValueError says what it should be."""


def read_options(options: Mapping[str, str], known: frozenset[str] = frozenset()) -> ReadOptions:
    """The options of a `load`. `known`: other names, of whoever asks. Raises ValueError."""
    values: dict[str, Any] = {}
    if OF_TABLES & {name.lower() for name in options}:
        raise ValueError(
            "Spark keeps no options of a table whose source is written in Python, so nothing could be read from it. "
            "CREATE TEMPORARY VIEW … USING rtmw OPTIONS (…) makes a view that can"
        )
    for name, text in options.items():
        if name.lower() in _READERS:
            values |= _value(name, text)
        elif name.lower() not in known | PATHS:
            names = ", ".join(sorted({*_READERS, *known}))
            raise ValueError(f"rtmw has no option {name!r} for reading; there are {names}")
    return ReadOptions(_paths(options), **values)


def keyword_options(paths: Sequence[str], keywords: Mapping[str, Any]) -> ReadOptions:
    """Returns the options of ReadKeywords. Raises TypeError for a keyword that does not exist, ValueError for a
    value."""
    values: dict[str, Any] = {}
    for name, given in keywords.items():
        if name not in ReadKeywords.__annotations__:
            raise TypeError(f"read() has no keyword {name!r}; there are {', '.join(ReadKeywords.__annotations__)}")
        is_listed = name in ("topic", "columns") and not isinstance(given, str)
        values |= {_READERS[name][0]: tuple(given)} if is_listed else _value(name, _text(given))
    return ReadOptions(tuple(paths), **values)


def _text(given: Any) -> str:
    match given:
        case str():
            return given
        case bool() | int():
            return str(given).lower()
        case datetime():
            return str(nanoseconds(given))
        case _:
            return resolve(given).name


def _value(name: str, text: str) -> dict[str, Any]:
    """Returns the value of an option, by its attribute. Raises ValueError."""
    attribute, reader = _READERS[name.lower()]
    try:
        return {attribute: reader(text)}
    except ValueError as error:
        raise ValueError(f"option {name}={text!r} is not known: {error} was expected") from None


def _paths(options: Mapping[str, str]) -> tuple[str, ...]:
    """`load("a, b")`, or `load(["a", "b"])`, which Spark hands on as JSON; a list of one comes like a text."""
    listed: list[str] = json.loads(options["paths"]) if "paths" in options else []
    path = options.get("path", "")
    found = (*((path,) if is_there(path) else _words(path)), *listed)
    if not found:
        raise ValueError('rtmw reads recordings: say which, as in spark.read.format("rtmw").load("monday.mcap")')
    return found
