"""`rtmw node`: run the daemon of this host, and see how it is."""

from __future__ import annotations

import argparse
import json
import logging
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

from rtmw.cli.common import CommandError, attach
from rtmw.cli.show import Table, show, show_json
from rtmw.domain import environment_domain

_PATIENCE_S = 1.5
"""The node says how it is once a second."""


class _Lines(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        return json.dumps({"time": record.created, "level": record.levelname.lower(), "message": record.getMessage()})


def run(arguments: argparse.Namespace) -> int:
    """Run until SIGINT or SIGTERM."""
    import uvloop

    from rtmw.net.node import Node
    from rtmw.net.settings import Settings, make_settings

    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Lines() if arguments.json else logging.Formatter("rtmw node: %(message)s"))
    logger = logging.getLogger("rtmw.node")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    given: dict[str, Any] = {field.name: getattr(arguments, field.name) for field in fields(Settings)}
    path = Path(arguments.config) if arguments.config else None
    base = Settings(domain=environment_domain())
    node = Node(make_settings(path, given, base), (lambda: make_settings(path, given, base)) if path else None)
    uvloop.run(node.run())
    return 0


def list_nodes(arguments: argparse.Namespace) -> int:
    """Print the node of the domain, and those it hears."""
    found = _status(arguments.domain)
    if arguments.json:
        show_json([{name: found[name] for name in ("host", "pid", "domain")}, *found["peers"]])
        return 0
    rows = [("this host", found["host"], found["pid"], found["domain"], None, None)]
    for peer in found["peers"]:
        offset, way = (None if peer[name] is None else peer[name] / 1e6 for name in ("offset_ns", "round_trip_ns"))
        rows.append(("peer", peer["host"], peer["pid"], peer["domain"], offset, way))
    show(Table("Nodes", ("", "host", "pid", "domain", "clock ahead ms", "there and back ms"), rows))
    return 0


def info(arguments: argparse.Namespace) -> int:
    """Print what crosses, in each direction, and what does not."""
    found = _status(arguments.domain)
    if arguments.json:
        show_json(found)
        return 0
    print(
        f"Domain {found['domain']} is carried on DDS domain {found['dds_domain']} over "
        f"{found['interface'] or 'the interface that leads to the peers'}; {len(found['peers'])} other nodes, "
        f"{found['participants']} DDS participants"
    )
    for title, rows, ends, drops in (
        ("Out", found["out"], ("readers", "sent"), ("expired", "refused", "blocked")),
        ("In", found["in"], ("writers", "received"), ("expired", "malformed", "no_memory", "delayed")),
    ):
        columns = ("topic", "type", *ends, "bytes", *drops)
        show(Table(title, columns, [tuple(row.get(name) for name in columns) for row in rows]))
    for topic, reason in found["refused"].items():
        print(f"{topic} {reason}")
    return 0


def _status(number: int) -> dict[str, Any]:
    """What the node of a domain says of itself; CommandError when there is none."""
    from rtmw.net.settings import STATUS_TOPIC
    from rtmw.subscriber import Subscriber

    with attach(number) as domain, Subscriber(STATUS_TOPIC, history=1, domain=domain) as subscriber:
        try:
            status: dict[str, Any] = json.loads(bytes(subscriber.receive(timeout=_PATIENCE_S).data))
        except TimeoutError:
            status = {}
    if not status or not _is_alive(status["pid"]):
        raise CommandError(f"No node runs for domain {number}; start one with: rtmw node --domain {number}")
    return status


def _is_alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()
