"""`rtmw record`: write topics into recordings, until SIGINT, SIGTERM, SIGHUP, or the disk fails."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, Self

from rtmw.cli import parsing
from rtmw.cli.common import LOOK_S, CommandError, attach
from rtmw.cli.endings import Demand, heeded
from rtmw.cli.parsing import count, runs, seconds
from rtmw.cli.terminal import can_press, counted, keys, say, show_json, size, warn
from rtmw.cli.values import to_plain
from rtmw.clock import CLOCK
from rtmw.domain import Domain
from rtmw.errors import DomainNotFound
from rtmw.recorder import Recorder
from rtmw.text.visible import visible

if TYPE_CHECKING:
    from rtmw.recorder import RecorderStats
    from rtmw.recorder.files import UploadStats
    from rtmw.recording.contents import Cause


STEP_S = 0.2
HELP_KEYS = "q ends it, p pauses, s begins the next file or writes the snapshot"
HELP_SIGNALS = "SIGINT ends it, SIGUSR1 begins the next file or writes the snapshot, SIGUSR2 pauses and goes on"
_OPTIONS = (
    "compression", "chunk_bytes", "buffer_bytes", "split_bytes", "split_every", "keep", "sync_every", "snapshot",
    "reliable", "append", "ros2", "upload", "upload_remove", "upload_patience",
)  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    runs(parser, record)
    parser.add_argument("topics", nargs="*", metavar="TOPIC", help="names and patterns; of patterns, new topics too")
    parser.add_argument("--all", action="store_true", help="every topic")
    parser.add_argument("--exclude", nargs="+", default=(), metavar="PATTERN", help="topics not to record")
    parser.add_argument("-o", "--output", required=True, metavar="FOLDER", help="where the files go; made if need be")
    parser.add_argument("--append", action="store_true", help="the folder may hold recordings already")
    parser.add_argument("--compression", metavar="NAME", help="lz4 (default), zstd or none")
    parser.add_argument("--split-size", type=parsing.size, dest="split_bytes", metavar="SIZE", help="next file, as 1G")
    parser.add_argument("--split-every", type=seconds, metavar="TIME", help="next file after so long")
    parser.add_argument("--keep", type=count, metavar="N", help="remove the oldest of more than N files")
    parser.add_argument("--snapshot", type=seconds, metavar="TIME", help="keep so long in memory until SIGUSR1")
    parser.add_argument("--reliable", action="store_true", help="RELIABLE publishers wait for the recorder")
    help = "memory (default 256M)"
    parser.add_argument("--buffer", type=parsing.size, dest="buffer_bytes", metavar="SIZE", help=help)
    parser.add_argument("--chunk", type=parsing.size, dest="chunk_bytes", metavar="SIZE", help="of chunks (default 1M)")
    parser.add_argument("--sync-every", type=seconds, metavar="TIME", help="to the disk itself (default 5)")
    parser.add_argument("--ros2", action="store_true", help="schemas and QoS for the tools of ROS 2")
    parser.add_argument("--upload", metavar="URI", help="finished files go there, too: s3://bucket/prefix")
    parser.add_argument("--upload-remove", action="store_true", help="and are removed here when they are there")
    parser.add_argument("--upload-patience", type=seconds, metavar="TIME", help="wait so long at the end (default 60)")
    parser.add_argument("--for", type=seconds, dest="seconds", metavar="TIME", help="how long (until SIGINT)")
    parser.add_argument("--wait", action="store_true", help="wait for a domain that is not there yet")
    parser.add_argument("--quiet", action="store_true", help="say nothing but errors")


class _Demands:
    """The requests of signals and keys; the main thread carries them out."""

    def __init__(self) -> None:
        self.end, self.cut, self.pause = Demand(), Demand(), Demand()

    @contextmanager
    def listening(self) -> Generator[None]:
        wanted = {
            signal.SIGINT: self.end,
            signal.SIGTERM: self.end,
            signal.SIGHUP: self.end,
            signal.SIGUSR1: self.cut,
            signal.SIGUSR2: self.pause,
        }
        before = {number: signal.signal(number, _setting(wanted[number])) for number in heeded(wanted)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def press(self, key: str) -> None:
        event = {"q": self.end, "s": self.cut, "p": self.pause, "r": self.pause, "space": self.pause}.get(key)
        if event is not None:
            event.set()


def _setting(demand: Demand) -> Callable[[int, FrameType | None], None]:
    return lambda _number, _frame: demand.set()


def record(arguments: argparse.Namespace) -> int:
    """Record until the end is demanded; 1 when the disk has failed, or finished files could not be uploaded."""
    topics = ["*"] if arguments.all else arguments.topics
    if arguments.all == bool(arguments.topics):
        raise CommandError("say which topics to record: names and patterns, or --all")
    demands = _Demands()
    with demands.listening(), _attached(arguments, demands) as domain:
        try:
            given = {name: getattr(arguments, name) for name in _OPTIONS}
            options: Any = {name: value for name, value in given.items() if value is not None}
            recorder = Recorder(topics, arguments.output, exclude=arguments.exclude, domain=domain, **options)
        except ValueError as error:
            raise CommandError(str(error)) from None
        try:
            with recorder:
                _watch(recorder, demands, arguments)
        finally:
            if arguments.json:  # also when the disk has failed: the counters say what is in the files
                show_json(facts(recorder.stats(), recorder.paths))
    if not arguments.json and not arguments.quiet:
        say(*summary(recorder.stats(), recorder.paths, bool(arguments.snapshot)), flush=True)
    uploads = recorder.stats().uploads
    return int(uploads is not None and uploads.waiting + uploads.lost > 0)


def _attached(arguments: argparse.Namespace, demands: _Demands) -> Domain:
    """The domain: a program that only listens does not make it, and a number that is mistyped is told."""
    until = None if arguments.seconds is None else CLOCK.monotonic() + arguments.seconds
    told = arguments.quiet
    while True:
        try:
            return attach(arguments.domain)
        except DomainNotFound as error:
            if not arguments.wait:
                raise CommandError(f"{str(error).rstrip('.')}. --wait waits for the domain.") from None
            if not told:
                told = True
                warn(f"waiting for domain {arguments.domain}")
            if (until is not None and CLOCK.monotonic() >= until) or demands.end.wait(LOOK_S):
                raise CommandError(f"There was no domain {arguments.domain}, so nothing was recorded.") from None


def _watch(recorder: Recorder, demands: _Demands, arguments: argparse.Namespace) -> None:
    """Shows until the end how it goes, and does what is demanded."""
    until = None if arguments.seconds is None else CLOCK.monotonic() + arguments.seconds
    with keys() as pressed, Progress(arguments.quiet, arguments.json) as progress:
        progress.say(f"recording to {recorder.folder}; {HELP_KEYS if can_press() else HELP_SIGNALS}")
        told: set[str] = set()
        while not demands.end.wait(_left(until)):
            _tell_skipped(recorder, told, progress)
            if (until is not None and CLOCK.monotonic() >= until) or recorder.wait(0):
                return
            for key in pressed():
                demands.press(key)
            _serve(recorder, demands, progress)
            progress.show(recorder.stats())


def _tell_skipped(recorder: Recorder, told: set[str], progress: Progress) -> None:
    """Tells once for each topic that it is not recorded, with the reason."""
    for topic, reason in recorder.skipped.items():
        if topic not in told:
            progress.say(f"{topic} is not recorded: {reason}")
            told.add(topic)


def _left(until: float | None) -> float:
    return STEP_S if until is None else max(0.0, min(STEP_S, until - CLOCK.monotonic()))


def _serve(recorder: Recorder, demands: _Demands, progress: Progress) -> None:
    if demands.pause.is_set():
        demands.pause.clear()
        paused = recorder.stats().is_paused
        if paused:
            recorder.resume()
        else:
            recorder.pause()
        progress.say("going on" if paused else "paused")
    if demands.cut.is_set():
        demands.cut.clear()
        if recorder.settings.snapshot:
            progress.say(f"snapshot: {recorder.snapshot() or 'nothing came since the last one'}")
        else:
            progress.say(f"next file: {recorder.split()}")


# ---- how a recording goes: a line that changes on a terminal, and a line now and then elsewhere ----

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
