"""The processes of the demonstration, by name."""

from __future__ import annotations

from collections.abc import Callable

from rtmw.demo.publishers import cpu, devices, memory, processes
from rtmw.demo.subscribers import alarms, archive, asynchronous, display, far_alarms, slow, watchdog
from rtmw.qos import Reliability

PUBLISHERS: dict[str, Callable[[int], None]] = {
    "cpu": cpu,
    "memory": memory,
    "devices": devices,
    "processes": processes,
}
SUBSCRIBERS: dict[str, Callable[[int], None]] = {
    "display": display,
    "watchdog": watchdog,
    "alarms": alarms,
    "asyncio": asynchronous,
    "slow-reliable": lambda number: slow(number, Reliability.RELIABLE),
    "slow-adaptive": lambda number: slow(number, Reliability.ADAPTIVE),
    "slow-timely": lambda number: slow(number, Reliability.TIMELY),
}
FAR: dict[str, Callable[[int], None]] = {
    "far-archive": archive,
    "far-alarms": far_alarms,
}
"""Roles of processes on the other host."""
ROLES = {**PUBLISHERS, **SUBSCRIBERS, **FAR}
