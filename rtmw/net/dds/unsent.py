"""A node tells what it did not send, by cause, so that subscribers elsewhere count it: messages that expired or were
thinned before they left. They have no sequence numbers, so nobody misses them otherwise.

The news goes reliably to nodes that are there, and says what there is more than the last time: a node that comes later
has missed none of that.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from rtmw.net.dds.bridge import Bridge, LaneKey
from rtmw.net.dds.channel import Channel
from rtmw.net.dds.cyclone import DomainParticipant, make_idl_struct
from rtmw.net.dds.cyclone import types as idl
from rtmw.net.dds.routes import Incoming
from rtmw.net.refusals import Refusals, Refused

_LONGEST: Final = 64 << 10
"""Bytes of a sample that is read."""
_LANES_MOST: Final = 1000
"""Lanes that one sample has at most."""
_COUNT_MOST: Final = (1 << 32) - 1

UnsentLane: Any = make_idl_struct(
    "UnsentLane",
    "rtmw::UnsentLane",
    {"topic": idl.uint64, "reliability": idl.uint8, "expired": idl.uint32, "thinned": idl.uint32},
)
Unsent: Any = make_idl_struct("Unsent", "rtmw::Unsent", {"lanes": idl.sequence[UnsentLane]})


class UnsentNews:
    """Tells of the lanes of this node, and has subscribers here count what others tell. Not for several threads."""

    def __init__(self, participant: DomainParticipant, bridge: Bridge, refusals: Refusals) -> None:
        self._bridge = bridge
        self._channel = Channel(participant, "rtmw/unsent", Unsent, _LONGEST, refusals, is_reliable=True)

    def tell(self) -> None:
        """Tells other nodes what was not sent since the last call. Call it once a second, and at the end."""
        rows = [
            UnsentLane(*key, min(counts["expired"], _COUNT_MOST), min(counts["thinned"], _COUNT_MOST))
            for key, counts in self._bridge.unsent().items()
        ]
        for at in range(0, len(rows), _LANES_MOST):
            self._channel.write(Unsent(rows[at : at + _LANES_MOST]))

    def step(self) -> None:
        """Take in what others have told."""
        self._channel.read(self._on_unsent)

    def _on_unsent(self, writer: int, unsent: Any, _: int) -> None:
        if len(unsent.lanes) > _LANES_MOST:
            raise Refused(f"a node tells of {len(unsent.lanes)} lanes; at most {_LANES_MOST} are read")
        guid, told = self._channel.participant_of(writer), dict[LaneKey, Counter[str]]()
        for lane in unsent.lanes:
            of = told.setdefault((lane.topic, lane.reliability), Counter())
            of.update({"expired": lane.expired, "thinned": lane.thinned})
        for route in self._bridge.incoming:
            counts = told.get((route.number, int(route.lane.reliability)))
            if counts and not route.lane.is_plain and self._hears(route, guid):
                route.unsent(counts["expired"], counts["thinned"])

    def _hears(self, route: Incoming, guid: str) -> bool:
        """Does the participant write what this route reads?"""
        return any(writer[:24] == guid[:24] for writer in route.heard())
