"""What programs and nodes of a replicated log say to each other, as bytes and back.

A program opens two kinds of streams in a session with a node, which their purposes name:

    log/1 NAME                  requests of the program; the node's welcome, its answers, and news of the master
    read/1 NAME POSITION LIMIT  nothing from the program; whole batches of the log from the node, up to the limit

Bytes of the other side are checked before anything is made of them: all functions that read raise ValueError.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from rtmw.log.labels import LONGEST
from rtmw.replica.words import MIB, Reply

if TYPE_CHECKING:
    from typing_extensions import Buffer

LARGEST_BATCH: Final = 16 * MIB
"""Bytes of what one append brings, packed, and of the records that the log makes of it."""
_RECORD: Final = 40
"""Bytes of a record in the log beside its data, at most."""
LONGEST_WORDS: Final = 1 << 20
"""Bytes behind the head of an answer."""
LARGEST_RAW: Final = 2 * LARGEST_BATCH
"""Bytes of a frame of a reader: one batch, or many of up to a MiB together."""
NO_LIMIT: Final = (1 << 64) - 1
CAPABILITY: Final = "client"
"""In the hello of a program."""
ACK_DELAY_S: Final = 0.2
"""Sessions of nodes and programs acknowledge bytes so late: nobody waits for that, and each time both sides wake up."""

# ---- what is appended ----

_COUNT: Final = struct.Struct("<II")
_LABELS: Final = struct.Struct("<BBHHH")
_TEXT, _NUMBER, _AUTOMATIC = 2, 3, 4
AUTOMATIC_HEAD: Final = _LABELS.pack(0, _AUTOMATIC, 0, 24, 0)
"""Before an automatic id without a key: 16 bytes of the producer, and the sequence."""


def pack_batch(labels: bytes, values: Sequence[bytes]) -> bytes:
    """Labels of the first record, and the data of each: <II, size of the labels and count; the sizes; the bytes."""
    head = struct.pack(f"<{2 + len(values)}I", len(labels), len(values), *map(len, values))
    return b"".join((head, labels, *values))


def size_of(body: int, count: int) -> int:
    """Bytes of a batch, whose body has so many and brings so many records, at most; nodes send each other records."""
    return body + (_RECORD - 4) * count


class Batch(NamedTuple):
    """What one append brings."""

    labels: bytes
    """Labels of the first record, with an id."""
    values: list[Buffer]
    """The data of each record."""


def unpack_batch(data: bytes | memoryview) -> Batch:
    """ValueError: these bytes are no batch, or too many."""
    view, whole = memoryview(data), len(data)
    labels_size, count = _COUNT.unpack_from(view) if whole >= _COUNT.size else (0, 0)
    at = _COUNT.size + 4 * count
    if not count or whole < at + labels_size:
        raise ValueError(f"a batch of {whole} bytes cannot have {count} records and {labels_size} bytes of labels")
    if size_of(whole, count) > LARGEST_BATCH:
        raise ValueError(f"{count} records of {whole} bytes are too many for one append; append less at once")
    labels = bytes(view[at : at + labels_size])
    values: list[Buffer] = []
    at += labels_size
    for size in struct.unpack_from(f"<{count}I", view, _COUNT.size):
        values.append(view[at : at + size])
        at += size
    if at != whole:
        raise ValueError(f"the records of a batch of {whole} bytes would end at {at}")
    return Batch(labels, values)


def id_of(labels: bytes) -> bytes:
    """The labels that have the id of these, and no key. ValueError: they are no labels, or have no id."""
    if labels[:8] == AUTOMATIC_HEAD and len(labels) == 32:
        return labels
    if len(labels) < _LABELS.size:
        raise ValueError(f"labels of {len(labels)} bytes have no head")
    key_kind, id_kind, key_size, id_size, zero = _LABELS.unpack_from(labels)
    between, end = _LABELS.size + key_size, _LABELS.size + key_size + id_size
    if zero or len(labels) != end + -end % 8 or any(labels[end:]):
        raise ValueError("labels are not as long as their head says")
    _check_label("key", key_kind, labels[_LABELS.size : between])
    if id_kind != _AUTOMATIC or id_size != 24:
        _check_label("id", id_kind, labels[between:end])
    if not id_kind:
        raise ValueError("labels without an id")
    packed = _LABELS.pack(0, id_kind, 0, id_size, 0) + labels[between:end]
    return packed + bytes(-len(packed) % 8)


def _check_label(what: str, kind: int, label: bytes) -> None:
    if kind > _NUMBER or len(label) > LONGEST or (not kind and label):
        raise ValueError(f"a {what} of kind {kind} and {len(label)} bytes")
    if kind == _TEXT:
        label.decode()


# ---- requests and answers ----


class Ask(IntEnum):
    """What a program asks. The body of each, and what the answer has beside the commit point."""

    APPEND = 1
    """A batch; where it begins."""
    RESOLVE = 2
    """The labels with its id; whether it is there."""
    FRESH = 3
    """Nothing; up to where all is that was committed when the master heard this."""
    BOUNDS = 4
    """Nothing, of any node; where its log begins."""
    SEEK = 5
    """<Q, nanoseconds since 1970, of any node; the position of the first record of then or later."""
    STATS = 6
    """Nothing, of any node; where its log begins, and JSON: how many segments, and their bytes."""
    CURSORS = 7
    """Nothing; JSON: by name the position, the time of its last use, and its holder or null."""
    HOLD = 8
    """<Q and the name: where it begins if it is new; where it stands. The session holds it from now on."""
    COMMIT = 9
    """Likewise: all below is done with; an answer says that it is on the disk."""
    FREE = 10
    """The name: the session holds it no more."""
    DELETE = 11
    """The name."""
    TRIM = 12
    """<Q, a position; where the log begins now."""


_ASKS: Final = len(Ask)


class Request(NamedTuple):
    ask: int
    ticket: int
    """The program's number of it, not 0: the answer has it, too."""
    since: int
    """The highest commit point that the program knew when it sent the request first."""
    body: bytes


