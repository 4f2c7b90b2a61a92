"""What a node's endpoint says of itself, in the user data of DDS: its lane, and the type as rtmw describes it.

So a node needs no type lookup for what comes from another node, and numpy arrays keep their type.
"""

from __future__ import annotations

from functools import lru_cache

from rtmw.errors import RegionDamaged, RtmwError
from rtmw.net.dds.lanes import Lane
from rtmw.net.dds.wire import FOR_PLAIN, MARK
from rtmw.types import MessageType, carried_type
from rtmw.types.message_type import DESCRIPTION_LIMIT


def make_note(lane: Lane, kind: MessageType) -> bytes:
    return lane.letter + kind.description


def user_data(lane: Lane, kind: MessageType) -> bytes:
    """Of a node's endpoint in this lane. One that is there for plain programs says so, and no more."""
    return FOR_PLAIN if lane.is_plain else MARK + make_note(lane, kind)


def kind_in(note: bytes) -> MessageType:
    """Raises RegionDamaged or UnsupportedType: for a note that no node writes, or one of another version."""
    if len(note) > DESCRIPTION_LIMIT + 1:  # before it is kept
        raise RegionDamaged(f"a note of {len(note)} bytes; none has more than {DESCRIPTION_LIMIT + 1}")
    found = _judged(note)
    if isinstance(found, tuple):
        error, words = found
        raise error(words)
    return found


@lru_cache(maxsize=4096)
def _judged(note: bytes) -> MessageType | tuple[type[RtmwError], str]:
    """The type, or why there is none: a refusal is remembered, since its endpoint is looked at many times a second."""
    try:
        return carried_type(note[1:])
    except RtmwError as error:
        return type(error), str(error)
