"""Recordings to a report, from the paths to the page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from rtmw.clock import CLOCK
from rtmw.recording.paths import SUFFIX, Source, find_recordings
from rtmw.recording.places import is_remote, place
from rtmw.recording.report.contents import Contents, contents_of
from rtmw.recording.report.facts import Facts, Measure, measured_here
from rtmw.recording.report.grid import grid_of
from rtmw.recording.report.page import BEGIN, Page
from rtmw.recording.report.sections import OF_MESSAGES, SECTIONS, subtitle
from rtmw.recording.report.verdict import Check, verdict
from rtmw.recording.tools.copying import Progress, no_progress
from rtmw.recording.tools.whole import refuse_standard_output, written_whole

More = Callable[[Page, Facts], None]
"""Writes further sections."""

_NAMED: Final = 20


def facts_of(
    contents: Contents,
    *,
    every: float | None = None,
    deadline: float | None = None,
    measure: Measure = measured_here,
    progress: Progress = no_progress,
) -> Facts:
    """All that is known of recordings. `every`: seconds of an interval of the plots, None: about a hundred in all.
    `deadline`: seconds after a message until the next one. `measure`: who reads the messages.

    Errors: ValueError for intervals that are too short, OSError, and those of `measure`.
    """
    grid = grid_of(contents.since_ns, contents.until_ns, every, deadline)
    topics, damage = measure(contents, grid, progress)
    return Facts(contents, grid, topics, damage)


def look_into(source: Source, output: str | Path, progress: Progress = no_progress) -> Contents:
    """The contents of recordings by their indexes; checks first that the page has a place. `progress` is told of files.

    Errors: FileNotFoundError, FileExistsError, RecordingError where nothing can be read.
    """
    path = place(output)
    refuse_standard_output(path)
    if path.suffix == SUFFIX:
        raise FileExistsError(f"{path} has the name of a recording: name a page, as report.html")
    if not is_remote(path):
        _check_place(path)
    return contents_of(find_recordings(source), progress)


def _check_place(path: Path) -> None:
    """An older page may be replaced, and an empty file: nothing else, such as the recording itself."""
    if not path.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {path.parent} for {path.name}")
    if path.is_dir():
        raise FileExistsError(f"{path} is a folder: name a file in it")
    if path.exists() and not (path.is_file() and _is_page(path)):
        raise FileExistsError(f"{path} exists, and is no page: name another file, or remove it")


def _is_page(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(BEGIN)) in (BEGIN.encode(), b"")


def write(facts: Facts, output: str | Path, took: float, more: Sequence[More] = ()) -> tuple[Check, ...]:
    """Writes the page, and gives its checks, the worst first. `took`: seconds that the footer tells."""
    checks = verdict(facts)
    page = Page("Report", subtitle(facts))
    page.verdict(checks)
    for section in (*SECTIONS, *more):
        if facts.topics or section not in OF_MESSAGES:
            section(page, facts)
    paths = [str(file.info.path) for file in facts.contents.files]
    others = f" and {len(paths) - _NAMED} more" if len(paths) > _NAMED else ""
    told = f"Made by rtmw report in {took:.1f} s, from {', '.join(paths[:_NAMED])}{others}"
    with written_whole(place(output), replace=True) as temporary:
        temporary.write_text(page.html(told), encoding="utf-8")
    return checks


def report(
    source: Source, output: str | Path, *, every: float | None = None, deadline: float | None = None
) -> tuple[Check, ...]:
    """Write one HTML page about recordings; its checks, the worst first. Errors: as `look_into` and `facts_of`."""
    begin = CLOCK.monotonic()
    facts = facts_of(look_into(source, output), every=every, deadline=deadline)
    return write(facts, output, CLOCK.monotonic() - begin)
