"""Do this node and the others hear each other? A line may carry one way only, and a node may stand still.

A beacon names the nodes whose beacons its sender has received (beacon.py), so each node knows who hears it. Whether a
node hears this one while it is not heard itself, only its own doctor can tell.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rtmw.clock import CLOCK
from rtmw.net.dds.beacon import Beacons, Peer
from rtmw.net.dds.discovery import Program


def hearing(beacons: Beacons, programs: Iterable[Program], named: Iterable[str]) -> list[dict[str, Any]]:
    """A row for each other node that is or was heard, and for each address in `named` where no DDS participant is.

    `silent_s`: seconds since it was heard; None: never. `deaf_s`: seconds since it showed that it hears this node, or
    since it was heard first; None: not known.
    """
    now = CLOCK.monotonic()
    known = {_host(program.address) for program in programs}
    return [
        *({**_who(peer), "silent_s": now - peer.heard, "deaf_s": now - peer.hears} for peer in beacons.peers.values()),
        *({**_who(peer), "silent_s": now - peer.heard, "deaf_s": None} for peer in beacons.lost.values()),
        *(
            {"host": address, "pid": None, "domain": None, "silent_s": None, "deaf_s": None}
            for address in named
            if _host(address) not in known
        ),
    ]


def _who(peer: Peer) -> dict[str, Any]:
    return {"host": peer.host, "pid": peer.pid, "domain": peer.domain}


def _host(address: str) -> str:
    """Of `10.0.0.7`, `10.0.0.7:7410` and `[fd00::7]:7410`."""
    return address.partition("]")[0] if address.startswith("[") else address.partition(":")[0]
