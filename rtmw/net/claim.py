"""The claim of a node: at most one node at a time carries a given rtmw domain on a given DDS domain."""

from __future__ import annotations

import socket

from rtmw.claims import claimed
from rtmw.errors import RtmwError
from rtmw.net.settings import Settings


class NodeError(RtmwError):
    """The node cannot run; the message says why."""


def claim(settings: Settings) -> socket.socket:
    """A name that only one node of these two domains has, and that dies with its process."""
    held = claimed(f"rtmw-node-{settings.domain}-{settings.wire_domain}")
    if held is None:
        raise NodeError(f"a node for domain {settings.domain} and DDS domain {settings.wire_domain} runs already")
    return held