class Heard(NamedTuple):
    """An answer, or with ticket 0 a welcome (DONE, JSON), news (DONE, no words) or a refusal of it all (REFUSED)."""

    reply: Reply
    ticket: int
    position: int
    """A position in the log; for news, the epoch."""
    commit: int
    words: bytes
    """For people, or the JSON that was asked for; where the reply is MOVED, the master's name."""


REQUEST: Final = struct.Struct("<IBxxxIQ")
_ANSWER: Final = struct.Struct("<IBxxxIQQ")
REPLIES: Final = tuple(Reply)
"""On the wire a reply is its number in this order."""
_NUMBER_OF: Final = {reply: number for number, reply in enumerate(REPLIES)}
PLACE: Final = struct.Struct("<Q")


def pack_request(ask: Ask, ticket: int, since: int, body: bytes = b"") -> bytes:
    return REQUEST.pack(len(body), ask, ticket, since) + body


def pack_answer(reply: Reply, ticket: int, position: int = 0, commit: int = 0, words: bytes = b"") -> bytes:
    return _ANSWER.pack(len(words), _NUMBER_OF[reply], ticket, position, commit) + words


class Splitter:
    """What comes on a stream, as heads of a fixed size, whose first number says how many bytes follow each."""

    def __init__(self, head: struct.Struct, most: int) -> None:
        self._head, self._most = head, most
        self._parts = list[bytes]()
        self._size, self._needs = 0, head.size

    def feed(self, data: bytes) -> list[tuple[tuple[int, ...], bytes]]:
        """The fields of each head that has come whole with its body, and the body. ValueError: it is too large."""
        self._parts.append(data)
        self._size += len(data)
        if self._size < self._needs:
            return []
        whole = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        found, at, head = list[tuple[tuple[int, ...], bytes]](), 0, self._head
        self._needs = head.size
        while at + head.size <= len(whole):
            fields = head.unpack_from(whole, at)
            if fields[0] > self._most:
                raise ValueError(f"{fields[0]} bytes are too many; at most {self._most} come at once")
            end = at + head.size + fields[0]
            if end > len(whole):
                self._needs = end - at
                break
            found.append((fields, whole[at + head.size : end]))
            at = end
        self._parts, self._size = [whole[at:]], len(whole) - at
        return found


