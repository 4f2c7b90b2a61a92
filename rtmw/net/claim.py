"""Of two domains, one node at a time may carry the one on the other."""

from __future__ import annotations

import socket

from rtmw.errors import RtmwError
from rtmw.net.settings import Settings


class NodeError(RtmwError):
    """The node cannot run; the message says why."""


def claim(settings: Settings) -> socket.socket:
    """A name that only one node of these two domains has, and that dies with its process."""
    name = f"\0rtmw-node-{settings.domain}-{settings.wire_domain}"
    held = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
    try:
        held.bind(name)
    except OSError:
        held.close()
        raise NodeError(
            f"a node for domain {settings.domain} and DDS domain {settings.wire_domain} runs already"
        ) from None
    return held
