"""`rtmw topic echo`: print messages of a topic, or of a pattern of topics, as they come, without slowing anybody."""

from __future__ import annotations

import argparse
import math
from datetime import datetime
from typing import Any, Final

import rtmw
from rtmw import observe, shm
from rtmw.cli.common import CommandError, await_topic, find_topic
from rtmw.cli.filters import Filter
from rtmw.cli.show import say, show_json, warn
from rtmw.cli.values import lines, part_at, to_plain
from rtmw.clock import CLOCK
from rtmw.domain import Domain, domain_for_tool
from rtmw.errors import DomainNotFound
from rtmw.patterns import is_pattern, topics_of
from rtmw.types.text import Json, String, content

LOOK_S: Final = 0.5
"""Longest wait for a message: then an echo in the last place of the domain looks for the dead."""


def echo(arguments: argparse.Namespace) -> int:
    """Print messages until the count, the timeout or Ctrl-C."""
    shown = 0
    # TIMELY, so that no publisher waits for this terminal; what it was too slow for is said at the end.
    with (
        _attached(arguments) as domain,
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
            _say_missed(subscriber)
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


def _attached(arguments: argparse.Namespace) -> Domain:
    """The domain, which has the topic: a command that only looks makes neither, and a mistyped name is told."""
    topics_of(arguments.topic)
    if not is_pattern(arguments.topic) and not shm.is_topic_name(arguments.topic):
        raise CommandError(f"{arguments.topic!r} cannot be the name of a topic, and is no pattern of topics.")
    if arguments.wait:
        return await_topic(arguments.domain, arguments.topic, arguments.timeout, domain_for_tool)
    try:
        domain = domain_for_tool(arguments.domain)
        if not is_pattern(arguments.topic):
            find_topic(domain, arguments.domain, arguments.topic)
        elif not _types(domain, arguments.topic):
            raise CommandError(f"No topic of domain {arguments.domain} is meant by {arguments.topic}.")
    except (DomainNotFound, CommandError) as error:
        told = str(error) if str(error).endswith((".", "?")) else f"{error}."
        raise CommandError(f"{told} --wait waits for the topic.") from None
    return domain


def _types(domain: Domain, topic: str) -> dict[str, tuple[str, ...]]:
    """The types of each topic that is there, and meant by this name or pattern."""
    wanted = topics_of(topic)
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


def _say_missed(subscriber: Echoed) -> None:
    skipped = subscriber.skipped if isinstance(subscriber, rtmw.PatternSubscriber) else {}
    if skipped:
        warn(f"rtmw: {len(skipped)} topics are not shown: {next(iter(skipped.values()))}")
    if missed := subscriber.stats().missed:
        warn(f"rtmw: {missed} messages came faster than they could be printed and were missed.")
