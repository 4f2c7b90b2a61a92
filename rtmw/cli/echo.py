"""`rtmw topic echo`: print the messages of a topic, or of all that a pattern means, as they come."""

from __future__ import annotations

import argparse
import json
import math
import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import rtmw
from rtmw import observe, shm
from rtmw.cli.common import CommandError, await_topic, find_topic
from rtmw.cli.endings import ends_in_order
from rtmw.cli.parsing import count, natural, runs, seconds
from rtmw.cli.terminal import say, show_json, warn
from rtmw.cli.values import lines, part_at, to_plain
from rtmw.clock import CLOCK
from rtmw.domain import Domain, domain_for_tool
from rtmw.errors import DomainNotFound
from rtmw.text.patterns import is_pattern, topics_of
from rtmw.types.text import Json, String, content

LOOK_S: Final = 0.5
"""Longest wait for a message: then an echo in the last place of the domain looks for the dead."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    runs(parser, echo)
    parser.add_argument("topic", help="a name, or a pattern such as 'pump/*', which also means topics that come later")
    parser.add_argument("-n", "--count", type=count, help="messages to print (default: until Ctrl-C)")
    help = "wait for a topic that is not there yet; one that is named may come from another host"
    parser.add_argument("--wait", action="store_true", help=help)
    parser.add_argument("--timeout", type=seconds, help="give up after so many seconds without a message to print")
    parser.add_argument("--field", metavar="a.b", help="print only this field of the value")
    parser.add_argument(
        "--filter",
        type=Filter.parse,
        metavar="'a.b > 5'",
        help="print only messages of which this is true; operators: == != < <= > >=",
    )
    parser.add_argument("--history", type=natural, default=1, help="start with so many kept messages (default 1)")


def echo(arguments: argparse.Namespace) -> int:
    """Print messages until the count, the timeout or Ctrl-C."""
    shown = 0
    # TIMELY, so that no publisher waits for this terminal; what it was too slow for is said at the end.
    with (
        ends_in_order(),
        attached(arguments, [arguments.topic], needs_name=True) as domain,
        _subscriber(domain, arguments) as subscriber,
    ):
        sieve = _Sieve(domain, arguments)
        try:
            while arguments.count is None or shown < arguments.count:
                sample = _next(domain, subscriber, sieve, arguments)
                if sample is None:
                    break
                shown += 1
        finally:
            say_missed(subscriber)
    if arguments.timeout is not None and shown == 0:
        raise CommandError(f"No message to show came on {arguments.topic} within {arguments.timeout:g} s.")
    return 0


Echoed = rtmw.Subscriber[Any] | rtmw.PatternSubscriber[Any]


def _subscriber(domain: Domain, arguments: argparse.Namespace) -> Echoed:
    made: Any = rtmw.PatternSubscriber if is_pattern(arguments.topic) else rtmw.Subscriber
    subscriber: Echoed = made(
        arguments.topic,
        rtmw.ANY,
        domain=domain,
        reliability=rtmw.Reliability.TIMELY,
        depth=1024,
        history=arguments.history,
    )
    return subscriber


def attached(arguments: argparse.Namespace, wanted: Sequence[str], *, needs_name: bool) -> Domain:
    """Returns the domain, which the command does not make. Patterns alone have to mean a topic that is there. A name
    need not be there, since a node lets a topic cross once somebody here subscribes to it; `needs_name`: unless
    `--wait` is given a name has to be there, too, so that a mistyped one is told."""
    topics_of(wanted)
    for one in wanted:
        if not is_pattern(one) and not shm.is_topic_name(one):
            raise CommandError(f"{one!r} cannot be the name of a topic, and is no pattern of topics.")
    has_name = not all(map(is_pattern, wanted))
    if arguments.wait:
        return await_topic(arguments.domain, [] if has_name else wanted, arguments.timeout, domain_for_tool)
    try:
        domain = domain_for_tool(arguments.domain)
        if has_name and needs_name:
            find_topic(domain, arguments.domain, wanted[0])
        elif not has_name and not _types(domain, wanted):
            raise CommandError(f"No topic of domain {arguments.domain} is meant by {', '.join(wanted)}.")
    except (DomainNotFound, CommandError) as error:
        told = str(error) if str(error).endswith((".", "?")) else f"{error}."
        awaited = "domain" if has_name and not needs_name else "topic"
        raise CommandError(f"{told} --wait waits for the {awaited}.") from None
    return domain


def _types(domain: Domain, topics: str | Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The types of each topic that is there, and meant by these names and patterns."""
    wanted = topics_of(topics)
    return {view.name: view.types for view in observe.topics(domain) if wanted.take(view.name)}


