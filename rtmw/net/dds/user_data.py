"""The description of a node's endpoint in the user data of DDS: its lane, and the type as rtmw describes it.

So a node needs no type lookup for what comes from another node, and numpy arrays keep their type.
"""

from __future__ import annotations

from functools import lru_cache

from rtmw.errors import RegionDamaged, RtmwError
from rtmw.net.dds.lanes import Lane
from rtmw.net.dds.wire import FOR_PLAIN, MARK
from rtmw.types import MessageType, carried_type
from rtmw.types.message_type import DESCRIPTION_LIMIT


def describe_endpoint(lane: Lane, type: MessageType) -> bytes:
    return lane.letter + type.description


def user_data(lane: Lane, type: MessageType) -> bytes:
    """The user data of a node's endpoint in this lane. An endpoint for plain programs says that, and no more."""
    return FOR_PLAIN if lane.is_plain else MARK + describe_endpoint(lane, type)


def type_in(described: bytes) -> MessageType:
    """Raises RegionDamaged or UnsupportedType: for a description that no node writes, or one of another version."""
    if len(described) > DESCRIPTION_LIMIT + 1:  # before it is kept
        raise RegionDamaged(f"a description of {len(described)} bytes; none has more than {DESCRIPTION_LIMIT + 1}")
    found = _judged(described)
    if isinstance(found, tuple):
        error, words = found
        raise error(words)
    return found


@lru_cache(maxsize=4096)
def _judged(described: bytes) -> MessageType | tuple[type[RtmwError], str]:
    """The type, or why there is none: a refusal is remembered, since its endpoint is looked at many times a second."""
    try:
        return carried_type(described[1:])
    except RtmwError as error:
        return type(error), str(error)
