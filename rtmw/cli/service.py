"""`rtmw service list|call`: which services there are, and a request by hand."""

from __future__ import annotations

import argparse
import json
from typing import Any, Final

import rtmw
from rtmw import observe
from rtmw.cli.common import CommandError, attach, look_at, meant
from rtmw.cli.parsing import Commands, runs, seconds
from rtmw.cli.terminal import Table, counted, say, show, show_json
from rtmw.cli.values import lines, to_plain
from rtmw.types import shown_name
from rtmw.types.message_type import read_document
from rtmw.types.text import Json, content

TEXTS: Final = {"string": str, "bytes": bytes, "rtmw::Json": dict}
"""Types of values that are given as they are, by the word for what they travel in."""


COMMANDS: Final[Commands] = {
    "list": ("service:add_list", "list the services of the domain"),
    "call": ("service:add_call", "send a request by hand, and print the replies as they come"),
}


def add_list(parser: argparse.ArgumentParser) -> None:
    runs(parser, list_services)
    parser.add_argument("--names", action="store_true", help="only their names, one a line")


def add_call(parser: argparse.ArgumentParser) -> None:
    runs(parser, call)
    parser.add_argument("called", metavar="NAME", help="of the service")
    parser.add_argument("value", metavar="JSON", help="the request, for the type that the service takes")
    parser.add_argument("--timeout", type=seconds, default=5.0, help="seconds to wait for the last reply (default 5)")


def list_services(arguments: argparse.Namespace) -> int:
    """Print the services that are served here, or called from here."""
    with look_at(arguments.domain) as domain:
        views = {view.name: view for view in observe.topics(domain)}
        names = _served(views)
        rows = [_row(domain, name, views) for name in names]
    if arguments.names:
        for name in names:
            say(name)
    elif arguments.json:
        show_json([dict(zip(_COLUMNS, row, strict=True)) for row in rows])
    else:
        show(Table(f"Domain {arguments.domain}: {counted(len(rows), 'service')}", _COLUMNS, rows))
    return 0


_COLUMNS: Final = ("service", "served by", "request", "reply", "clients", "waiting")


def _served(views: dict[str, observe.TopicView]) -> list[str]:
    """The names of the services of a domain; a replay of one has nobody who reads its requests."""
    from rtmw.requests.wire import request_topic, server_topic  # asyncio and more: only when it runs

    end = server_topic("")
    signs = [name.removesuffix(end) for name, view in views.items() if name.endswith(end) and view.publishers]
    return [name for name in signs if _readers(views.get(request_topic(name)))]


def _row(domain: rtmw.Domain, name: str, views: dict[str, observe.TopicView]) -> tuple[Any, ...]:
    """`clients`: processes here, and nodes."""
    from rtmw.requests import wire

    sign, asked = views[wire.server_topic(name)], views.get(wire.request_topic(name))
    topics = wire.request_topic(name), wire.server_topic(name)
    types = [", ".join(_value_of(*one)[0] for one in observe.types_in_use(domain, topic)) for topic in topics]
    prefix = wire.reply_topic(name, 0)[:-1]
    clients = sum(bool(_readers(view)) for one, view in views.items() if one.startswith(prefix) and view != sign)
    programs = {f"{observe.program(view.process)} ({view.pid})" for view in sign.publishers}
    waiting = sum(view.behind for view in _readers(asked))
    return (name, ", ".join(sorted(programs)), *types, clients, waiting)


def _readers(view: observe.TopicView | None) -> list[observe.SubscriberView]:
    """Subscribers of a topic that take what it is for, and not any type, as a recorder does."""
    return [one for one in view.subscribers if one.type_name != "*"] if view else []


def _value_of(struct: str, description: bytes | None) -> tuple[str, type | None]:
    """The type of the values that a struct carries: its name, and it itself, if it is one of TEXTS."""
    fields: Any = read_document(description).get("fields") if description else None
    try:
        carried = fields[-1][1]["optional"]
        if not isinstance(carried, str):
            carried = carried.get("type") or f"{carried['sequence']}[]"
    except (LookupError, TypeError, AttributeError):  # no struct of a request or a reply
        carried = None
    if not isinstance(carried, str):
        return struct, None
    kind = TEXTS.get(carried)
    return (kind.__name__ if kind else shown_name(carried)), kind


def call(arguments: argparse.Namespace) -> int:
    """Print each reply; status 1 where there is none, with the reason."""
    from rtmw.requests import wire

    name, domain = arguments.called, attach(arguments.domain)
    request, asks = _envelope(domain, name, wire.request_topic(name))
    reply, answers = _envelope(domain, name, wire.server_topic(name))
    value = _value(name, asks, arguments.value)
    with domain, rtmw.Client(name, request=request, reply=reply, domain=domain) as client:
        client.wait(timeout=min(arguments.timeout, 1.0))
        with client.stream(value, timeout=arguments.timeout) as stream:
            for answer in stream:
                plain = to_plain(content(Json.__idl_typename__, answer) if answers[1] is dict else answer)
                if arguments.json:
                    show_json(plain)
                else:
                    say(*lines(plain), "---", flush=True)
    return 0


def _value(name: str, asks: tuple[str, type | None], text: str) -> Any:
    """The request that a text stands for: its JSON; for `str` and `bytes` any text but a JSON string is itself."""
    kind = asks[1]
    try:
        plain = json.loads(text)
    except (ValueError, RecursionError) as error:
        if kind is str or kind is bytes:
            return text
        raise CommandError(f"{name} takes {asks[0]}, and {text!r} is no JSON: {error}") from error
    if kind is dict:
        return {"text": text}
    return plain if kind is None or isinstance(plain, str) else text


def _envelope(domain: rtmw.Domain, name: str, topic: str) -> tuple[Any, tuple[str, type | None]]:
    """The struct that a topic carries, by its description in the region, and the type of its values."""
    from rtmw.requests.wire import described

    found = [(one, data) for one, data in observe.types_in_use(domain, topic) if data is not None]
    if len(found) != 1:
        told = f"its topic {topic} carries {', '.join(one for one, _ in found)}; see `rtmw service list`."
        if not found:
            names = _served({view.name: view for view in observe.topics(domain)})
            told = f"nobody serves it here; {meant(name, names, 'services')}"
        raise CommandError(f"Service {name} of domain {domain.id} cannot be called: {told}")
    return described(found[0][1]), _value_of(*found[0])