class _Sieve:
    """Says which messages are shown. A filter that none can pass is an error, not silence."""

    def __init__(self, domain: Domain, arguments: argparse.Namespace) -> None:
        self._domain = domain
        self._arguments = arguments
        self._hopeless: set[str] = set()
        """Types of which no message can pass."""

    def __call__(self, type_name: str, plain: Any) -> bool:
        wanted: Filter | None = self._arguments.filter
        if wanted is None or wanted(plain):
            return True
        # each message of `dict` has other members
        is_known = type_name in self._hopeless or type_name == Json.__idl_typename__
        fault = None if is_known else wanted.fault(plain)
        if fault is not None:
            self._hopeless.add(type_name)
            self._tell(type_name, fault)
        return False

    def _tell(self, type_name: str, fault: str) -> None:
        """An error if the topic has no other type, of which a message may pass."""
        topic = self._arguments.topic
        if {name for types in _types(self._domain, topic).values() for name in types} <= self._hopeless:
            raise CommandError(f"A message on {topic} {fault}.")
        warn(f"rtmw: messages of type {type_name} are not shown: one {fault}.")


def _next(domain: Domain, subscriber: Echoed, sieve: _Sieve, arguments: argparse.Namespace) -> rtmw.Sample[Any] | None:
    """Print the next message that passes the filter; None if none came in time."""
    end = None if arguments.timeout is None else CLOCK.monotonic() + arguments.timeout
    while True:
        domain.region.sweep_from_last_slot()
        left = math.inf if end is None else max(0.0, end - CLOCK.monotonic())
        try:
            sample = subscriber.receive(min(left, LOOK_S))
        except TimeoutError:
            if left <= LOOK_S:
                return None
            continue
        plain = to_plain(content(sample.type_name, sample.value))
        # the member of a `str` is ROS's `data`
        searched = to_plain(sample.value) if sample.type_name == String.__idl_typename__ else plain
        if sieve(sample.type_name, searched):
            shown = plain if arguments.field is None else _field(searched, arguments)
            _print(sample, shown, arguments.json)
            return sample


def _field(plain: Any, arguments: argparse.Namespace) -> Any:
    part = part_at(plain, arguments.field)
    if part.lack is not None:
        raise CommandError(f"A message on {arguments.topic} has no field {arguments.field}; {part.lack}.")
    return part.value


def _print(sample: rtmw.Sample[Any], plain: Any, as_json: bool) -> None:
    if as_json:
        names = ("sequence", "priority", "source_time_ns", "expires_ns", "publisher")
        about = {"topic": sample.topic, "type_name": sample.type_name}
        show_json({**about, **{name: getattr(sample, name) for name in names}, "value": plain})
        return
    stamp = datetime.fromtimestamp(sample.source_time_ns / 1e9).isoformat(sep=" ", timespec="microseconds")
    say(f"# {stamp}  {sample.topic}  {sample.type_name}  sequence {sample.sequence}  priority {sample.priority}")
    say(*lines(plain), "---", flush=True)


def say_missed(subscriber: Echoed) -> None:
    skipped = subscriber.skipped if isinstance(subscriber, rtmw.PatternSubscriber) else {}
    if skipped:
        warn(f"rtmw: {len(skipped)} topics are not shown: {next(iter(skipped.values()))}")
    if missed := subscriber.stats().missed:
        warn(f"rtmw: {missed} messages came faster than they could be printed and were missed.")


OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}
FORM = re.compile(r"\s*([\w.]+)\s*(==|!=|<=|>=|<|>)\s*(.+?)\s*")


@dataclass(frozen=True)
class Filter:
    """True of plain data whose field compares so with the value."""

    field: str
    operator: str
    value: Any

    @classmethod
    def parse(cls, text: str) -> Filter:
        """Read `field operator value`; a value that is no JSON is text."""
        match = FORM.fullmatch(text)
        if match is None:
            raise argparse.ArgumentTypeError(f"{text!r} is not of the form: field operator value")
        field, comparison, value = match.groups()
        try:
            return cls(field, comparison, json.loads(value))
        except ValueError:
            return cls(field, comparison, value)

    def __call__(self, plain: Any) -> bool:
        """False as well if there is no such field, or if it cannot be compared with the value."""
        part = part_at(plain, self.field)
        return part.lack is None and self._compare(part.value) is True

    def fault(self, plain: Any) -> str | None:
        """Why no message of this one's type can pass, as the end of a sentence; None if one may."""
        part = part_at(plain, self.field)
        if part.varies:
            return None
        if part.lack is not None:
            return f"has no field {self.field}; {part.lack}"
        if part.value is not None and self._compare(part.value) is None:
            return f"has {part.value!r} as {self.field}, which is neither above nor below {self.value!r}"
        return None

    def _compare(self, found: Any) -> bool | None:
        """Compares a value that was found with the filter's. None: the two cannot be compared so."""
        try:
            return bool(OPERATORS[self.operator](found, self.value))
        except TypeError:
            return None
