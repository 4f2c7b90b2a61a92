"""The questions, one file each, in the order of the tables."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from bench.cases import Question

NAMES = (
    "round_trip",
    "sizes",
    "within",
    "full_payload",
    "asleep",
    "asyncio_",
    "one_way",
    "fan_out",
    "crowd",
    "refused",
    "pattern",
    "typed",
    "request",
    "attach",
    "replay",
    "between_rate",
    "between_bulk",
    "between_trip",
    "cable_rate",
    "cable_trip",
    "links",
    "links_cable",
    "log_append",
    "log_delay",
    "log_bulk",
    "log_read",
    "log_scan",
    "transfer_rate",
    "transfer_levels",
    "transfer_between",
    "transfer_file",
    "transfer_resume",
    "relay_rate",
    "relay_verdict",
    "relay_urgent",
    "relay_start",
    "replica_append",
    "replica_read",
    "replica_switch",
    "recording",
    "scan",
    "scan_slice",
    "scan_some",
)
LINKS = ("links", "links_cable")
RELAY = tuple(name for name in NAMES if name.startswith("relay_"))
REPLICA = tuple(name for name in NAMES if name.startswith("replica_"))
APART = (*LINKS, *RELAY, *REPLICA)
"""Asked only where they are named: they would take as long as all others."""


def question(name: str) -> Question:
    module: Any = import_module(f"bench.questions.{name}")
    return module
