"""Nodes with keys find each other by DDS discovery, and link without `connect`.

Everybody who reaches the DDS domain may announce anything. So an announcement decides one thing alone: where this node
tries a TLS connection. It is only tried: (1) in a network of an address that DDS uses here, or at a host of `peers`;
(2) for a name that a rule is for; (3) at 64 places at a time. Who answers there is known by its certificate, and a link
that is there takes no notice of announcements: whoever says the UUID of a living peer takes nothing from it.

The node with the smaller UUID dials at once, the other one after 2 s: the way may be open in one direction only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TYPE_CHECKING, Final
from uuid import UUID

import psutil

from rtmw.net.dds.discovery import Program
from rtmw.net.session.hello import chooses
from rtmw.net.session.sockets import Backoff
from rtmw.text.addresses import bracketed, parts, place_to_listen

if TYPE_CHECKING:
    from rtmw.net.link.handshake import PeerKey
    from rtmw.net.link.links import Links

AT_A_TIME: Final = 64
"""Nodes that are dialled at a time; the others wait for their turn."""
AFTER_S: Final = 2.0
"""The node with the larger UUID dials after so many seconds without a link."""
LONGEST_S: Final = 30.0
"""The longest time in seconds between two tries of one node: most of those that never answer are made up."""
NODES_MOST: Final = 1000
"""Announcements that are followed at a time."""


@dataclass(frozen=True)
class Neighbourhood:
    """Addresses that DDS uses here, and those of the hosts that `peers` names."""

    addresses: tuple[str, ...]
    named: tuple[str, ...] = ()
    """Addresses of the hosts that `peers` names; each may have a port."""

    @cached_property
    def _networks(self) -> list[IPv4Network | IPv6Network]:
        entries = (entry for of in psutil.net_if_addrs().values() for entry in of)
        masks = {entry.address.partition("%")[0]: entry.netmask for entry in entries}
        found = ((one, masks.get(one)) for one in self.addresses)
        return [ip_network(f"{one}/{int(ip_address(mask)).bit_count()}", strict=False) for one, mask in found if mask]

    @cached_property
    def _hosts(self) -> frozenset[IPv4Address | IPv6Address]:
        return frozenset(ip_address(parts(one)[0]) for one in self.named)

    def has(self, place: str) -> bool:
        """May an announcement have this node connect there?"""
        try:
            host, port = place_to_listen(place)
        except ValueError:  # a name is not looked up for a stranger, either
            return False
        address = ip_address(host)
        return port > 0 and (address in self._hosts or any(address in network for network in self._networks))

    def reached_at(self, ports: Mapping[str, int]) -> list[str]:
        """The places where others reach this node by TCP. `ports`: the port of each place where it listens; 0: a Unix
        socket."""
        found = list[str]()
        for place, port in ports.items():
            if port:
                host = place_to_listen(place)[0]
                every = [one for one in self.addresses if host == "::" or ":" not in one]
                found += [f"{bracketed(one)}:{port}" for one in (every if ip_address(host).is_unspecified else [host])]
        return list(dict.fromkeys(found))


NOWHERE: Final = Neighbourhood(())


@dataclass(frozen=True)
class Found:
    """A node with keys, as it announces itself."""

    key: PeerKey
    places: tuple[str, ...]

    @classmethod
    def of(cls, program: Program, near: Neighbourhood) -> Found | None:
        """None: it has no keys, or nothing that may be dialled."""
        places = tuple(filter(near.has, program.link_places))
        try:
            node = UUID(hex=program.link or "")
        except ValueError:
            return None
        return cls((program.link_name, node), places) if program.link_name and places else None


class FoundNodes:
    """Dials each of them, whenever there is no link with it. Not for several threads."""

    def __init__(self, links: Links) -> None:
        self._links, self._turns = links, asyncio.Semaphore(AT_A_TIME)
        self._dialled: dict[str, tuple[Found, asyncio.Task[None]]] = {}
        """By the GUID of the DDS participant: of two that say one UUID, neither takes the place of the other."""
        self.why: dict[str, str] = {}
        """By a place: why there is no link with it."""

    @property
    def followed(self) -> int:
        """Announcements that are followed now."""
        return len(self._dialled)

    def see(self, participants: Mapping[str, Program], near: Neighbourhood) -> None:
        """Follow these announcements, and no others any more. Links that are there stay."""
        for guid in [guid for guid in self._dialled if guid not in participants]:
            self._forget(guid)
        for guid, program in participants.items():
            before, found = self._dialled.get(guid), Found.of(program, near)
            if before is not None and before[0] != found:
                self._forget(guid)
            if found is not None and guid not in self._dialled and len(self._dialled) < NODES_MOST:
                self._dialled[guid] = (found, asyncio.get_running_loop().create_task(self._keep(found)))

    def begin_anew(self) -> None:
        """Rules or keys are others: what was refused may be let in. To be followed by `see`."""
        for guid, (found, _) in [*self._dialled.items()]:
            if not self._links.is_up(found.key):
                self._forget(guid)

    def close(self) -> None:
        for guid in [*self._dialled]:
            self._forget(guid)

    def _forget(self, guid: str) -> None:
        found, task = self._dialled.pop(guid)
        task.cancel()
        for place in found.places:
            self.why.pop(place, None)

    async def _keep(self, found: Found) -> None:
        mine, peer = self._links.register.mine.node, found.key[1]
        if mine == peer:
            return
        backoff = Backoff(longest=LONGEST_S)
        async for _ in backoff:
            if not chooses(mine, peer):
                await asyncio.sleep(AFTER_S)
            await self._while_up(found)
            if await self._dial(found):
                backoff.reset()

    async def _while_up(self, found: Found) -> None:
        if self._links.is_up(found.key):
            self._told(found, None)
            who = self._links.sessions[found.key].who
            await self._links.while_linked(who.address if who.is_dialler else None, found.key)

    async def _dial(self, found: Found) -> bool:
        """Try each place until there is a link, and wait until it is over. False: there was none."""
        if not self._links.rights.table.knows(found.key[0]):
            self._told(found, f"no rule is for {found.key[0]}: its name must fit `peer` of an [[allow]]")
            return False
        for place in found.places:
            async with self._turns:
                who = await self._links.attempt(place, self.why)
            if who is not None:
                self._told(found, None)
                await self._links.while_linked(place, who.key)
                return True
        return False

    def _told(self, found: Found, why: str | None) -> None:
        for place in found.places:
            if why is None:
                self.why.pop(place, None)
            else:
                self.why[place] = why
