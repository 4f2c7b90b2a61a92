"""The processes of the demonstration, by name."""

from __future__ import annotations

from collections.abc import Callable

from rtmw.demo import publishers, subscribers
from rtmw.qos import Reliability

PUBLISHERS: dict[str, Callable[[int], None]] = {
    "cpu": publishers.cpu,
    "memory": publishers.memory,
    "devices": publishers.devices,
    "processes": publishers.processes,
}
SUBSCRIBERS: dict[str, Callable[[int], None]] = {
    "display": subscribers.display,
    "watchdog": subscribers.watchdog,
    "alarms": subscribers.alarms,
    "asyncio": subscribers.asynchronous,
    "slow-reliable": lambda number: subscribers.slow(number, Reliability.RELIABLE),
    "slow-adaptive": lambda number: subscribers.slow(number, Reliability.ADAPTIVE),
    "slow-timely": lambda number: subscribers.slow(number, Reliability.TIMELY),
}
FAR: dict[str, Callable[[int], None]] = {
    "far-archive": subscribers.archive,
    "far-alarms": subscribers.far_alarms,
}
"""Roles of processes on the other host."""
ROLES = {**PUBLISHERS, **SUBSCRIBERS, **FAR}
