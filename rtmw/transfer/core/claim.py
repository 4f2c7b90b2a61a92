"""Of one domain, one core at a time keeps the transfers."""

from __future__ import annotations

import socket

from rtmw.claims import claimed
from rtmw.transfer.errors import TransferError

__all__ = ["claim"]


def claim(domain: int) -> socket.socket:
    """A name that only one core of this domain has, and that dies with its process. TransferError: it is taken."""
    held = claimed(f"rtmw-transfer-{domain}")
    if held is None:
        raise TransferError(f"another node serves the transfers of domain {domain} already; stop one of them")
    return held
