"""`rtmw topic pub`: publish by hand."""

from __future__ import annotations

import argparse
import json
import shlex
import time
from collections.abc import Sequence
from dataclasses import is_dataclass
from typing import Any

import rtmw
from rtmw import observe
from rtmw.cli.common import CommandError, look_at
from rtmw.cli.parsing import count, natural, positive, runs, seconds
from rtmw.cli.terminal import counted, say, show_json, warn
from rtmw.cli.values import from_plain, load_type, parse
from rtmw.clock import CLOCK
from rtmw.errors import DomainNotFound, UnsupportedType
from rtmw.qos import PRIORITIES, Reliability
from rtmw.types import resolve
from rtmw.types.plain import maker


def add_arguments(parser: argparse.ArgumentParser) -> None:
    runs(parser, publish)
    parser.add_argument("topic")
    parser.add_argument(
        "value", help="JSON for the type that the topic carries; text where it carries none, bytes, str"
    )
    types = parser.add_mutually_exclusive_group()
    types.add_argument(
        "--type",
        type=load_type,
        metavar="MODULE:CLASS",
        help="or str, dict (default: what the topic carries)",
    )
    types.add_argument("--bytes", action="store_true", help="publish the text as bytes, whatever the topic carries")
    parser.add_argument("--rate", type=positive, default=1.0, help="messages a second (default 1)")
    parser.add_argument("--count", type=count, default=1, help="messages to publish (default 1)")
    parser.add_argument("--priority", type=natural, choices=range(PRIORITIES), default=0)
    parser.add_argument("--lifetime", type=seconds, help="seconds after which a message is no longer delivered")
    parser.add_argument("--reliability", choices=[item.name for item in Reliability], default=Reliability.ADAPTIVE.name)
    parser.add_argument("--history", type=natural, default=1, help="messages kept for late subscribers (default 1)")
    parser.add_argument("--wait", type=count, metavar="N", help="first wait for N subscribers")
    parser.add_argument("--timeout", type=seconds, help="seconds to wait for them (default: for ever)")


def publish(arguments: argparse.Namespace) -> int:
    """Publish the value as often as asked, and say for how many subscribers; status 1 if any of it was refused."""
    kind, value = _message(arguments)
    with rtmw.Publisher(
        arguments.topic,
        kind,
        domain=arguments.domain,
        priority=arguments.priority,
        lifetime=arguments.lifetime,
        reliability=rtmw.Reliability[arguments.reliability],
        history=arguments.history,
    ) as publisher:
        _wait(publisher, arguments)
        matched = publisher.subscribers
        published = _repeat(publisher, value, arguments.count, 1 / arguments.rate)
        stats = publisher.stats()
    matched, refused = max(matched, stats.subscribers), arguments.count - published
    if arguments.json:
        show_json({"topic": arguments.topic, "published": published, "refused": refused, "subscribers": matched})
    else:
        told = f"published {published} on {arguments.topic} for {counted(matched, 'subscriber')}"
        say(told + (f", {refused} refused" if refused else ""))
    for one in stats.in_the_way if refused else ():
        warn(f"rtmw: in the way is {one}")
    if not matched:
        _warn(arguments, stats.refused)
    return 1 if refused else 0


def _warn(arguments: argparse.Namespace, refused: Sequence[str]) -> None:
    """Warns that nobody subscribes, which would look like success, and why those who are there are not matched."""
    told = f"rtmw: no subscriber of {arguments.topic} in domain {arguments.domain} is matched"
    told += ":" if refused else f"; rtmw topic info {shlex.quote(arguments.topic)} shows who is there."
    warn(told, *(f"  {one}" for one in refused))


def _message(arguments: argparse.Namespace) -> tuple[Any, Any]:
    """Type and value: as the options say, else of the type that the topic carries; bytes where it carries none."""
    if is_dataclass(arguments.type):
        return arguments.type, read_value(arguments.type, arguments.value)
    if arguments.type is not None:
        kind = resolve(arguments.type)
        return _described(arguments, kind.name, kind.description)
    carried = [] if arguments.bytes else _carried(arguments.domain, arguments.topic)
    if len(carried) > 1:
        names = ", ".join(name for name, _ in carried)
        advice = "name one with --type, or publish bytes with --bytes."
        raise CommandError(f"{arguments.topic} carries {len(carried)} types, {names}: {advice}")
    name, description = carried[0] if carried else ("bytes", None)
    if description is None:
        return bytes, arguments.value.encode()
    return _described(arguments, name, description)


def _carried(number: int, topic: str) -> list[tuple[str, bytes | None]]:
    try:
        with look_at(number) as domain:
            return observe.types_in_use(domain, topic)
    except DomainNotFound:
        return []


def _described(arguments: argparse.Namespace, name: str, description: bytes) -> tuple[Any, Any]:
    """A value of the type that the topic carries, by its description in the region."""
    try:
        kind, make = maker(description)
    except UnsupportedType as error:
        raise CommandError(f"{arguments.topic} carries {name}. {error}: name it with --type.") from error
    try:
        plain = parse(kind, arguments.value)
    except ValueError as error:
        told = f"{arguments.topic} carries {name}, and {arguments.value!r} is no JSON: {error}"
        raise CommandError(f"{told}. --bytes publishes the text as bytes.") from error
    return kind, make(plain)


def read_value(kind: Any, text: str) -> Any:
    """The object of a class that the text describes in JSON."""
    try:
        return from_plain(kind, json.loads(text))
    except (ValueError, TypeError) as error:
        raise CommandError(f"This is no {kind.__name__}: {error}") from error


def _wait(publisher: rtmw.Publisher[Any], arguments: argparse.Namespace) -> None:
    if arguments.wait is not None and not publisher.wait_for_subscribers(arguments.wait, arguments.timeout):
        raise CommandError(
            f"{arguments.topic} has {publisher.subscribers} of {arguments.wait} subscribers after"
            f" {arguments.timeout:g} s; nothing was published."
        )


def _repeat(publisher: rtmw.Publisher[Any], value: Any, count: int, pause_s: float) -> int:
    published, next_s = 0, CLOCK.monotonic()
    for turn in range(count):
        if turn:
            next_s += pause_s
            time.sleep(max(0.0, next_s - CLOCK.monotonic()))
        published += publisher.publish(value)
    return published
