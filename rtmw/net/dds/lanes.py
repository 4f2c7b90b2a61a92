"""A topic crosses in lanes: one for each reliability that somebody offers, so that none is weakened by another; and of
what comes in, writers that keep messages have another lane than those that do not. Messages between nodes have other
lanes than messages from and to plain programs (partitions.py). Each lane has DDS endpoints of its
own, and of a sample that several readers of a node receive, only the one of its lane makes a message.
"""

from __future__ import annotations

from dataclasses import dataclass

from rtmw.net.dds.discovery import Endpoint
from rtmw.net.dds.partitions import NODES
from rtmw.qos import Reliability

KEEPS = 4
"""LANE_KEEPS of route.h."""
AMONG_NODES = 8
"""LANE_NODES of route.h."""

_LETTERS = {b"T": Reliability.TIMELY, b"A": Reliability.ADAPTIVE, b"R": Reliability.RELIABLE}


@dataclass(frozen=True)
class Lane:
    """Publishers or writers that offer the same."""

    reliability: Reliability
    keeps: bool
    """It keeps messages for late subscribers."""
    is_plain: bool = False
    """From or to plain programs: in the default partition, and not in that of nodes."""

    @property
    def code(self) -> int:
        """The number by which the engine knows the lane."""
        return self.reliability | (KEEPS if self.keeps else 0) | (0 if self.is_plain else AMONG_NODES)

    @property
    def letter(self) -> bytes:
        """The letter by which a node's endpoint says its lane. Lower case: the lane keeps messages."""
        letter = next(letter for letter, reliability in _LETTERS.items() if reliability is self.reliability)
        return letter.lower() if self.keeps else letter


def lane_of(endpoint: Endpoint) -> Lane:
    """The lane of an endpoint. A node's endpoint says it. A plain program offers RELIABLE or TIMELY, whatever it calls
    it."""
    described, is_plain = endpoint.description, endpoint.partitions != (NODES,)
    if described is not None:
        return Lane(_LETTERS.get(described[:1].upper(), Reliability.TIMELY), described[:1].islower(), is_plain)
    return Lane(Reliability.RELIABLE if endpoint.is_reliable else Reliability.TIMELY, endpoint.history > 0, is_plain)
