"""What the service of replicated logs says of itself once a second: a message that can be read without taking part."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from rtmw.clock import CLOCK
from rtmw.domain import Domain
from rtmw.observe.transfers import newest
from rtmw.patterns import OWN_PREFIX
from rtmw.strict_json import as_json

__all__ = ["LOGS_TOPIC", "MOST_LOGS", "LogsActivity", "logs", "pack_logs"]

LOGS_TOPIC: Final = OWN_PREFIX + "log/status"
"""Where a node that has replicated logs and a domain says how they are; kept for late subscribers."""
MOST_LOGS: Final = 256
"""In one message: the first by name."""


@dataclass(frozen=True)
class LogsActivity:
    """What the service has said last, and how long ago."""

    pid: int
    silent: float
    """Seconds since it has said so."""
    told: Mapping[str, Any]
    """`node`; `logs`: each as `rtmw log status --json` has it, as this node sees it; `troubles`: why others are not
    served, by name; `full`."""

    @property
    def full(self) -> str:
        """Logs whose disk is full, and what to do; empty: there is room."""
        return str(self.told["full"])


def pack_logs(told: Mapping[str, Any]) -> bytes:
    """The message of a service. Its time is that of a clock that nobody sets."""
    return as_json({**told, "told_ns": CLOCK.monotonic_ns()}).encode()


def logs(domain: Domain) -> LogsActivity | None:
    """None: no node of this domain has replicated logs. For a domain that is only observed, too."""
    return newest(domain, LOGS_TOPIC, _activity)


def _activity(pid: int, silent: float, told: dict[str, Any]) -> LogsActivity:
    return LogsActivity(pid, silent, {key: told[key] for key in ("node", "logs", "troubles", "full")})
