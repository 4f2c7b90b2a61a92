"""What a node's endpoint says of itself, in the user data of DDS: how much is meant, and the type as rtmw describes it.

So a node needs no type lookup for what comes from another node, and numpy arrays keep their type.
"""

from __future__ import annotations

from dataclasses import dataclass

from rtmw.qos import Reliability
from rtmw.types import MessageType, from_description

_LETTERS = {Reliability.TIMELY: b"T", Reliability.ADAPTIVE: b"A", Reliability.RELIABLE: b"R"}


@dataclass(frozen=True)
class Note:
    reliability: Reliability
    kind: MessageType

    def encode(self) -> bytes:
        return _LETTERS[self.reliability] + self.kind.description


def read_note(data: bytes) -> Note:
    """Raises RegionDamaged or UnsupportedType when it is of another version."""
    reliability = next((key for key, letter in _LETTERS.items() if data.startswith(letter)), Reliability.TIMELY)
    return Note(reliability, from_description(data[1:]))
