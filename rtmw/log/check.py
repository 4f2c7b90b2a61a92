"""Is a log whole? And what of one that is damaged can be saved: both read all of it, and change nothing of it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path

from rtmw.errors import LogDamaged, LogError
from rtmw.log import _log as core
from rtmw.log.folder import Folder, cursor_names, open_folder

__all__ = ["Checked", "Missing", "Salvaged", "bases", "check", "look_into", "salvage"]

Progress = Callable[[int, int], None]
"""Called with the bytes that were looked at so far, and all of them."""

_SEALED = 1
_TURN = 1000
_RUN = 1 << 16


@dataclass(frozen=True)
class Missing:
    """Positions at which records were, and are not whole."""

    start: int
    end: int
    why: str


@dataclass
class Checked:
    """The findings of a check of each byte of a log."""

    path: str
    start: int = 0
    end: int = 0
    """Position behind the last durable record."""
    records: int = 0
    segments: int = 0
    tail: int = 0
    """Bytes of whole records behind the end, of a writer that has ended before it answered: no damage. The next
    opening makes them durable, or cuts them off."""
    compacted: int = 0
    """Bytes of records that compaction has removed: no damage."""
    missing: list[Missing] = field(default_factory=list[Missing])
    problems: list[str] = field(default_factory=list[str])
    """What is wrong with heads, marks and cursors, in a sentence each."""

    @property
    def is_whole(self) -> bool:
        return not self.missing and not self.problems


@dataclass(frozen=True)
class Salvaged:
    """The records that were written into a new log, and those that are missing in it, by positions of the old one."""

    target: str
    records: int
    missing: list[Missing]


def look_into(path: Path) -> Folder:
    """The folder of a log, as it is: nothing is recovered. FileNotFoundError, LogError, LogDamaged."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        raise FileNotFoundError(f"there is no log {path}") from None
    try:
        found = core.identify(str(path), descriptor)
        if found is None:
            raise FileNotFoundError(f"there is no log in {path}")
        return Folder(str(path), descriptor, *found)
    except BaseException:
        os.close(descriptor)
        raise


def bases(folder: Folder) -> list[int]:
    """First positions of all segments, in order, also of those that lie before the log's start."""
    names = (name.removesuffix(".seg") for name in os.listdir(folder.descriptor) if name.endswith(".seg"))
    return sorted(int(name) for name in names if name.isdecimal())


def _records(reader: core.Reader, base: int) -> Iterator[tuple[int, int, int, int, int, bytes, bytes]]:
    """The valid records of a segment, wherever they lie."""
    position = base
    while (found := reader.scan(base, position)) is not None:
        yield found
        position = found[1]


def _bounds(folder: Folder, checked: Checked, all: list[int]) -> None:
    """Where it begins and ends; as far as can be said, if the files that say so are spoiled."""
    try:
        checked.start, checked.end = folder.bounds()
    except LogDamaged as error:
        checked.problems.append(str(error))
        checked.start, checked.end = all[0], all[-1]
    begins = [base for base in all if base >= checked.start]
    if not all or begins[:1] != [checked.start]:
        first = begins[0] if begins else checked.end
        checked.missing.append(Missing(checked.start, first, "the first segments are missing"))


def _end_of(folder: Folder, checked: Checked, base: int, following: int | None) -> int:
    """Returns the position up to which the records of a segment have to be whole."""
    try:
        _, durable, flags, *_ = core.segment(folder.path, folder.descriptor, folder.uuid, base)
    except LogError as error:
        checked.problems.append(str(error))
        return checked.end if following is None else following
    if following is None and flags & _SEALED:
        checked.missing.append(Missing(durable, max(durable, checked.end), "the segment behind it is missing"))
        return durable
    return max(durable, checked.end) if following is None else following


def _each(folder: Folder, checked: Checked, progress: Progress) -> Iterator[tuple[int, int, bytes, bytes]]:
    """Position, time, labels and data of all records that are whole; what is not goes into `checked`."""
    all = bases(folder)
    if not all:
        checked.problems.append(f"{folder.path}: there is no segment")
        return
    _bounds(folder, checked, all)
    mine = [base for base in all if base >= checked.start]
    checked.segments, last = len(mine), mine[-1] if mine else 0
    for base, following in zip(mine, [*mine[1:], None], strict=True):
        end, position = _end_of(folder, checked, base, following), base
        with closing(folder.reader(base)) as reader:
            for record in _records(reader, base):
                if record[0] >= end:
                    break
                _count_gap(checked, reader, position, record[0])
                position = record[1]
                if record[4] != core.FENCE:
                    checked.records += 1
                    if checked.records % _TURN == 0:
                        progress(position - checked.start, max(checked.end, last) - checked.start)
                    yield record[0], record[2], record[5], record[6]
            _count_gap(checked, reader, position, end)
        if following is None:
            checked.tail = sum(record[1] - record[0] for record in _records_behind(folder, base, position))
            checked.end = max(checked.end, position)


def _count_gap(checked: Checked, reader: core.Reader, position: int, end: int) -> None:
    """Positions of no record are what compaction has removed, or missing."""
    if position < end and reader.is_whole:
        checked.compacted += end - position
    elif position < end:
        checked.missing.append(Missing(position, end, "no valid record is there"))


def _records_behind(folder: Folder, base: int, position: int) -> Iterator[tuple[int, int]]:
    """Yields begin and end of the records that lie one behind the other, from a position on."""
    reader = folder.reader(base)
    try:
        while (found := reader.scan(base, position)) is not None and found[0] == position:
            yield found[0], found[1]
            position = found[1]
    finally:
        reader.close()


def _read_through(folder: Folder, checked: Checked) -> None:
    """Reads the log like any reader, for whom each segment has to lead to the next one. Takes down the error that
    stops it."""
    try:
        start, end = folder.bounds()
        with closing(folder.reader(start, begins=True)) as reader:
            while reader.run(end, 0, 0, core.NO_LIMIT, _RUN, 0) is not None:
                pass
    except LogError as error:
        checked.problems.append(str(error))


def check(path: Path, progress: Progress) -> Checked:
    """Reads all records, heads, marks and cursors; a torn tail is told from damage. Errors as of look_into."""
    with look_into(path) as folder:
        checked = Checked(folder.path)
        for _ in _each(folder, checked, progress):
            pass
        if checked.is_whole:
            _read_through(folder, checked)
        for name in cursor_names(folder):
            try:
                folder.cursor(name)
            except LogError as error:
                checked.problems.append(str(error))
    return checked


def salvage(path: Path, target: Path, progress: Progress) -> Salvaged:
    """A new log of all records that are whole, with their keys, ids and times; positions are new.

    Durable when it returns. LogError: there is something at `target`. Errors as of look_into.
    """
    if target.exists():
        raise LogError(f"{target} is there already; name a folder that is not")
    with look_into(path) as folder:
        checked = Checked(folder.path)
        with open_folder(target, folder.description, segment=64 << 20) as new, new.hold():
            largest = max((folder.size_of_segment(base) for base in bases(folder)), default=0)
            writer, end = new.writer(max(64 << 20, largest), 1), 0
            try:
                for _, time_ns, labels, data in _each(folder, checked, progress):
                    _, end = writer.append(data, labels or None, core.STARTED, None, time_ns)
                writer.wait(end, None)
            finally:
                writer.close()
            with suppress(FileNotFoundError):  # of one id; the next writer makes it from the records
                os.unlink("ids", dir_fd=new.descriptor)
    return Salvaged(str(target), checked.records, checked.missing)
