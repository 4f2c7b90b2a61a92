"""Whose region is it? Publishers of a peer are told apart by what it calls the region of its domain, and DDS samples of
that region are passed over. A certificate has a name and no region, so a peer could say that of another node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from uuid import UUID

from rtmw.net.dds.discovery import Program
from rtmw.net.link.register import PEERS_MOST


class Regions:
    """A region is the peer's if and only if: (1) it is not that of this node; (2) no peer with another name has said it
    before; (3) no DDS participant that has it is another one. Not for several threads."""

    def __init__(self, own: str) -> None:
        """`own`: the region of this node (neighbours.origin)."""
        self._own = own
        self._met: dict[str, tuple[str, UUID]] = {}
        """By region: the name of the peer that said it first since this node runs, and its UUID."""
        self._elsewhere: dict[str, set[tuple[str, str, str]]] = {}
        """Regions of DDS participants: UUID of the links, name and user that each says, empty without links."""

    def meet(self, region: str, name: str, node: UUID) -> str:
        """A peer has said that its region is this one. How its publishers are told apart from others."""
        owner = self._met.get(region, (name, node))
        if region == self._own or owner[0] != name or not self._fits(region, (name, node)):
            return f"{region} of {name}"
        self._met.pop(region, None)
        self._met[region] = (name, node)
        while len(self._met) > PEERS_MOST:
            del self._met[next(iter(self._met))]
        return region

    def hear(self, programs: Iterable[Program]) -> bool:
        """DDS participants, as they are now. Has something changed for `linked`?"""
        before = self.linked()
        self._elsewhere = {}
        for one in programs:
            if one.region:
                self._elsewhere.setdefault(one.region, set()).add((one.link or "", one.link_name, one.link_user))
        return self.linked() != before

    def forget(self, is_over: Callable[[str], bool]) -> None:
        """Peers whose names mean nothing any more."""
        self._met = {region: owner for region, owner in self._met.items() if not is_over(owner[0])}

    def linked(self) -> list[str]:
        """The regions of peers: what comes from there over DDS is not for this node."""
        return [region for region, owner in self._met.items() if self._fits(region, owner)]

    def _fits(self, region: str, owner: tuple[str, UUID]) -> bool:
        name, node = owner
        said = self._elsewhere.get(region, ())
        return all(link == node.hex and name in (named, user or named) for link, named, user in said)
