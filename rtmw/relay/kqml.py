"""Bodies in KQML (R12): `(tell :sender AODB :content "(gate CA981 12)")`, as agents of many makers write them.

The standard is the draft of the KQML Advisory Group of 1993 and Labrou and Finin's of 1997. A parameter is a word, a
text in quotes, a list in parentheses, or an expression with a quotation mark ', ` or , before it. A body is read as
text: in GBK the second byte of a character may be that of a backslash.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from rtmw.errors import RtmwError

__all__ = ["ERROR", "SORRY", "SUBSCRIBE", "KqmlError", "Performative", "parse"]

SUBSCRIBE: Final = "subscribe"
"""To a subject: what comes to it is pushed to the sender; of :from, with :command, as :about, if these are said."""
UNSUBSCRIBE: Final = "unsubscribe"
"""Ends that, with the same parameters; with none of them, all that the sender has of the subject."""
SORRY: Final = "sorry"
"""The order is understood, and cannot be done."""
ERROR: Final = "error"
"""The order is not understood."""
DEEPEST: Final = 64
"""Lists in one another."""
_WORD: Final = re.compile(r"[^\s()\"'`,;|\\#:][^\s()\"'`,;|\\#]*")
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9-]*")
_TOKEN: Final = re.compile(
    rf'\s*(?:(?P<open>\()|(?P<close>\))|:(?P<key>{_WORD.pattern})|(?P<text>["#])|(?P<sign>[\'`,])'
    rf"|(?P<word>{_WORD.pattern}))"
)
BROKEN: Final = "("
"""In the place of a performative: a list that is no single message of KQML."""
_IS_LIST: Final = re.compile(r"[\s\x00-\x20\x7f-\xa0\xad\u200b-\u200f\u2028-\u202f\u2060-\u206f\ufeff\ufffd]*+\(")
"""The opening of a list, also behind signs that nobody sees, which a reader may skip."""
_BEGINS: Final = re.compile(r"\s*\(\s*([A-Za-z][A-Za-z0-9-]{0,63})(?![A-Za-z0-9-])")
_LENGTH: Final = re.compile(r'(\d{1,9})"')
_QUOTED: Final = re.compile(r'((?:[^"\\]+|\\.)*+)"', re.DOTALL)
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)
_SPACE: Final = re.compile(r"\s*")


class KqmlError(RtmwError, ValueError):
    """This text is no performative of KQML; the message says where, and what was expected."""


@dataclass(frozen=True)
class Performative:
    """One body. A value is the text between its quotes, a word, or a list as it was written."""

    name: str
    parameters: Mapping[str, str] = field(default_factory=dict[str, str])
    """By name, without the colon, in the order of the body."""

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise KqmlError(f"{self.name!r} is no performative; it is a word such as tell or ask-one")
        for name in self.parameters:
            if not _WORD.fullmatch(name):
                raise KqmlError(f"{name!r} is no name of a parameter; it is a word, such as content")

    def get(self, name: str, default: str = "") -> str:
        """A parameter such as `content` or `reply-with`."""
        return self.parameters.get(name, default)

    def __str__(self) -> str:
        """The performative in KQML. A value that is neither a word nor a list stands in quotes."""
        return f"({' '.join((self.name, *(f':{name} {_written(value)}' for name, value in self.parameters.items())))})"


def parse(text: str) -> Performative:
    """Reads a body. Raises KqmlError. If a parameter is there twice, the last one counts, as in the drafts."""
    if not isinstance(text, str):
        raise KqmlError(f"it is of {type(text).__name__}, and KQML is text: decode it, in the charset of its agent")
    reader = _Reader(text)
    reader.take("'('", "open")
    name = reader.take("a performative", "word")["word"]
    parameters = dict[str, str]()
    while key := reader.take("a parameter such as :content, or ')',", "key", "close")["key"]:
        parameters[key] = reader.value()
    reader.end()
    return Performative(name, parameters)


def performative_of(text: str) -> str | None:
    """The name of the performative that a body begins with, in lower case, whatever follows it; BROKEN: it begins as a
    list without one; None: it is no list."""
    if not _IS_LIST.match(text):
        return None
    found = _BEGINS.match(text)
    return found[1].lower() if found else BROKEN


def _written(value: str) -> str:
    if _WORD.fullmatch(value) or _is_list(value):
        return value
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _is_list(value: str) -> bool:
    if not value.startswith("("):
        return False
    reader = _Reader(value)
    try:
        return reader.value() == value and reader.at == len(value)
    except KqmlError:
        return False


class _Reader:
    """A place in a text."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0

    def _fail(self, wanted: str) -> KqmlError:
        found = self.text[self.at : self.at + 20]
        return KqmlError(f"at character {self.at}: {wanted} is expected, and {found!r} stands there" if found else
                         f"the text ends where {wanted} is expected")  # fmt: skip

    def take(self, wanted: str, *kinds: str) -> re.Match[str]:
        """The next token, which must be of one of these kinds."""
        found = _TOKEN.match(self.text, self.at)
        if found is None or found.lastgroup not in kinds:
            raise self._fail(wanted)
        self.at = found.end()
        return found

    def value(self) -> str:
        """A text without its quotes, or a word or list as it stands."""
        space = _SPACE.match(self.text, self.at)
        start = space.end() if space else self.at
        if self.text[start : start + 1] in ("", ":", ")"):
            raise self._fail("a value")
        depth, said = 0, ""
        while True:
            token = self.take("a value", *_TOKEN.groupindex)
            if token["text"]:
                said = self._quoted() if token["text"] == '"' else self._counted()
            depth += bool(token["open"]) - bool(token["close"])
            if depth > DEEPEST:
                raise KqmlError(f"at character {self.at}: more than {DEEPEST} lists lie in one another")
            if not depth and not token["sign"]:
                return said if self.text[start] in '"#' else self.text[start : self.at]

    def _quoted(self) -> str:
        """Behind a quote, to the next one that has no backslash before it."""
        found = _QUOTED.match(self.text, self.at)
        if found is None:
            self.at = len(self.text)
            raise self._fail("'\"'")
        self.at = found.end()
        return _ESCAPED.sub(r"\1", found[1])

    def _counted(self) -> str:
        """Behind #: how many characters, a quote, and so many, whatever they are."""
        found = _LENGTH.match(self.text, self.at)
        if found is None:
            raise self._fail('a length and \'"\', as in #5"a"b(c')
        end = found.end() + int(found[1])
        if end > len(self.text):
            self.at = len(self.text)
            raise self._fail(f"text of {found[1]} characters")
        self.at = end
        return self.text[found.end() : end]

    def end(self) -> None:
        if self.text[self.at :].strip():
            raise self._fail("the end of the text")
