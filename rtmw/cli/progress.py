"""How a recording goes: one line that changes on a terminal, and a line now and then elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from rtmw.cli.terminal import counted, show_json, size, warn
from rtmw.cli.values import to_plain
from rtmw.clock import CLOCK
from rtmw.visible import visible

if TYPE_CHECKING:
    from rtmw.recorder import RecorderStats
    from rtmw.recorder.files import UploadStats
    from rtmw.recording.contents import Cause

LIVE_S, LINES_S = 0.4, 5.0


class Progress:
    """Shows how a recording goes, on standard error, so that standard output stays for the result; as JSON on
    standard output."""

    def __init__(self, is_quiet: bool, is_json: bool) -> None:
        self._is_quiet, self._is_json = is_quiet, is_json
        self._live: Any = None
        self._before: tuple[float, RecorderStats] | None = None

    def __enter__(self) -> Self:
        if sys.stderr.isatty() and not self._is_quiet and not self._is_json:
            from rich.console import Console
            from rich.live import Live

            self._live = Live(console=Console(stderr=True), auto_refresh=False, transient=True)
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def say(self, text: str) -> None:
        """A line that stays."""
        if self._live is not None:
            self._live.console.print(visible(text), markup=False, highlight=False)
        elif not self._is_quiet:
            warn(f"rtmw record: {text}")

    def show(self, stats: RecorderStats) -> None:
        """Called often; shown when it is time."""
        now = CLOCK.monotonic()
        then, before = self._before or (now, stats)
        if self._before is None:
            self._before = now, stats
        if self._is_quiet or now - then < (LIVE_S if self._live is not None else LINES_S):
            return
        self._before = now, stats
        if self._is_json:
            show_json(facts(stats))
        elif self._live is not None:
            from rich.text import Text

            self._live.update(Text(visible(line(stats, before, now - then))), refresh=True)
        else:
            self.say(line(stats, before, now - then))


def line(stats: RecorderStats, before: RecorderStats, seconds: float) -> str:
    """How it stands, with rates since `before`, so many seconds ago."""
    rate, volume = (stats.messages - before.messages) / seconds, (stats.bytes - before.bytes) / seconds
    parts = [
        f"{counted(stats.messages, 'message')} of {counted(stats.topics, 'topic')}",
        f"{rate:.0f}/s, {size(volume)}/s",
        f"{size(stats.written)} in {counted(stats.files, 'file')}",
    ]
    parts += [f"missing: {causes(stats.missing)}"] if stats.missing else []
    parts += [f"disk behind: {100 * stats.backlog:.0f} % of the buffer"] if stats.backlog > 0.02 else []
    parts += [uploaded(stats.uploads)] if stats.uploads is not None else []
    parts += ["paused"] if stats.is_paused else []
    return " · ".join(parts)


def uploaded(uploads: UploadStats) -> str:
    """How many files are at the remote place, and what is in the way."""
    failed = f", {counted(uploads.failures, 'failed attempt')}" if uploads.failures else ""
    lost = f", {uploads.lost} removed here before" if uploads.lost else ""
    why = f": {uploads.problem}" if uploads.problem else ""
    return f"uploaded {uploads.sent}, waiting {uploads.waiting}{lost}{failed}{why}"


def causes(missing: Mapping[Cause, int]) -> str:
    """Counts with their causes, the most frequent first."""
    ordered = sorted(missing.items(), key=lambda item: -item[1])
    return ", ".join(f"{count} {cause.name.lower().replace('_', ' ')}" for cause, count in ordered)


def facts(stats: RecorderStats, paths: Sequence[Path] = ()) -> dict[str, Any]:
    """Returns the state of a recorder in the form that programs read; with the files when it is over."""
    missing = {cause.name.lower(): count for cause, count in stats.missing.items()}
    return {**to_plain(stats), "missing": missing, **({"paths": [str(path) for path in paths]} if paths else {})}


def summary(stats: RecorderStats, paths: Sequence[Path], is_snapshot: bool = False) -> list[str]:
    """The outcome of a recording. Messages kept for a snapshot that was never requested are in no file."""
    messages, topics = counted(stats.messages, "message"), counted(stats.topics, "topic")
    lines = [f"recorded {messages} ({size(stats.bytes)}) of {topics}"]
    if is_snapshot:
        written = counted(stats.written_messages, "message")
        lines = [f"took {messages} ({size(stats.bytes)}) of {topics}, and wrote {written} in snapshots"]
    if is_snapshot and not paths:
        lines = [f"took {messages} of {topics}, and wrote none: no snapshot was asked for (SIGUSR1, or the key s)"]
    lines += [f"missing: {causes(stats.missing)}"] if stats.missing else []
    lines += [uploaded(stats.uploads)] if stats.uploads is not None else []
    return [*lines, *map(str, paths)]
