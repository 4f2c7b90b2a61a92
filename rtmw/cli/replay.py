"""`rtmw replay`: let recordings flow again."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from rtmw.cli.common import CommandError
from rtmw.cli.endings import ends_in_order
from rtmw.cli.parsing import count, moment, natural, positive, rate, runs, seconds, seconds_or_0
from rtmw.cli.sources import PARTLY, add_strict, over_readable
from rtmw.cli.terminal import Line, counted, duration, has_terminal, is_seen, keys, line, say, show_json, size, warn
from rtmw.clock import CLOCK
from rtmw.player import Replay, ReplayStats
from rtmw.qos import PRIORITIES, Reliability
from rtmw.recording.files import find_recordings
from rtmw.text.units import some_seconds

LOOK_S: Final = 0.1
JUMP_S: Final = 10.0
HELP: Final = "space: pause, . : next message, ← →: 10 s, ↑ ↓: rate, q: end"


CLOCK_HZ: Final = 40.0
"""Messages on the topic `clock` a second of the recording, as many as rosbag2 publishes."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    runs(parser, replay)
    parser.add_argument("paths", nargs="+", metavar="PATH", help="recordings, folders or patterns, played as one")
    parser.add_argument("--rate", type=rate, default=1.0, metavar="N", help="times real time; max: as fast as taken")
    parser.add_argument("--start", type=moment, metavar="MOMENT", help="seconds since it began, or date and time (UTC)")
    parser.add_argument("--start-offset", type=moment, dest="start", metavar="SECONDS", help="--start, as rosbag2 says")
    parser.add_argument("--end", type=moment, metavar="MOMENT", help="likewise; default: to the end")
    parser.add_argument("--loop", action="store_true", help="again and again")
    parser.add_argument("--topics", nargs="+", metavar="PATTERN", help="default: all, but those of rtmw itself")
    parser.add_argument("--remap", nargs="+", type=renaming, metavar="OLD=NEW", help="play topics under other names")
    parser.add_argument("--fresh", action="store_true", help="with source times of now instead of the recorded ones")
    parser.add_argument(
        "--qos",
        nargs="+",
        type=quality,
        metavar="PATTERN:NAME=VALUE,...",
        help="QoS other than recorded",
    )
    parser.add_argument("--max-blocking", type=seconds_or_0, metavar="SECONDS", help="for full RELIABLE subscribers")
    parser.add_argument(
        "--spin", type=seconds_or_0, metavar="TIME", help="awake before each message; 0: none (learned)"
    )
    parser.add_argument(
        "--clock",
        nargs="?",
        type=positive,
        const=CLOCK_HZ,
        metavar="HZ",
        help=f"publish the recording's time on the topic clock, so many times in a second of it ({CLOCK_HZ:g})",
    )
    parser.add_argument("--wait", type=count, metavar="N", help="first wait until each topic has N subscribers")
    parser.add_argument("--timeout", type=seconds, metavar="SECONDS", help="to wait for them (default: for ever)")
    parser.add_argument("--paused", action="store_true", help="wait for a key")
    add_strict(parser)


def renaming(text: str) -> tuple[str, str]:
    """OLD=NEW."""
    old, equals, new = text.partition("=")
    if not (old and equals and new):
        raise argparse.ArgumentTypeError(f"{text} is no renaming: OLD=NEW")
    return old, new


def quality(text: str) -> tuple[str, dict[str, Any]]:
    """PATTERN:name=value,name=value."""
    pattern, colon, settings = text.rpartition(":")
    if not (pattern and colon and settings):
        raise argparse.ArgumentTypeError(f"{text} is no QoS: PATTERN:reliability=RELIABLE,history=1")
    options: dict[str, Any] = {}
    for setting in settings.split(","):
        name, _, value = setting.partition("=")
        options[name] = _setting(name, value)
    return pattern, options


def _setting(name: str, value: str) -> Any:
    try:
        match name:
            case "reliability":
                return Reliability[value.upper()]
            case "lifetime":
                return None if value == "none" else some_seconds(value)
            case "priority" | "depth" | "history":
                return natural(value)
            case _:
                pass
    except KeyError:
        known = ", ".join(item.name for item in Reliability)
        raise argparse.ArgumentTypeError(f"{name}={value} is not possible; there are {known}") from None
    except (ValueError, argparse.ArgumentTypeError) as error:
        raise argparse.ArgumentTypeError(f"{name}={value} is not possible: {error}") from None
    known = f"priority (0 to {PRIORITIES - 1}), lifetime, reliability, depth, history"
    raise argparse.ArgumentTypeError(f"{name} cannot be changed; there are {known}")


