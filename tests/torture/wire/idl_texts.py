"""Schemas of recordings as hostile programs write them: IDL and the text of ROS 2."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any, Final

from rtmw.recording.contents import Channel, Schema
from rtmw.recording.schemas import idl_reader, idl_syntax, message_type_of, to_idl
from rtmw.recording.schemas.idl_reader import from_idl
from rtmw.recording.schemas.ros2 import from_ros2msg
from rtmw.types.description import from_document, to_document
from tests.torture.wire.types_bounds import Bounds, main

IDL: Final = (
    """module a { module b {
    enum E { @value(3) X, Y }; bitmask M { @position(2) p, q }; typedef sequence<long, 5> L;
    const long N = 3 * (2 + 1) << 2; const double D = N / 2.0;
    struct S { @key long x; string<N> s; L l; float f[N][2]; @optional E e; sequence<octet> o; char c; boolean b; };
    @appendable struct T : S { S inner; M m; }; typedef map<string, long> P; struct H { P p; };
    union U switch (long) { case 0: long a; case 1: case 2: S s; default: double d; };
    union V switch (E) { case X: long a; }; struct Top { U u; V v; T t; sequence<T> ts; }; }; };""",
    """================================================================================
IDL: pkg/msg/A
module pkg { module msg { struct A { @verbatim(language="comment", text="x" "\\n" "y") uint8 v; double d[9];
    sequence<string<10>, 3> q; /* a comment */ @unit("m") long z; // another
}; }; };""",
)
ROS2: Final = (
    """# c
