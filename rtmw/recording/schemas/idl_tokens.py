"""IDL text in words, for the parser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from math import isfinite
from typing import Final, NoReturn

from rtmw.errors import UnsupportedType
from rtmw.types.checks import shown

_TOKEN: Final = re.compile(
    r"""(?P<gap>\s+|//[^\n]*|/\*.*?(?:\*/|\Z)|\#[^\n]*|^={3,}[ \t]*$|^IDL:[^\n]*$)
    |(?P<text>L?"(?:\\.|[^"\\])*(?:"|\\?\Z))
    |(?P<character>L?'(?:\\(?:x[0-9a-fA-F]{1,2}|[0-7]{1,3}|.)|[^'\\])')
    |(?P<number>(?:\d+\.\d*|\.\d+|\d+(?=[eE]))(?:[eE][+-]?\d+)?[fFdDlL]?|0[xX][0-9a-fA-F]+|\d+)
    |(?P<word>[A-Za-z_]\w*)
    |(?P<mark>::|.)""",
    re.ASCII | re.DOTALL | re.MULTILINE | re.VERBOSE,
)
"""Comments, lines of the preprocessor, and the lines that stand between the files of a ROS 2 schema are gaps. A comment
or text without an end is one word up to the end: it would be looked for again at each of its characters."""

TEXT_LIMIT: Final = 1 << 20
"""Characters of a schema; the largest of ROS 2 with all its comments has a tenth."""
TOKEN_LIMIT: Final = 1 << 16
"""Words of a schema, without its comments."""
_NUMBER_LIMIT: Final = 64
"""Characters of a number."""
_NAME_LIMIT: Final = 127
_ESCAPED: Final = re.compile(r"\\(?:x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|([0-7]{1,3})|(.?))", re.DOTALL)
_ESCAPES: Final = {"n": "\n", "t": "\t", "v": "\v", "b": "\b", "r": "\r", "f": "\f", "a": "\a"}


@dataclass(frozen=True, slots=True)
class Token:
    """A word of the text, and where it stands."""

    kind: str
    """`text`, `character`, `number`, `word`, `mark`, or `end`."""
    text: str
    position: int


class Tokens:
    """Reads the words one after the other."""

    def __init__(self, text: str) -> None:
        if len(text) > TEXT_LIMIT:
            raise UnsupportedType(f"an IDL of {len(text)} characters; at most {TEXT_LIMIT} are read")
        self._text = text
        self._tokens = [*islice(_words(text), TOKEN_LIMIT)]
        self._next = 0
        if len(self._tokens) == TOKEN_LIMIT:
            raise UnsupportedType(f"an IDL of more than {TOKEN_LIMIT} words")
        self._tokens.append(Token("end", "the end of the text", len(text)))

    @property
    def ahead(self) -> Token:
        """The word that comes next."""
        return self._tokens[self._next]

    def take(self) -> Token:
        """The next word, whatever it is."""
        token = self._tokens[self._next]
        self._next += token.kind != "end"
        return token

    def at(self, *texts: str) -> bool:
        """Does one of these come next?"""
        return self.ahead.kind in ("word", "mark") and self.ahead.text in texts

    def accept(self, *texts: str) -> bool:
        """Take these words, if all of them come next, in this order."""
        found = [token.text for token in self._tokens[self._next : self._next + len(texts)]]
        if found != [*texts]:
            return False
        self._next += len(texts)
        return True

    def expect(self, text: str) -> None:
        """Take this word. Raises UnsupportedType when another one comes."""
        if not self.at(text):
            self.refuse(f"{text!r}")
        self.take()

    def name(self) -> str:
        """Take an identifier, without the underscore that escapes it."""
        if self.ahead.kind != "word":
            self.refuse("a name")
        text = self.take().text
        if len(text) > _NAME_LIMIT:
            raise UnsupportedType(f"IDL name {shown(text)} has {len(text)} characters; at most {_NAME_LIMIT} are read")
        return text[1:] if text.startswith("_") and len(text) > 1 else text

    def refuse(self, wanted: str) -> NoReturn:
        """Raise UnsupportedType: something else should stand here."""
        line = self._text.count("\n", 0, self.ahead.position) + 1
        raise UnsupportedType(f"IDL line {line}: {wanted} expected, {shown(self.ahead.text)} found")


def _words(text: str) -> Iterator[Token]:
    for match in _TOKEN.finditer(text):
        if match.lastgroup != "gap":
            yield Token(str(match.lastgroup), match.group(), match.start())


def unquoted(token: Token) -> str:
    """The value of a text or character as IDL and C write it."""
    inner = token.text.removeprefix("L")
    if len(inner) < 2 or inner[-1] != inner[0]:
        raise UnsupportedType(f"the IDL has a text without an end: {shown(inner)}")
    return _ESCAPED.sub(_escape, inner[1:-1])


def _escape(match: re.Match[str]) -> str:
    if match[4] is not None:
        return _ESCAPES.get(match[4], match[4])
    return chr(int(match[3], 8) if match[3] else int(match[1] or match[2], 16))


def number(text: str) -> int | float:
    """The value of a number as IDL and C write it. Raises UnsupportedType for one that has no 64 bits."""
    if len(text) > _NUMBER_LIMIT:
        raise UnsupportedType(f"the IDL has a number of {len(text)} digits")
    if text.lower().startswith("0x"):
        return bounded(int(text, 16))
    if text.isdigit():
        return bounded(int(text, 8) if text.startswith("0") and set(text) <= set("01234567") else int(text))
    return bounded(float(text.rstrip("fFdDlL")))


def bounded(value: int | float) -> int | float:
    """A constant of IDL: a finite number, or a whole one of 64 bits with a sign or without. Raises UnsupportedType."""
    fits = isfinite(value) if isinstance(value, float) else -(1 << 63) <= value < 1 << 64
    if not fits:
        raise UnsupportedType(f"the IDL has the constant {shown(value)}, which has no place in 64 bits")
    return value
