"""Of one domain, one core at a time keeps the transfers."""

from __future__ import annotations

import socket

from rtmw.transfer.errors import TransferError

__all__ = ["claim"]


def claim(domain: int) -> socket.socket:
    """A name that only one core of this domain has, and that dies with its process. TransferError: it is taken."""
    held = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
    try:
        held.bind(f"\0rtmw-transfer-{domain}")
    except OSError:
        held.close()
        raise TransferError(f"another node serves the transfers of domain {domain} already; stop one of them") from None
    return held
