"""`rtmw log-lines`: the lines that programs log to topics (rtmw.LogHandler), of all programs in one order."""

from __future__ import annotations

import argparse
import logging
from datetime import datetime
from typing import Final

import rtmw
from rtmw import observe
from rtmw.cli.common import CommandError
from rtmw.cli.echo import LOOK_S, attached, say_missed
from rtmw.cli.endings import ends_in_order
from rtmw.cli.parsing import argument, count, natural, runs, seconds
from rtmw.cli.terminal import DIM, RED, YELLOW, say_coloured, show_json, warn
from rtmw.cli.values import to_plain
from rtmw.clock import CLOCK
from rtmw.text.patterns import topics_of

EVERYWHERE: Final = "log/#"
SILENT_S: Final = 2.0
"""Seconds without a line after which it is said which publishers are not matched, and which topics have none."""


def _level(text: str) -> int:
    names = logging.getLevelNamesMapping()
    found = names.get(text.upper(), int(text) if text.isdecimal() else None)
    if found is None:
        raise ValueError(f"{text} is no level of logging: {', '.join(names)}, or a number")
    return found


def add_arguments(parser: argparse.ArgumentParser) -> None:
    runs(parser, show_lines)
    help = f"a name, which may be on another host, or a pattern of topics here; default {EVERYWHERE}"
    parser.add_argument("topics", metavar="TOPIC", nargs="*", default=[EVERYWHERE], help=help)
    help = "only lines of this level or above"
    parser.add_argument("--level", type=argument(_level), default=logging.NOTSET, help=help)
    parser.add_argument("-n", "--count", type=count, help="lines to show (default: until SIGINT or SIGTERM)")
    parser.add_argument("--wait", action="store_true", help="wait for a topic that is not there yet")
    parser.add_argument("--timeout", type=seconds, help="give up after so many seconds without a line to show")
    help = "start with so many kept lines a topic (default 64)"
    parser.add_argument("--history", type=natural, default=64, help=help)


def show_lines(arguments: argparse.Namespace) -> int:
    """Print lines until the count, the timeout, SIGINT or SIGTERM."""
    shown = 0
    with (
        ends_in_order(),
        attached(arguments, arguments.topics, needs_name=False) as domain,
        rtmw.PatternSubscriber(
            arguments.topics,
            rtmw.LogLine,
            domain=domain,
            reliability=rtmw.Reliability.TIMELY,  # no program waits for this terminal
            depth=1024,
            history=arguments.history,
        ) as subscriber,
    ):
        silence = _Silence(subscriber, domain, arguments)
        try:
            while arguments.count is None or shown < arguments.count:
                domain.region.sweep_from_last_slot()
                try:
                    sample = subscriber.receive(LOOK_S)
                except TimeoutError:
                    if silence.is_over():
                        break
                    continue
                if sample.value.level >= arguments.level:
                    _show(sample, arguments.json)
                    silence.end()
                    shown += 1
                elif silence.is_over():
                    break
        finally:
            say_missed(subscriber)
    if arguments.timeout is not None and shown == 0:
        where = ", ".join(arguments.topics)
        raise CommandError(f"No line to show came on {where} within {arguments.timeout:g} s.")
    return 0


class _Silence:
    """How long nothing was shown."""

    def __init__(
        self, subscriber: rtmw.PatternSubscriber[rtmw.LogLine], domain: rtmw.Domain, arguments: argparse.Namespace
    ) -> None:
        self._subscriber, self._domain, self._timeout = subscriber, domain, arguments.timeout
        self._names = topics_of(arguments.topics).names
        self._is_told = False
        self.end()

    def end(self) -> None:
        self._since = CLOCK.monotonic()

    def is_over(self) -> bool:
        """Whether the timeout has passed. Says once which publishers do not log lines, and which topics, of those that
        are named, have no publisher."""
        passed = CLOCK.monotonic() - self._since
        if passed >= SILENT_S and not self._is_told and (causes := self._causes()):
            self._is_told = True
            warn(*causes)
        return self._timeout is not None and passed >= self._timeout

    def _causes(self) -> list[str]:
        has = {view.name for view in observe.topics(self._domain) if view.publishers} if self._names else set[str]()
        absent = [f"rtmw: nobody publishes on {name} yet" for name in self._names if name not in has]
        return [*(f"rtmw: not shown: {one}" for one in self._subscriber.stats().unheard), *absent]


def _show(sample: rtmw.Sample[rtmw.LogLine], as_json: bool) -> None:
    line = sample.value
    if as_json:
        return show_json({"topic": sample.topic, **to_plain(line)})
    if line.dropped:
        say_coloured(DIM, f"# {line.program}[{line.pid}] has dropped {line.dropped} lines")
    head = f"{_stamp(line.time)} {line.level_name:8} {line.program}[{line.pid}] {line.logger}: "
    first, *more = [*line.message.split("\n"), *line.exception.splitlines()]
    return say_coloured(_colour(line.level), head + first, *(f"  {one}" for one in more))


def _stamp(seconds: float) -> str:
    try:
        return datetime.fromtimestamp(seconds).isoformat(sep=" ", timespec="milliseconds")
    except (ValueError, OverflowError, OSError):  # any program may have published it
        return f"at {seconds:g} s"


def _colour(level: int) -> str:
    if level >= logging.ERROR:
        return RED
    return YELLOW if level >= logging.WARNING else "" if level >= logging.INFO else DIM
