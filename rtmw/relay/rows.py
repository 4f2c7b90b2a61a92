"""The record (R4): a row for each change of state, in one typed log. It is the store, so it cannot be incomplete.

A row says what was decided, and `State.apply` is the only code that changes the state by it, also when a server starts.
Behind each kind stands what has happened, and in brackets what its rows have besides `at`, `order`, `source` and
`destination`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from rtmw.types import int32, int64, uint64

STORED: Final = (
    "STORED"  # an order is taken: it will be sent (head, body, recipients, priority, lifetime, rule, version)
)
REFUSED: Final = "REFUSED"  # an order is not taken (head, cause, rule, version)
SENT: Final = "SENT"  # a try leaves for a recipient (recipient, tries)
DELIVERED: Final = "DELIVERED"  # the recipient has confirmed it (recipient, tries, head of its receipt)
UNDELIVERED: Final = "UNDELIVERED"  # never sent to it, nor will it be: it is safe to replace (recipient, tries, cause)
UNCONFIRMED: Final = "UNCONFIRMED"  # it was sent, and the recipient may have it (recipient, tries, cause)
EXPIRED: Final = "EXPIRED"  # its lifetime was over before it was sent to this recipient (recipient, cause)
LATE: Final = "LATE"  # it is confirmed after its source was told otherwise; it holds its stream no more (as DELIVERED)
DROPPED: Final = "DROPPED"  # a receipt for nothing, or a frame that no agent may send (head, cause)
CONNECTED: Final = "CONNECTED"  # an agent has a connection (source)
GONE: Final = "GONE"  # it has none any more (source)
FOLLOWED: Final = "FOLLOWED"  # an agent is subscribed to a subject (source; body: the filter; head, rule)
UNFOLLOWED: Final = "UNFOLLOWED"  # it is no more (the same)
HELD: Final = "HELD"  # orders of a stream wait behind one that this recipient has not confirmed (recipient)
ALARM: Final = "ALARM"  # what people should look at (cause)
ACT: Final = "ACT"  # an operator has done something: `hold GATE`, `drop 7` (cause, uid; what comes of it has both, too)
CHECKPOINT: Final = "CHECKPOINT"  # a checkpoint was begun here (digest: what the checkpoint names it by)
SIGNER: Final = "SIGNER"  # this certificate verifies the seals behind (version: its fingerprint; body: it, as DER)
SEAL: Final = "SEAL"  # rows up to a position are sealed (digest, and body: position and signature; see seals.py)
OF_RECORD: Final = frozenset({CHECKPOINT, SIGNER, SEAL})
"""Rows about the record itself."""
ENDS: Final = frozenset({DELIVERED, UNDELIVERED, UNCONFIRMED, EXPIRED})
"""Kinds of rows that end an order for one recipient."""


@dataclass
class Row:
    """One change of state. Names are those of the settings; head and body are the bytes of the frame, without its
    header and its line feed. A row without an order has number 0."""

    kind: str
    at: int64
    """Wall time, in nanoseconds."""
    order: uint64 = 0
    """The number of the order: its STORED row is the one with this number. 0: none."""
    source: str = ""
    destination: str = ""
    """The agent or subject that the frame names."""
    recipient: str = ""
    recipients: list[str] = field(default_factory=list[str])
    priority: int32 = 0
    lifetime: float = 0.0
    """Seconds from `at` on; 0: as long as it is tried."""
    tries: int32 = 0
    cause: str = ""
    rule: str = ""
    """File and line of the rule."""
    version: str = ""
    """Version of the rules; in a SEAL or SIGNER row, the fingerprint of the certificate."""
    head: bytes = b""
    """Bytes 1 to 35 of the frame, as it came; of a receipt, its stamp says when the recipient had the order."""
    body: bytes = b""
    digest: bytes = b""
    """Digest of the content; in a SEAL row, the head of the chain; in a CHECKPOINT row, its random number."""
    told: bool = False
    """The source of this order has a receipt since it was stored, because the order is to a subject."""
    by_content: bool = False
    """Two frames of one stamp are two orders if their content is not the same."""
    performative: str = ""
    """The KQML performative of an order that is refused. An order that is stored has its body instead."""
    size: int32 = 0
    """Bytes of the data of an order that is refused."""
    is_allowed: bool = False
    """The rules allow this order; it is refused for another cause."""
    uid: int64 = -1
    """The user id of the operator; -1: no operator did this."""
