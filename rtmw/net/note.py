"""What a node's endpoint says of itself, in the user data of DDS: its lane, and the type as rtmw describes it.

So a node needs no type lookup for what comes from another node, and numpy arrays keep their type.
"""

from __future__ import annotations

from functools import lru_cache

from rtmw.net.lanes import Lane
from rtmw.types import MessageType, from_description


def make_note(lane: Lane, kind: MessageType) -> bytes:
    return lane.letter + kind.description


@lru_cache(maxsize=4096)
def kind_in(note: bytes) -> MessageType:
    """Raises RegionDamaged or UnsupportedType when it is of another version."""
    return from_description(note[1:])
