"""`rtmw log replay`: the records of a log flow again, each so long after the first as it was appended after it."""

from __future__ import annotations

import argparse
import time
from contextlib import ExitStack
from typing import Any, Final

import rtmw
from rtmw.cli.common import CommandError
from rtmw.cli.endings import ends_in_order
from rtmw.cli.log import add_log, beginning, open_log, start_of
from rtmw.cli.parsing import natural, rate, runs, seconds
from rtmw.cli.terminal import counted, say, show_json, size
from rtmw.clock import CLOCK
from rtmw.types import carried_type

BLOCKING_S: Final = 1.0
DEPTH: Final = 4096


def add_replay(parser: argparse.ArgumentParser) -> None:
    runs(parser, replay_command)
    add_log(parser)
    parser.add_argument(
        "--topic", metavar="TOPIC", help="where to (default: each record's key, as `rtmw log store` has it)"
    )
    parser.add_argument("--rate", type=rate, default=1.0, metavar="N", help="times real time; max: as fast as taken")
    help = "a position, or date and time (UTC); default: the first record"
    parser.add_argument("--start", type=beginning, metavar="START", help=help)
    parser.add_argument(
        "--wait", type=natural, default=0, metavar="N", help="first wait until each topic has N subscribers"
    )
    parser.add_argument("--timeout", type=seconds, metavar="SECONDS", help="to wait for them (default: for ever)")


def replay_command(arguments: argparse.Namespace) -> int:
    """Publishes to the end that the log has now."""
    with ends_in_order(), ExitStack() as open_:
        try:
            with open_log(arguments) as log:  # of a type without its class: payloads pass through as they are
                kind: Any = carried_type(log.type.description)
            log = open_.enter_context(open_log(arguments, kind))
        except (OSError, ValueError) as error:
            raise CommandError(str(error)) from None
        player = _Player(arguments, kind, open_)
        try:
            for record in log.read(start_of(arguments.start)):
                player.play(record)
        except ValueError as error:
            raise CommandError(str(error)) from None
        finally:
            player.report()
    return 0


class _Player:
    """Has a publisher for each topic."""

    def __init__(self, arguments: argparse.Namespace, kind: Any, open_: ExitStack) -> None:
        self._arguments, self._kind, self._open = arguments, kind, open_
        self._publishers: dict[str, rtmw.Publisher[Any]] = {}
        self._first: tuple[int, float] | None = None
        self.messages = self.bytes = 0

    def play(self, record: rtmw.LogRecord[Any]) -> None:
        """Publishes a record at its time. It waits for a RELIABLE subscriber whose queue is full."""
        publisher = self._publisher(self._topic(record))
        self._wait(record.time_ns)
        value = record.value
        while not publisher.publish(value):
            if publisher.stats().exhausted and not publisher.subscribers:
                raise CommandError(f"The pool of domain {self._arguments.domain} has no room for this message.")
        self.messages += 1
        self.bytes += len(record.data)

    def _topic(self, record: rtmw.LogRecord[Any]) -> str:
        topic = self._arguments.topic or record.key
        if not isinstance(topic, str):
            raise CommandError(
                f"The record at {record.position} has no topic for a key ({record.key!r}): name one with --topic."
            )
        return topic

    def _publisher(self, topic: str) -> rtmw.Publisher[Any]:
        if topic not in self._publishers:
            made: rtmw.Publisher[Any] = rtmw.Publisher(
                topic,
                self._kind,
                domain=self._arguments.domain,
                reliability=rtmw.Reliability.RELIABLE,
                depth=DEPTH,
                max_blocking=BLOCKING_S,
            )
            self._publishers[topic] = self._open.enter_context(made)
            self._await_subscribers(made, topic)
        return self._publishers[topic]

    def _await_subscribers(self, publisher: rtmw.Publisher[Any], topic: str) -> None:
        wanted, timeout = self._arguments.wait, self._arguments.timeout
        if wanted and not publisher.wait_for_subscribers(wanted, timeout):
            raise CommandError(f"{topic} does not have {counted(wanted, 'subscriber')} after {timeout:g} s.")

    def _wait(self, time_ns: int) -> None:
        """Times may go back, where the clock did: such a record is published at once."""
        now = CLOCK.monotonic()
        if self._first is None:
            self._first = time_ns, now
        elif self._arguments.rate is not None:
            first_ns, began = self._first
            due = began + (time_ns - first_ns) / 1e9 / self._arguments.rate
            time.sleep(max(0.0, due - now))

    def report(self) -> None:
        if self._arguments.json:
            show_json({"published": self.messages, "bytes": self.bytes, "topics": sorted(self._publishers)})
        else:
            say(f"published {counted(self.messages, 'message')}, {size(self.bytes)}")
