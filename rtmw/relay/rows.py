"""The record (R4): a row for each change of state, in one typed log. It is the store, so it cannot be incomplete.

A row says what was decided, and `State.apply` is the only code that changes the state by it, also when a server starts.

| kind | what has happened | what it has besides `at`, `order`, `source`, `destination` |
|---|---|---|
| STORED | an order is taken: it will be sent | head, body, recipients, priority, lifetime, rule, version |
| REFUSED | an order is not taken | head, cause, rule, version |
| SENT | a try leaves for a recipient | recipient, tries |
| DELIVERED | the recipient has confirmed it | recipient, tries, head of its receipt |
| UNDELIVERED | it was never sent to this recipient, and never will be: safe to replace | recipient, tries, cause |
| UNCONFIRMED | it was sent, and the recipient may have it | recipient, tries, cause |
| EXPIRED | its lifetime was over before it was sent to this recipient | recipient, cause |
| LATE | it has confirmed it after its source was told otherwise; it holds its stream no more | the same |
| DROPPED | a receipt for nothing, or a frame that no agent may send | head, cause |
| CONNECTED, GONE | an agent has a connection, or none any more | source |
| FOLLOWED, UNFOLLOWED | an agent is subscribed to a subject, or is no more | source; body: the filter; head, rule |
| HELD | orders of a source to a destination wait behind one that this recipient has not confirmed | recipient |
| ALARM | what people should look at | cause |
| ACT | an operator has done something: `hold GATE`, `drop 7` | cause, uid; and the order that comes of it has both |
| CHECKPOINT | a checkpoint was begun here | digest: what the checkpoint names it by |
| SIGNER | seals from here on are verified by this certificate | version: its fingerprint; body: the certificate, DER |
| SEAL | rows up to a position are sealed | digest, and body: position and signature; see seals.py |
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from rtmw.types import int32, int64, uint64

STORED: Final = "STORED"
REFUSED: Final = "REFUSED"
SENT: Final = "SENT"
DELIVERED: Final = "DELIVERED"
UNDELIVERED: Final = "UNDELIVERED"
UNCONFIRMED: Final = "UNCONFIRMED"
EXPIRED: Final = "EXPIRED"
LATE: Final = "LATE"
DROPPED: Final = "DROPPED"
CONNECTED: Final = "CONNECTED"
GONE: Final = "GONE"
FOLLOWED: Final = "FOLLOWED"
UNFOLLOWED: Final = "UNFOLLOWED"
HELD: Final = "HELD"
ALARM: Final = "ALARM"
ACT: Final = "ACT"
CHECKPOINT: Final = "CHECKPOINT"
SIGNER: Final = "SIGNER"
SEAL: Final = "SEAL"
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
