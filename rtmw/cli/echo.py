"""`rtmw topic echo`: print messages as they come, without slowing anybody."""

from __future__ import annotations

import argparse
import sys
import time
from datetime import datetime
from typing import Any

import rtmw
from rtmw.cli.common import CommandError
from rtmw.cli.show import show_json
from rtmw.cli.values import fields, lines, pick, to_plain


def echo(arguments: argparse.Namespace) -> int:
    """Print messages until the count, the timeout or Ctrl-C."""
    shown = 0
    # TIMELY, so that no publisher waits for this terminal; what it was too slow for is said at the end.
    with rtmw.Subscriber(
        arguments.topic,
        rtmw.ANY,
        domain=arguments.domain,
        reliability=rtmw.Reliability.TIMELY,
        depth=1024,
        history=arguments.history,
    ) as subscriber:
        try:
            while arguments.count is None or shown < arguments.count:
                sample = _next(subscriber, arguments)
                if sample is None:
                    break
                shown += 1
        finally:
            _say_missed(subscriber.stats().missed)
    if arguments.timeout is not None and shown == 0:
        raise CommandError(f"No message to show came on {arguments.topic} within {arguments.timeout:g} s.")
    return 0


def _next(subscriber: rtmw.Subscriber[Any], arguments: argparse.Namespace) -> rtmw.Sample[Any] | None:
    """Print the next message that passes the filter; None if none came in time."""
    end = None if arguments.timeout is None else time.monotonic() + arguments.timeout
    while True:
        try:
            sample = subscriber.receive(None if end is None else max(0.0, end - time.monotonic()))
        except TimeoutError:
            return None
        plain = to_plain(sample.value)
        if arguments.filter is None or arguments.filter(plain):
            _print(sample, _field(plain, arguments), arguments.json)
            return sample


def _field(plain: Any, arguments: argparse.Namespace) -> Any:
    if arguments.field is None:
        return plain
    try:
        return pick(plain, arguments.field)
    except KeyError:
        has = ", ".join(fields(plain)) or "no fields"
        raise CommandError(f"A message on {arguments.topic} has no field {arguments.field}; it has {has}.") from None


def _print(sample: rtmw.Sample[Any], plain: Any, as_json: bool) -> None:
    if as_json:
        names = ("topic", "type_name", "sequence", "priority", "source_time_ns", "expires_ns", "publisher")
        show_json({**{name: getattr(sample, name) for name in names}, "value": plain})
        return
    stamp = datetime.fromtimestamp(sample.source_time_ns / 1e9).isoformat(sep=" ", timespec="microseconds")
    print(f"# {stamp}  {sample.topic}  {sample.type_name}  sequence {sample.sequence}  priority {sample.priority}")
    print("\n".join([*lines(plain), "---"]), flush=True)


def _say_missed(missed: int) -> None:
    if missed:
        print(f"rtmw: {missed} messages came faster than they could be printed and were missed.", file=sys.stderr)
