"""`rtmw node`: run the daemon of this host."""

from __future__ import annotations

import argparse
import json
import logging
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

from rtmw.domain import environment_domain


class _Lines(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        return json.dumps({"time": record.created, "level": record.levelname.lower(), "message": record.getMessage()})


def run(arguments: argparse.Namespace) -> int:
    """Run until SIGINT or SIGTERM."""
    import uvloop

    from rtmw.net.node import Node
    from rtmw.net.settings import Settings, make_settings
    from rtmw.net.unit import systemd_unit

    path = Path(arguments.config) if arguments.config else None
    given: dict[str, Any] = {field.name: getattr(arguments, field.name) for field in fields(Settings)}
    if arguments.systemd_unit:
        make_settings(None, given)
        print(systemd_unit(path, given, json=arguments.json), end="")
        return 0
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Lines() if arguments.json else logging.Formatter("rtmw node: %(message)s"))
    logger = logging.getLogger("rtmw.node")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    base = Settings(domain=environment_domain())
    node = Node(make_settings(path, given, base), (lambda: make_settings(path, given, base)) if path else None)
    uvloop.run(node.run())
    return 0
