"""Messages between two nodes of a link about topics and routes: one JSON object a message, docs/link-control.md.

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

MOST: Final = 16000
"""Bytes of a message: what Line.say takes."""
TEXT_MOST: Final = 1024
"""Characters of a text: names of topics and types are shorter on each bus."""
WANTED_MOST: Final = 12
"""Types that one interest names; a peer that wants more of one topic asks for any."""
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
"""Half a character, which JSON can write, and UTF-8 cannot."""
_NUMBER_MOST: Final = (1 << 63) - 1
VERSION: Final = 1
PARTS: Final = ("urgent", "bulk")
"""The connections of a line: for bands 4 to 7, and for 0 to 3."""
VERBS: Final = ("subscribe", "publish")
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


@dataclass(frozen=True)
class Join:
    """The side that dialled, behind both hellos: this connection and its twin are to carry a line."""

    attempt: int
    """The same for both connections, and another one each time."""
    part: str
    """`urgent` or `bulk`."""
    line: int
    """Which line of the two nodes this side holds; 0: none."""


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
    """As in docs/session.md."""
    why: str


@dataclass(frozen=True)
class Wanted:
    """The request of all subscribers of a node for one topic and type."""

    type: int | None
    """The identity of the type; None: any."""
    name: str
    """Of the type, for people; `*`: any."""
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


@dataclass(frozen=True)
class Answer:
    """To Open, or later, when something has changed at the receiver: the route is open, or it is over."""

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
    """For so long at most."""


Message = Hello | Join | Joined | Bye | Interest | Open | Answer | Close | Advertise | Denied | Allowed | Leaving


class _Form(NamedTuple):
    """How a field stands in JSON. `read` raises ValueError for what it cannot be."""

    read: Callable[[Any], Any]
    write: Callable[[Any], Any] = copy


def _whole(least: int, most: int) -> _Form:
    def read(value: Any) -> int:
        if type(value) is not int or not least <= value <= most:
            raise ValueError(f"a whole number from {least} to {most}")
        return value

    return _Form(read)


def _read_text(value: Any) -> str:
    if not isinstance(value, str) or len(value) > TEXT_MOST or _SURROGATE.search(value):
        raise ValueError(f"a text of at most {TEXT_MOST} characters")
    return value


def _read_name(value: Any) -> str:
    if not _read_text(value):
        raise ValueError("a name")
    return cast("str", value)


def _one_of(words: tuple[str, ...]) -> _Form:
    def read(value: Any) -> str:
        if value not in words:
            raise ValueError(f"one of {', '.join(words)}")
        return cast("str", value)

    return _Form(read)


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


def _read_wanted(value: Any) -> tuple[Wanted, ...]:
    rows = cast("list[Any]", value) if isinstance(value, list | tuple) else None
    if rows is None or len(rows) > WANTED_MOST:
        raise ValueError(f"a list of at most {WANTED_MOST}")
    return tuple(_from(Wanted, row) for row in rows)


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


def _write_wanted(value: tuple[Wanted, ...]) -> list[dict[str, Any]]:
    return [_row(one) for one in value]


_TEXT = _Form(_read_text, _write_text)
_NAME = _Form(_read_name)
_NUMBER = _whole(0, _NUMBER_MOST)
_ROUTE = _whole(1, (1 << 32) - 1)
_DEPTH = _whole(0, (1 << 32) - 1)
_FLAG = _Form(_read_flag)
_VERB = _one_of(VERBS)
_RELIABILITY = _Form(_read_reliability, _write_name)
_FORMS: Final[dict[type, dict[str, _Form]]] = {
    Hello: {
        "node": _Form(_read_uuid, _write_uuid),
        "incarnation": _NUMBER,
        "lowest": _whole(1, 65535),
        "highest": _whole(1, 65535),
        "host": _TEXT,
        "pid": _whole(0, (1 << 32) - 1),
        "domain": _whole(0, 65535),
        "region": _TEXT,
        "site": _NUMBER,
        "hops": _whole(1, 255),
        "kernel": _TEXT,
    },
    Join: {"attempt": _NUMBER, "part": _one_of(PARTS), "line": _NUMBER},
    Joined: {"line": _whole(1, _NUMBER_MOST), "is_held": _FLAG},
    Bye: {"code": _whole(0, 65535), "why": _TEXT},
    Wanted: {
        "type": _Form(_read_identity, _write_identity),
        "name": _TEXT,
        "reliability": _RELIABILITY,
        "depth": _DEPTH,
        "history": _DEPTH,
        "min_interval_ns": _NUMBER,
        "deadline_ns": _NUMBER,
    },
    Interest: {"topic": _NAME, "wanted": _Form(_read_wanted, _write_wanted)},
    Open: {
        "route": _ROUTE,
        "topic": _NAME,
        "reliability": _RELIABILITY,
        "priority": _whole(0, PRIORITIES - 1),
        "depth": _DEPTH,
        "history": _DEPTH,
        "lifetime_ns": _NUMBER,
        "description": _Form(_read_description, _write_description),
    },
    Answer: {"route": _ROUTE, "cause": _TEXT, "why": _TEXT},
    Close: {"route": _ROUTE, "sent": _NUMBER},
    Advertise: {"topic": _NAME, "is_published": _FLAG},
    Denied: {"topic": _NAME, "cause": _TEXT, "why": _TEXT, "verb": _VERB},
    Allowed: {"topic": _NAME, "verb": _VERB},
    Leaving: {"for_ns": _NUMBER},
}
assert all([*forms] == [field.name for field in fields(of)] for of, forms in _FORMS.items())
_LEFT_OUT: Final = ((Hello, "kernel", ""), (Denied, "verb", VERBS[0]))
"""Fields that are not written where they have this value, and may be missing."""
_KINDS: Final = {of.__name__.lower(): of for of in _FORMS if of is not Wanted}


def pack(message: Message) -> bytes:
    """As bytes. Words longer than TEXT_MOST are cut: the peer would refuse the message."""
    row = {"is": type(message).__name__.lower(), **_row(message)}
    return json.dumps(row, separators=(",", ":"), ensure_ascii=False).encode()


def _row(value: Message | Wanted) -> dict[str, Any]:
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
