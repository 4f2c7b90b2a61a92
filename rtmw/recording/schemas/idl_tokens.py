"""IDL text in words, for the parser."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, NoReturn

from rtmw.errors import UnsupportedType

_TOKEN: Final = re.compile(
    r"""(?P<gap>\s+|//[^\n]*|/\*.*?\*/|\#[^\n]*|^={3,}[ \t]*$|^IDL:[^\n]*$)
    |(?P<text>L?"(?:\\.|[^"\\])*")
    |(?P<character>L?'(?:\\(?:x[0-9a-fA-F]{1,2}|[0-7]{1,3}|.)|[^'\\])')
    |(?P<number>(?:\d+\.\d*|\.\d+|\d+(?=[eE]))(?:[eE][+-]?\d+)?[fFdDlL]?|0[xX][0-9a-fA-F]+|\d+)
    |(?P<word>[A-Za-z_]\w*)
    |(?P<mark>::|.)""",
    re.ASCII | re.DOTALL | re.MULTILINE | re.VERBOSE,
)
"""Comments, lines of the preprocessor, and the lines that stand between the files of a ROS 2 schema are gaps."""


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
        self._text = text
        self._tokens = [
            Token(str(match.lastgroup), match.group(), match.start())
            for match in _TOKEN.finditer(text)
            if match.lastgroup != "gap"
        ]
        self._tokens.append(Token("end", "the end of the text", len(text)))
        self._next = 0

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
        return text[1:] if text.startswith("_") and len(text) > 1 else text

    def refuse(self, wanted: str) -> NoReturn:
        """Raise UnsupportedType: something else should stand here."""
        line = self._text.count("\n", 0, self.ahead.position) + 1
        raise UnsupportedType(f"IDL line {line}: {wanted} expected, {self.ahead.text!r} found")