def replay(arguments: argparse.Namespace) -> int:
    """Play to the end, or until it is asked to end; status 1 if messages could not be published, 3 if recordings were
    left out."""
    try:
        paths = find_recordings(arguments.paths)
    except OSError as error:
        raise CommandError(str(error)) from error
    opened, status = over_readable(paths, arguments.strict, lambda readable: _opened(readable, arguments))
    with ends_in_order(), opened as playing:
        for topic, reason in playing.skipped.items():
            warn(f"rtmw: {topic} is not played: {reason}")
        if not playing.topics:
            why = "none of the topics can be played" if playing.skipped else "no topics, or only those of rtmw"
            raise CommandError(f"There is nothing to play in {', '.join(arguments.paths)}: {why}.")
        if playing.position > playing.duration:
            ends = f"the recording ends {playing.duration:g} s after it began"
            warn(f"rtmw: {ends}, before --start: only what was valid then is published.")
        _await_subscribers(playing, arguments)
        began = CLOCK.monotonic()
        try:  # from here on something is published, and said
            if not arguments.paused:
                playing.play()
            _follow(playing)
        finally:
            playing.pause()  # from here on nothing is published that would not be counted
            stats = playing.stats()
            for topic, reasons in playing.refused.items():
                nobody = counted(stats.topics[topic].unheard, "message")
                warn(f"rtmw: {topic}: nobody could take {nobody}: {'; '.join(reasons)}")
            for what in playing.left_out:
                warn(f"rtmw: left out: {what}")
            _report(stats, CLOCK.monotonic() - began, arguments.json)
        status = PARTLY if playing.left_out else status
    return 1 if sum(count for cause, count in stats.dropped.items() if cause != "expired") else status


def _opened(paths: list[Path], arguments: argparse.Namespace) -> Replay:
    try:
        return Replay(
            paths,
            rate=arguments.rate,
            start=arguments.start,
            end=arguments.end,
            loop=arguments.loop,
            topics=arguments.topics,
            remap=dict(arguments.remap or ()),
            stamps="fresh" if arguments.fresh else "original",
            qos=dict(arguments.qos or ()),
            max_blocking=arguments.max_blocking,
            spin=arguments.spin,
            clock=arguments.clock,
            strict=arguments.strict,
            domain=arguments.domain,
        )
    except (OSError, ValueError) as error:
        raise CommandError(str(error)) from error


def _await_subscribers(playing: Replay, arguments: argparse.Namespace) -> None:
    if arguments.wait is not None and not playing.wait_for_subscribers(arguments.wait, arguments.timeout):
        wanted = counted(arguments.wait, "subscriber")
        raise CommandError(f"Not every topic has {wanted} after {arguments.timeout:g} s; nothing was published.")


def _follow(playing: Replay) -> None:
    """Show how far it is, and do what the keys say; where there is nobody, leave the processor to the player."""
    if not (has_terminal() or is_seen()):
        playing.wait()
        return
    session = _Session(playing)
    with keys() as pressed, line() as shown:
        while not playing.wait(LOOK_S):
            session.show(shown)
            for key in pressed():
                session.press(key)
            if session.over:
                return


class _Session:
    """A person at the keyboard."""

    def __init__(self, playing: Replay) -> None:
        self._playing = playing
        self.over = False
        self._keys: dict[str, Callable[[], None]] = {
            "space": self._toggle,
            ".": playing.step,
            "right": lambda: self._jump(JUMP_S),
            "left": lambda: self._jump(-JUMP_S),
            "up": lambda: self._faster(2.0),
            "down": lambda: self._faster(0.5),
            "q": self._end,
        }

    def press(self, key: str) -> None:
        self._keys.get(key, lambda: None)()

    def show(self, shown: Line) -> None:
        playing, stats = self._playing, self._playing.stats()
        rate = "as fast as taken" if playing.rate is None else f"× {playing.rate:g}"
        state = "paused" if playing.paused else rate
        where = f"{playing.position:.1f} of {playing.duration:.1f} s, {state}"
        shown(f"{where}, {counted(stats.published, 'message')}, {size(stats.bytes)}   {HELP}")

    def _toggle(self) -> None:
        if self._playing.paused:
            self._playing.resume()
        else:
            self._playing.pause()

    def _jump(self, seconds: float) -> None:
        self._playing.seek(max(0.0, self._playing.position + seconds))

    def _faster(self, factor: float) -> None:
        if self._playing.rate is not None:
            self._playing.rate = min(max(self._playing.rate * factor, 1 / 64), 1024.0)

    def _end(self) -> None:
        self.over = True


def _report(stats: ReplayStats, seconds: float, as_json: bool) -> None:
    dropped = {cause: count for cause, count in stats.dropped.items() if count}
    if as_json:
        facts = {"published": stats.published, "bytes": stats.bytes, "dropped": dropped, "unheard": stats.unheard}
        timing = {"lateness": stats.lateness.summary(), "overslept": stats.overslept.summary(), "spun": stats.spun}
        show_json({**facts, **timing})
        return
    late = duration(stats.lateness.percentile(99))
    say(
        f"published {counted(stats.published, 'message')}, {size(stats.bytes)}, in {seconds:.1f} s"
        + (f"; 99 % within {late} of their time" if late else "")
        + (f"; nobody could take {stats.unheard}" if stats.unheard else "")
        + "".join(f"; {count} {cause.replace('_', ' ')}" for cause, count in dropped.items())
    )
