"""`rtmw topic pub`: publish by hand."""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

import rtmw
from rtmw.cli.common import CommandError
from rtmw.cli.show import show_json
from rtmw.cli.values import from_plain


def publish(arguments: argparse.Namespace) -> int:
    """Publish the value as often as asked; status 1 if any of it was refused."""
    value = read_value(arguments.type, arguments.value)
    with rtmw.Publisher(
        arguments.topic,
        arguments.type or bytes,
        domain=arguments.domain,
        priority=arguments.priority,
        lifetime=arguments.lifetime,
        reliability=rtmw.Reliability[arguments.reliability],
        history=arguments.history,
    ) as publisher:
        _wait(publisher, arguments)
        published = _repeat(publisher, value, arguments.count, 1 / arguments.rate)
    refused = arguments.count - published
    if arguments.json:
        show_json({"topic": arguments.topic, "published": published, "refused": refused})
    else:
        print(f"published {published} on {arguments.topic}" + (f", {refused} refused" if refused else ""))
    return 1 if refused else 0


def read_value(kind: Any, text: str) -> Any:
    """The text as bytes, or with a type the object that it describes in JSON."""
    if kind is None:
        return text.encode()
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
    published, next_s = 0, time.monotonic()
    for turn in range(count):
        if turn:
            next_s += pause_s
            time.sleep(max(0.0, next_s - time.monotonic()))
        published += publisher.publish(value)
    return published
