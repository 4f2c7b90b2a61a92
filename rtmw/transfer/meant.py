"""Whom an address means, of the receivers that live at this moment."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from rtmw.transfer.address import Address, Life, Reach
from rtmw.transfer.errors import TransferRefused

__all__ = ["check_receiver", "lives_meant"]


def lives_meant(to: Address, receivers: Mapping[str, Collection[Life]]) -> list[Life | None]:
    """A receiver for each copy; None: any, or one that is found out when it has been carried there.

    `receivers`: of this node, by service. TransferRefused: nobody is meant.
    """
    if to.reach is Reach.ANY or to.node:
        return [None]
    here = sorted(receivers.get(to.service, ()))
    meant = here if to.reach is Reach.EACH else [life for life in here if life.pid == to.pid][-1:]
    if not meant:
        pids = ", ".join(str(life.pid) for life in here) or "none"
        raise TransferRefused(
            f"{to} means nobody: the receivers of {to.service!r} are {pids}; send to {to.service!r}, which is kept "
            "until a receiver comes"
        )
    return list(meant)


def check_receiver(life: Life, service: str, receivers: Mapping[str, Collection[Life]]) -> None:
    """Raises TransferRefused: it is no receiver of this service."""
    if life not in receivers.get(service, ()):
        raise TransferRefused(f"{life} is no receiver of {service!r}; join it first")
