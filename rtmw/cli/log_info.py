"""The output of `rtmw log info` and `list` about a log, and the picture of its segments and cursors."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import rtmw
from rtmw.cli.terminal import Cell, Table, counted, duration, say, show, size
from rtmw.clock import CLOCK
from rtmw.log import Folder, bases, cursor_names, holder_of, holder_of_cursor, index, look_into, segment
from rtmw.types import from_description, shown_name

WIDTH: Final = 64
"""Characters of the picture."""


@dataclass(frozen=True)
class SegmentInfo:
    """A file of records."""

    base: int
    end: int
    """Position behind the segment's last durable record."""
    size: int
    records: int | None
    """None: it has no index, as the last one never has."""
    earliest_ns: int | None
    latest_ns: int | None
    compacted: int
    """Bytes of its records that compaction has removed."""

    @property
    def seconds(self) -> float | None:
        """Seconds from the first record to the last one; None: it is not known."""
        if self.earliest_ns is None or self.latest_ns is None:
            return None
        return (self.latest_ns - self.earliest_ns) / 1e9


@dataclass(frozen=True)
class CursorInfo:
    name: str
    position: int
    behind: int
    idle_s: float
    """Seconds since it was opened or committed."""
    holder: str | None


@dataclass(frozen=True)
class LogInfo:
    path: str
    type: str
    start: int
    end: int
    disk: int
    """Bytes of its segments and of the spare."""
    writer: str | None
    segments: list[SegmentInfo]
    cursors: list[CursorInfo]

    def facts(self) -> dict[str, Any]:
        return asdict(self)


def is_log(path: Path) -> bool:
    """Whether this folder has a file that says so."""
    try:
        with (path / "log").open("rb") as file:
            return file.read(8) == b"RTMWLOG\0"
    except OSError:
        return False


def info_of(path: Path) -> LogInfo:
    """Changes nothing. FileNotFoundError, LogError, LogDamaged."""
    with look_into(path) as folder:
        start, end = folder.bounds()
        all = [base for base in bases(folder) if base >= start]
        following = [*all[1:], end]
        segments = [_segment(folder, base, next) for base, next in zip(all, following, strict=True)]
        cursors = [_cursor(folder, name, end) for name in cursor_names(folder)]
        name = shown_name(from_description(folder.description).name)
        known = [cursor for cursor in cursors if cursor is not None]
        writer = holder_of(folder.descriptor)
        if folder.is_replicated:
            writer = f"the nodes of a replicated log, of which it is a copy; {writer or 'its node does not run'}"
        return LogInfo(folder.path, name, start, end, folder.segments()[1], writer, segments, known)


def remote_info(log: rtmw.Log[Any]) -> LogInfo:
    """Returns what the nodes of a replicated log tell. It has no segments: each node has its own."""
    stats, now = log.stats(), CLOCK.wall_ns()
    cursors = [
        CursorInfo(name, one.position, one.behind, max(0.0, (now - one.time_ns) / 1e9), one.holder)
        for name, one in log.cursors().items()
    ]
    name = shown_name(log.type.name)
    return LogInfo(str(log.path), name, stats.earliest, stats.end, stats.disk, "its nodes", [], cursors)


def _segment(folder: Folder, base: int, end: int) -> SegmentInfo:
    bytes, _, _, _, removed = segment(folder.path, folder.descriptor, folder.uuid, base)
    found = index(folder.path, folder.descriptor, folder.uuid, base)
    records, earliest, latest = found or (None, None, None)
    return SegmentInfo(base, end, bytes, records, earliest, latest, removed)


def _cursor(folder: Folder, name: str, end: int) -> CursorInfo | None:
    found = folder.cursor(name)
    if found is None:  # deleted meanwhile
        return None
    idle = max(0.0, (CLOCK.wall_ns() - found[1]) / 1e9)
    return CursorInfo(name, found[0], max(0, end - found[0]), idle, holder_of_cursor(folder, name))


def picture(info: LogInfo) -> list[str]:
    """A bar with the log's segments, and a line with the place of each cursor."""
    room = max(info.segments[-1].base + info.segments[-1].size, info.end) if info.segments else info.end
    span = max(room - info.start, 1)

    def column(position: int) -> int:
        return min(WIDTH - 1, max(0, (position - info.start) * WIDTH // span))

    bar = ["#" if column(info.end) > at else "." for at in range(WIDTH)]
    for found in info.segments:
        bar[column(found.base)] = "|"
    shown = ["".join(bar) + f"  {info.start} to {info.end}"]
    for cursor in info.cursors:
        held = f", held by {cursor.holder}" if cursor.holder else f", idle for {duration(cursor.idle_s)}"
        shown.append(" " * column(cursor.position) + f"^ {cursor.name}: {size(cursor.behind)} behind{held}")
    return shown


def show_info(info: LogInfo) -> None:
    parts = f"{counted(len(info.segments), 'segment')}, " if info.segments else ""
    head = [
        f"{info.path}: log of {info.type}, {parts}{size(info.disk)} on the disk",
        f"written by {info.writer}" if info.writer else "nobody writes",
        *picture(info),
    ]
    if not info.segments:  # of nodes, each of which has its own
        say(*head)
        return
    gone = sum(found.compacted for found in info.segments)
    if gone:
        head.insert(2, f"compaction has removed {size(gone)} of {size(info.end - info.start)} of records")
    rows: list[list[Cell]] = []
    for found in info.segments:
        seconds = found.seconds or None
        rate = found.records / seconds if seconds and found.records else None
        speed = f"{size((found.end - found.base - found.compacted) / seconds)}/s" if seconds else None
        removed = size(found.compacted) if found.compacted else None
        rows.append([found.base, found.end, size(found.size), removed, found.records, duration(seconds), rate, speed])
    titles = ("from", "up to", "file", "compacted", "records", "time", "records/s", "bytes/s")
    show(Table(head[0], titles, rows, head[1:]))
