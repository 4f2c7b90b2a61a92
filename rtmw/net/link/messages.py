"""Messages between two nodes of a link about topics and routes: one JSON object each (docs/formats/link-control.md).

Each message that comes is read here, within bounds, before any other code looks at it. A field that is not known is
passed over, and so is a message of a kind that is not known: both are of a newer version.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, fields
from typing import Any, Final, NamedTuple, cast
from uuid import UUID

from rtmw.net.session.errors import Violation
from rtmw.qos import PRIORITIES, Reliability
from rtmw.types.message_type import DESCRIPTION_LIMIT

TEXT_MOST: Final = 1024
"""Characters of a text: names of topics and types are shorter on each bus."""
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
"""Half a character, which JSON can write, and UTF-8 cannot."""
NUMBER_MOST: Final = (1 << 63) - 1


class Form(NamedTuple):
    """How a field stands in JSON. `read` raises ValueError for what it cannot be."""

    read: Callable[[Any], Any]
    write: Callable[[Any], Any] = copy


def whole(least: int, most: int) -> Form:
    def read(value: Any) -> int:
        if type(value) is not int or not least <= value <= most:
            raise ValueError(f"a whole number from {least} to {most}")
        return value

    return Form(read)


def _read_text(value: Any) -> str:
    if not isinstance(value, str) or len(value) > TEXT_MOST or _SURROGATE.search(value):
        raise ValueError(f"a text of at most {TEXT_MOST} characters")
    return value


def _read_name(value: Any) -> str:
    if not _read_text(value):
        raise ValueError("a name")
    return cast("str", value)


def one_of(words: tuple[str, ...]) -> Form:
    def read(value: Any) -> str:
        if value not in words:
            raise ValueError(f"one of {', '.join(words)}")
        return cast("str", value)

    return Form(read)


def _read_flag(value: Any) -> bool:
    if type(value) is not bool:
        raise ValueError("true or false")
    return value


def _read_uuid(value: Any) -> UUID:
    try:
        return UUID(hex=_read_text(value))
    except ValueError:
        raise ValueError("a UUID of 32 hexadecimal digits") from None


def _read_reliability(value: Any) -> Reliability:
    if not isinstance(value, str) or value not in Reliability.__members__:
        raise ValueError(f"one of {', '.join(Reliability.__members__)}")
    return Reliability[value]


def _read_identity(value: Any) -> int | None:
    if value is None:
        return None
    if not isinstance(value, str) or len(value) != 16:
        raise ValueError("16 hexadecimal digits, or null")
    return int(value, 16)


def _read_description(value: Any) -> bytes:
    if not isinstance(value, str) or len(value) > 4 * (DESCRIPTION_LIMIT + 2) // 3:
        raise ValueError(f"at most {DESCRIPTION_LIMIT} bytes in base64")
    return base64.b64decode(value, validate=True)


def _write_text(value: str) -> str:
    return value[:TEXT_MOST]


def _write_uuid(value: UUID) -> str:
    return value.hex


def _write_name(value: Reliability) -> str:
    return value.name


def _write_identity(value: int | None) -> str | None:
    return None if value is None else f"{value:016x}"


def _write_description(value: bytes) -> str:
    return base64.b64encode(value).decode()


TEXT = Form(_read_text, _write_text)
NAME = Form(_read_name)
NUMBER = whole(0, NUMBER_MOST)
ROUTE = whole(1, (1 << 32) - 1)
DEPTH = whole(0, (1 << 32) - 1)
FLAG = Form(_read_flag)
RELIABILITY = Form(_read_reliability, _write_name)
UUID_HEX = Form(_read_uuid, _write_uuid)
IDENTITY = Form(_read_identity, _write_identity)
DESCRIPTION = Form(_read_description, _write_description)


MOST: Final = 16000
"""Bytes of a message: what Line.say takes."""
WANTED_MOST: Final = 12
"""Types that one interest names; a peer that wants more of one topic asks for any."""
PROGRAMS_MOST: Final = 50
"""Programs of one topic that are told."""
VERSION: Final = 1
PARTS: Final = ("urgent", "bulk")
"""The connections of a line: for bands 4 to 7, and for 0 to 3."""
TWIN: Final = "twin"
"""The connection for copies of urgent messages, which a line may have besides."""
VERBS: Final = ("subscribe", "publish")
COUNT_MOST: Final = (1 << 32) - 1
"""Messages that one Unsent tells of."""
CHANGED: Final = "changed"
"""Why a route is over that may be opened again with another number."""


@dataclass(frozen=True)
class Hello:
    """The identity of the node; the first message of each side, and said once."""

    node: UUID
    incarnation: int
    """Which life of the node: a later one has a larger number."""
    lowest: int
    highest: int
    """Versions of these messages that it speaks."""
    host: str
    pid: int
    domain: int
    region: str
    """The name of the region of its domain (neighbours.origin): publishers of a node are told apart by it."""
    site: int
    """The number of its site, by which hubs will tell sites apart; 0: none."""
    hops: int
    """Over how many nodes what it sends may go."""
    kernel: str = ""
    """Which kernel it runs on, if this connection does not leave the host as far as it sees; else empty."""
    twin: bool = False
    """It takes a twin."""
    lease_ms: int = 0
    """Milliseconds for which it waits for a link that is cut; 0: it does not say."""


@dataclass(frozen=True)
class Join:
    """The side that dialled, behind both hellos: this connection and another one are to carry a line, or this one is to
    be the twin of a line."""

    attempt: int
    """A number that both connections of one attempt have, and no other attempt."""
    part: str
    """`urgent`, `bulk` or `twin`."""
    line: int
    """The number of the line of the two nodes that this side holds; 0: none."""


@dataclass(frozen=True)
class Joined:
    """The answer, on both connections: they carry this line from now on."""

    line: int
    is_held: bool
    """It is the one that Join named, and goes on where it was."""


@dataclass(frozen=True)
class Bye:
    """The connection ends, and why."""

    code: int
    """One of the codes in docs/formats/session.md."""
    why: str


@dataclass(frozen=True)
class Wanted:
    """The request of all subscribers of a node for one topic and type."""

    type: int | None
    """The identity of the type; None: any."""
    name: str
    """Name of the type, for people; `*`: any."""
    reliability: Reliability
    depth: int
    history: int
    min_interval_ns: int
    """The shortest; 0: one of them wants all messages."""
    deadline_ns: int
    """The shortest; 0: none has one."""


@dataclass(frozen=True)
class Interest:
    """The requests of the sender for a topic, in place of those before; none: `wanted` is empty."""

    topic: str
    wanted: tuple[Wanted, ...]


@dataclass(frozen=True)
class Open:
    """The sender has publishers of a topic that the receiver wants, and asks to carry them by this route."""

    route: int
    """From 1 on, larger than each that the sender has used on this line."""
    topic: str
    reliability: Reliability
    priority: int
    """The highest of its publishers."""
    depth: int
    history: int
    """Messages that are kept for late subscribers; 0: none."""
    lifetime_ns: int
    """The longest of its publishers; 0: one of them has none."""
    description: bytes
    """The type."""
    begins: int = 0
    """Messages of its lane that the sender has sent, or lost, before this route."""


@dataclass(frozen=True)
class Answer:
    """The answer to Open, or later news of the receiver: the route is open, or it is over."""

    route: int
    cause: str
    """Empty: it is open; else why not, in one word. CHANGED: the sender may open another one at once."""
    why: str


@dataclass(frozen=True)
class Close:
    """The sender sends nothing more by this route. Messages may still be on their way."""

    route: int
    sent: int
    """How many messages it has sent by it."""


@dataclass(frozen=True)
class Unsent:
    """Messages of a route that the sender was to carry and has not, since it said so last: subscribers count them."""

    route: int
    expired: int
    thinned: int


@dataclass(frozen=True)
class Advertise:
    """The sender has publishers of a topic that the receiver may have, or no more."""

    topic: str
    is_published: bool


@dataclass(frozen=True)
class Denied:
    """The receiver may not have a topic that it wants, or may not bring one that it advertises."""

    topic: str
    cause: str
    why: str
    verb: str = VERBS[0]
    """What it may not do."""


@dataclass(frozen=True)
class Allowed:
    """What was Denied is not any more."""

    topic: str
    verb: str


@dataclass(frozen=True)
class Leaving:
    """The sender ends, and another one will follow: RELIABLE topics are to be kept for that."""

    for_ns: int
    """Nanoseconds for which they are kept at most."""


@dataclass(frozen=True)
class Clock:
    """The wall clock of the sender was set: it differs by so much from the steady clock that PONG tells."""

    set_ns: int


@dataclass(frozen=True)
class Using:
    """A program that publishes on a topic, or subscribes to it."""

    pid: int
    program: str
    """Its name; not its arguments, which may have a password."""
    publishes: bool
    type: str
    """The name of the type; `*`: any."""
    reliability: Reliability


@dataclass(frozen=True)
class Programs:
    """The programs of the sender that use a topic, in place of those before; none: `programs` is empty."""

    topic: str
    programs: tuple[Using, ...]


Message = (
    Hello | Join | Joined | Bye | Interest | Open | Answer | Close | Unsent | Advertise | Denied | Allowed | Leaving
    | Clock | Programs
)  # fmt: skip


def _rows_of(of: type[Any], most: int) -> Form:
    """How several of these stand in JSON."""

    def read(value: Any) -> tuple[Any, ...]:
        rows = cast("list[Any]", value) if isinstance(value, list | tuple) else None
        if rows is None or len(rows) > most:
            raise ValueError(f"a list of at most {most}")
        return tuple(_from(of, row) for row in rows)

    def write(value: tuple[Any, ...]) -> list[dict[str, Any]]:
        return [_row(one) for one in value]

    return Form(read, write)


_FORMS: Final[dict[type, dict[str, Form]]] = {
    Hello: {
        "node": UUID_HEX,
        "incarnation": NUMBER,
        "lowest": whole(1, 65535),
        "highest": whole(1, 65535),
        "host": TEXT,
        "pid": whole(0, (1 << 32) - 1),
        "domain": whole(0, 65535),
        "region": TEXT,
        "site": NUMBER,
        "hops": whole(1, 255),
        "kernel": TEXT,
        "twin": FLAG,
        "lease_ms": whole(0, 3_600_000),
    },
    Join: {"attempt": NUMBER, "part": one_of((*PARTS, TWIN)), "line": NUMBER},
    Joined: {"line": whole(1, NUMBER_MOST), "is_held": FLAG},
    Bye: {"code": whole(0, 65535), "why": TEXT},
    Wanted: {
        "type": IDENTITY,
        "name": TEXT,
        "reliability": RELIABILITY,
        "depth": DEPTH,
        "history": DEPTH,
        "min_interval_ns": NUMBER,
        "deadline_ns": NUMBER,
    },
    Interest: {"topic": NAME, "wanted": _rows_of(Wanted, WANTED_MOST)},
    Open: {
        "route": ROUTE,
        "topic": NAME,
        "reliability": RELIABILITY,
        "priority": whole(0, PRIORITIES - 1),
        "depth": DEPTH,
        "history": DEPTH,
        "lifetime_ns": NUMBER,
        "description": DESCRIPTION,
        "begins": NUMBER,
    },
    Answer: {"route": ROUTE, "cause": TEXT, "why": TEXT},
    Close: {"route": ROUTE, "sent": NUMBER},
    Unsent: {"route": ROUTE, "expired": whole(0, COUNT_MOST), "thinned": whole(0, COUNT_MOST)},
    Advertise: {"topic": NAME, "is_published": FLAG},
    Denied: {"topic": NAME, "cause": TEXT, "why": TEXT, "verb": one_of(VERBS)},
    Allowed: {"topic": NAME, "verb": one_of(VERBS)},
    Leaving: {"for_ns": NUMBER},
    Clock: {"set_ns": whole(-NUMBER_MOST, NUMBER_MOST)},
    Using: {
        "pid": whole(0, (1 << 32) - 1),
        "program": TEXT,
        "publishes": FLAG,
        "type": TEXT,
        "reliability": RELIABILITY,
    },
    Programs: {"topic": NAME, "programs": _rows_of(Using, PROGRAMS_MOST)},
}
assert all([*forms] == [field.name for field in fields(of)] for of, forms in _FORMS.items())
_LEFT_OUT: Final = (
    (Hello, "kernel", ""), (Hello, "twin", False), (Hello, "lease_ms", 0), (Open, "begins", 0),
    (Denied, "verb", VERBS[0]),
)  # fmt: skip
"""Fields that are not written where they have this value, and may be missing."""
_KINDS: Final = {of.__name__.lower(): of for of in _FORMS if of not in (Wanted, Using)}


def pack(message: Message) -> bytes:
    """The bytes of a message. Words longer than TEXT_MOST are cut, since the peer would refuse the message."""
    row = {"is": type(message).__name__.lower(), **_row(message)}
    return json.dumps(row, separators=(",", ":"), ensure_ascii=False).encode()


def _row(value: Message | Wanted | Using) -> dict[str, Any]:
    of, found = type(value), vars(value)
    said = [name for name in _FORMS[of] if (of, name, found[name]) not in _LEFT_OUT]
    return {name: _FORMS[of][name].write(found[name]) for name in said}


def read(data: bytes | bytearray | memoryview) -> Message | None:
    """The message; None: of a kind that this version does not know. Raises Violation."""
    if len(data) > MOST:
        raise Violation(f"a message of {len(data)} bytes; at most {MOST} are read")
    try:
        found: Any = json.loads(bytes(data))
    except (ValueError, RecursionError) as error:
        raise Violation(f"a message that is not JSON: {error}") from None
    kind: Any = cast("dict[str, Any]", found).get("is") if isinstance(found, dict) else None
    if not isinstance(kind, str):
        raise Violation(f"a message that does not say what it is: {found!r:.100}")
    of = _KINDS.get(kind)
    if of is None:
        return None
    try:
        return cast("Message", _from(of, found))
    except ValueError as error:
        raise Violation(f"{kind}: {error}") from None


def _from(of: type[Any], found: Any) -> Any:
    if not isinstance(found, dict):
        raise ValueError(f"{found!r:.100} is no object")
    row, values = cast("dict[str, Any]", found), dict[str, Any]()
    for name, form in _FORMS[of].items():
        if name not in row:
            if any((of, name) == left[:2] for left in _LEFT_OUT):
                continue
            raise ValueError(f"it has no {name}")
        try:
            values[name] = form.read(row[name])
        except ValueError as error:
            raise ValueError(f"{name} is {row[name]!r:.100}; it must be {error}") from None
    return of(**values)
