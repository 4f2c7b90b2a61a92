"""What a node takes with it that ends now: for the log, when it could wait no longer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rtmw.net.dds.bridge import Bridge
from rtmw.net.dds.routes import Outgoing

_TOPICS_MOST: Final = 20
"""Topics that are told."""


def undelivered(bridge: Bridge) -> str:
    """By topic, how many messages; of what was sent, who has not acknowledged it."""
    every = [*_outgoing(bridge), *_incoming(bridge)]
    more = [f"and {len(every) - _TOPICS_MOST} topics more"] if len(every) > _TOPICS_MOST else []
    return "; ".join([*every[:_TOPICS_MOST], *more])


def _outgoing(bridge: Bridge) -> Iterator[str]:
    for route in bridge.outgoing:
        if not route.is_delivered():
            held, readers = route.held(), _readers(bridge, route)
            parts = [f"{held} taken from the bus and not sent"] if held else []
            parts += [f"what was sent last is not acknowledged by {readers}"] if readers else []
            yield f"{route.topic}: {', '.join(parts) or 'not all is taken from the bus'}"


def _incoming(bridge: Bridge) -> Iterator[str]:
    for route in bridge.incoming:
        if held := route.held():
            yield f"{route.topic}: {held} that came find no room on the bus"


def _readers(bridge: Bridge, route: Outgoing) -> str:
    return ", ".join(sorted({str(bridge.discovery.program(reader)) for reader in route.readers}))