def requests_in(splitter: Splitter, data: bytes) -> list[Request]:
    """ValueError: it is no request that a node of this version knows, or is too large."""
    found = list[Request]()
    for (_, ask, ticket, since), body in splitter.feed(data):
        if not 1 <= ask <= _ASKS or not ticket:
            raise ValueError(f"request {ticket} is of kind {ask}, which this version does not know")
        found.append(Request(ask, ticket, since, body))
    return found


def answers_in(splitter: Splitter, data: bytes) -> list[Heard]:
    """ValueError: it is no answer that a program of this version knows."""
    found = list[Heard]()
    for (_, reply, ticket, position, commit), words in splitter.feed(data):
        if reply >= len(REPLIES):
            raise ValueError(f"answer {ticket} is of kind {reply}, which this version does not know")
        found.append(Heard(REPLIES[reply], ticket, position, commit, words))
    return found


def request_splitter() -> Splitter:
    return Splitter(REQUEST, LARGEST_BATCH)


def answer_splitter() -> Splitter:
    return Splitter(_ANSWER, LONGEST_WORDS)


class Welcome(NamedTuple):
    """What a node says first of a log."""

    node: str
    uuid: bytes
    description: bytes
    """Description of the type."""
    master: str
    """The master that the node knows; empty: it knows none."""
    epoch: int

    def packed(self) -> bytes:
        told = self._asdict() | {"uuid": self.uuid.hex(), "description": self.description.hex()}
        return json.dumps(told).encode()

    @classmethod
    def read(cls, words: bytes) -> Welcome:
        """Raises ValueError. What a later version adds is passed over."""
        told = json_of(words)
        try:
            made = cls(**{key: told[key] for key in cls._fields})
            if any(type(one) is not str for one in made[:4]) or type(made.epoch) is not int or len(told["uuid"]) != 32:
                raise TypeError
            return made._replace(uuid=bytes.fromhex(told["uuid"]), description=bytes.fromhex(told["description"]))
        except (KeyError, TypeError):
            raise ValueError(f"{words[:80]!r} is no welcome") from None


def json_of(words: bytes) -> Any:
    """Raises ValueError."""
    try:
        return json.loads(words)
    except RecursionError:
        raise ValueError(f"{words[:80]!r} is no answer of a node") from None


# ---- reading ----

RAW: Final = struct.Struct("<II")
"""Before each frame of a reader: its size, and 0 or why nothing more comes; then the bytes are words."""


class Refusal(IntEnum):
    """Why a reader or a request is refused: the class of the error."""

    NO_LOG = 1
    NO_RIGHT = 2
    TRIMMED = 3
    NO_RECORD = 4
    """No record begins at this position."""
    DAMAGED = 5
    LOCKED = 6
    """A cursor has another reader."""
    OTHER = 7


def log_purpose(name: str) -> str:
    return f"log/1 {name}"


def read_purpose(name: str, position: int, limit: int) -> str:
    return f"read/1 {name} {position} {limit}"


def purpose_of(purpose: str) -> tuple[str, str, int, int]:
    """Kind, name of the log, position and limit. ValueError: it is none that this version knows."""
    match purpose.split(" "):
        case ["log/1", name]:
            return "log", name, 0, 0
        case ["read/1", name, position, limit] if position.isdecimal() and limit.isdecimal():
            if int(limit) <= NO_LIMIT and int(position) <= NO_LIMIT:
                return "read", name, int(position), int(limit)
        case _:
            pass
    raise ValueError(f"{purpose!r:.80} is no stream of a log that this version knows; install the same rtmw on both")
