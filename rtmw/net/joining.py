"""The needs of a node before it can join a DDS domain: an interface with an address, and the addresses of its peers.

The node waits for those that are not there yet. Meanwhile it says on its bus why nothing crosses.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

from rtmw.domain import Domain
from rtmw.net.dds.network import Line, choose, why_none
from rtmw.net.peers import Search, addresses
from rtmw.net.settings import STATUS_TOPIC, Settings
from rtmw.net.status import make_waiting
from rtmw.net.supervisor import notify
from rtmw.publisher import OwnPublisher

log = logging.getLogger("rtmw.node")

STEP_S: Final = 0.1
"""Between two looks of a node: at the bus and at links, or at what it waits for before it joins."""


@dataclass(frozen=True)
class Joining:
    """Of one node, until it has joined."""

    domain: Domain
    since: float
    """When the node began: seconds since the epoch."""
    settings: Callable[[], Settings]
    """As they are now: SIGHUP may change them meanwhile."""
    ends_within: Callable[[float], Awaitable[bool]]
    """Is the node to end within so many seconds? Raises NetworkChanged where it is to begin anew."""
    undelivered: list[dict[str, Any]]
    """Messages that nodes before it have not delivered."""

    async def line(self) -> Line | None:
        """Wait until there is an interface to use. None: the node is to end."""
        line = choose(self.settings())
        if line is not None:
            return line
        log.warning("%s", why_none(self.settings()))
        with self._status() as status:
            while line is None and not await self.ends_within(STEP_S):
                self._tell_why(status, why_none(self.settings()))
                line = choose(self.settings())
        return line

    async def peers(self, line: Line, begins_anew: bool) -> tuple[str, ...] | None:
        """The addresses of the peers; None: the node is to end. Just after the network has changed, names may not be
        known for a while; a node that begins for the first time is told at once. Raises RtmwError."""
        if not begins_anew:
            return addresses(self.settings().peers, line.is_ipv6)
        why, ends = "the peers are looked up", False
        with self._status() as status:
            while True:
                search = Search(self.settings().peers, line.is_ipv6)
                while not ends and not search.is_over:
                    self._tell_why(status, why)
                    ends = await self.ends_within(STEP_S)
                if ends or search.found is not None:
                    return search.found
                if why != (why := f"{search.why}; the node goes on when it is found"):
                    log.warning("%s", why)
                ends = await self.ends_within(STEP_S)

    def _status(self) -> OwnPublisher:
        return OwnPublisher(STATUS_TOPIC, history=1, domain=self.domain)

    def _tell_why(self, status: OwnPublisher, why: str) -> None:
        """Why nothing crosses yet, for everybody who asks."""
        told = {**make_waiting(self.settings(), why, self.since), "undelivered": self.undelivered}
        status.publish(json.dumps(told).encode())
        notify("READY=1")
        notify("WATCHDOG=1")