int32 a
float64[] b
string<=10 name "x"
uint8 CONST=5
geometry/Point[<=3] pts
byte[4] q
Header h
================================================================================
MSG: geometry/Point
float64 x 0.0
===
MSG: std_msgs/Header
builtin_interfaces/Time stamp
""",
)
WORDS: Final = (
    "struct",
    "union",
    "enum",
    "module",
    "const",
    "typedef",
    "case",
    "default",
    "switch",
    "sequence<",
    "string<",
    "map<",
    "@key",
    "@default(",
    "@value(",
    "{",
    "}",
    "<",
    ">",
    "(",
    ")",
    "[",
    "]",
    ";",
    ":",
    ",",
    "=",
    "*",
    "<<",
    ">>",
    "-",
    "+",
    "~",
    "/",
    "%",
    "|",
    "&",
    "^",
    "::",
    '"',
    "'",
    "/*",
    "*/",
    "//",
    "\\",
    "#include",
    "1e999",
    "0x",
    "07",
    "08",
    "-1",
    "9**9",
    "1<<99999999",
    "%s",
    "\x00",
    "é",
    "\n",
    "===",
    "MSG:",
    "[<=",
    "[]",
    "[99999999999]",
    "(((((((((((",
    "sequence<sequence<sequence<",
    "S",
    "T",
    "E",
    "N",
    "L",
    "P",
    "X",
)
NUMBERS: Final = ("0", "1", str(1 << 31), str(1 << 63), str(1 << 64), str(10**30), "9" * 5000)
CHAINS: Final = (
    ("const long A{0} = A{1} + A{1};", "const long A{0} = 0;", "long a[A0 + 1]"),
    ("const long A{0} = A{1} * A{1};", "const long A{0} = 3;", "long a[A0]"),
    ("const double A{0} = A{1} * A{1};", "const double A{0} = 1e9;", "@id(A0) long a"),
    ("const string A{0} = A{1} + A{1};", 'const string A{0} = "aaaa";', "@hashid(A0) long a"),
    ("typedef map<A{1}, A{1}> A{0};", "typedef long A{0};", "A0 a"),
    ("typedef sequence<A{1}> A{0};", "typedef long A{0};", "A0 a"),
    ("typedef A{1} A{0}[9][9];", "typedef long A{0};", "A0 a"),
    ("struct A{0} {{ A{1} a; A{1} b; }};", "struct A{0} {{ long a; }};", "A0 a"),
    ("struct A{0} : A{1} {{ long a{0}; }};", "struct A{0} {{ long a; }};", "A0 a"),
    ("enum A{0} {{ @value(B{1} + B{1}) B{0} }};", "enum A{0} {{ B{0} }};", "A0 a"),
)
"""A link that leads to the next, the last one, and a member that uses the first: what grows twofold with each link."""


@dataclass(frozen=True)
class Language:
    """How a text is read, and what of it."""

    texts: tuple[str, ...]
    read: Callable[[str, str], Any]
    names: tuple[str, ...]
    encoding: str


LANGUAGES: Final = (
    Language(IDL, lambda text, name: from_idl(text, name), ("a::b::Top", "pkg::msg::A", "a::b::H"), "omgidl"),
    Language(ROS2, from_ros2msg, ("x/msg/X", "pkg/A"), "ros2msg"),
)


def attack(seed: int, seconds: float) -> str:
    chance, bounds, counts = Random(seed), Bounds(), Counter[str]()
    until = time.process_time() + seconds
    while time.process_time() < until:
        language = chance.choice(LANGUAGES)
        text, name = _text(language, chance)
        schema = bounds.run(partial(language.read, text, name), text)
        record = Schema(1, name, language.encoding, text.encode(errors="replace"))
        bounds.run(partial(message_type_of, record, Channel(1, "t", 1, "cdr")), text)
        counts["texts"] += 1
        if schema is not None:
            counts["read"] += 1
            whole = bounds.run(lambda schema=schema: from_document(to_document(schema)), text)
            counts["types"] += bounds.run(lambda whole=whole: whole is not None and to_idl(whole), text) is not None
    assert counts["read"], "no text was ever read: the attack attacks nothing"
    return ", ".join(f"{count} {what}" for what, count in counts.items())


def _text(language: Language, chance: Random) -> tuple[str, str]:
    """A text, and the name of a type that may be in it."""
    if language.texts == IDL and chance.random() < 0.5:
        return _chain(chance), "T"
    text = chance.choice(language.texts)
    for _ in range(chance.choice((0, 1, 1, 2, 4, 8))):
        text = _changed(text, chance)
    return text, chance.choice(language.names)


def _chain(chance: Random) -> str:
    (link, last, use), length = chance.choice(CHAINS), chance.choice((3, 10, 40, 40, 300, 3000))
    text = "\n".join([*(link.format(i, i + 1) for i in range(length)), last.format(length), f"struct T {{ {use}; }};"])
    return _changed(text, chance) if chance.random() < 0.1 else text


def _changed(text: str, chance: Random) -> str:
    at, other = chance.randrange(len(text) + 1), chance.randrange(len(text) + 1)
    match chance.randrange(6):
        case 0:
            return text[:at] + chance.choice(WORDS) + text[at:]
        case 1:
            return text[:at] + text[at + chance.randrange(1, 12) :]
        case 2:
            return text[:at] + text[other : other + chance.randrange(1, 60)] + text[at:]
        case 3:
            return (
                text[:at]
                + chr(chance.choice((0, 9, 10, 34, 39, 60, 92, 233, chance.randrange(32, 127))))
                + text[at + 1 :]
            )
        case 4:
            return text[:at] + chance.choice(WORDS) * chance.choice((1, 1, 2, 2, 30, 30, 400, 20_000)) + text[at:]
        case _:
            return text[:at] + chance.choice(NUMBERS) + text[at:]


def _never_remembered() -> None:
    reader: Any = idl_reader._Reader
    reader._once = lambda self, name, compute: compute(self._declarations[name])


MUTANTS: Final[dict[str, Callable[[], None]]] = {
    "constants are computed again": _never_remembered,
    "constants of any size": lambda: setattr(idl_reader, "bounded", lambda value: value),
    "any number of types in a member": lambda: setattr(idl_reader, "DEEPEST", 1 << 30),
    "texts as Python has them": lambda: setattr(idl_syntax, "unquoted", lambda token: eval(token.text)),
}
"""Readers without one of their bounds: the attack must see harm."""

if __name__ == "__main__":
    main(attack, MUTANTS)
