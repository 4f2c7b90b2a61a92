"""From IDL text to its declarations, as they are written: names and constants are looked up later (idl_reader.py)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from math import isfinite
from typing import Any, Final, NoReturn, TypeVar

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


PRIMITIVES: Final[dict[tuple[str, ...], str]] = {
    ("unsigned", "long", "long"): "uint64",
    ("unsigned", "long"): "uint32",
    ("unsigned", "short"): "uint16",
    ("long", "long"): "int64",
    ("long", "double"): "long double",
    ("long",): "int32",
    ("short",): "int16",
    **{(word,): word for word in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")},
    **{(word,): word for word in ("octet", "boolean", "char", "wchar", "float", "double")},
}
"""The longest spelling comes first."""

UNSUPPORTED: Final = ("any", "fixed", "wstring", "Object", "ValueBase", "void")
"""Types that have no counterpart; only a message that holds one is refused."""

OTHERS: Final = ("interface", "local", "abstract", "valuetype", "exception", "bitset", "native", "component")
"""Definitions of what is no data, or has no counterpart."""
_BINARY: Final = (("|",), ("^",), ("&",), ("<<", ">>"), ("+", "-"), ("*", "/", "%"))
_DEEPEST: Final = 32
"""Modules, types and brackets within each other."""
_LONGEST_NAME: Final = 16
"""Parts of a name in its modules."""
_LONGEST_NAME_TEXT: Final = 500
_IN_BRACKETS: Final = 4
"""The level of operators from which on they may stand within a bound: there `>` ends a bound, and `>>` two of them."""

T = TypeVar("T")
Annotations = dict[str, dict[str, Any]]
"""Annotations: for each name its parameters, of which the only one of a short form is called `value`."""


@dataclass(frozen=True)
class Ref:
    """A name, to be looked up from within a scope. As an expression: a constant or an enumerator."""

    name: str
    scope: tuple[str, ...]


@dataclass(frozen=True)
class Operation:
    """An expression of operands that are numbers, references, or expressions."""

    sign: str
    operands: tuple[Any, ...]


@dataclass(frozen=True)
class Spec:
    """A type as written: primitive, string, sequence, array, map or unsupported; `inner` is what it is made of."""

    kind: str
    inner: tuple[Any, ...]
    size: Any = None
    """Bound or length: an expression, or None."""


@dataclass(frozen=True)
class Member:
    """A declarator of a struct, union or typedef, or an enumerator or bit, which have no type."""

    name: str
    type: Any
    annotations: Annotations = field(default_factory=Annotations)
    labels: tuple[Any, ...] = ()
    """The labels of a case of a union; empty for anything else."""


@dataclass(frozen=True)
class Declaration:
    """A definition: `kind` is struct, union, enum, bitmask, typedef, const, or what is not supported."""

    kind: str
    scope: tuple[str, ...]
    members: tuple[Member, ...] = ()
    annotations: Annotations = field(default_factory=Annotations)
    base: Any = None
    """The base of a struct, the discriminator of a union, or the value of a constant."""


def parse(text: str) -> dict[str, Declaration]:
    """The declarations of an IDL text by their full names. Raises UnsupportedType for what is no IDL."""
    return _Parser(text).specification()


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens = Tokens(text)
        self._found: dict[str, Declaration] = {}
        self._depth = 0

    def _deeper(self, read: Callable[[tuple[str, ...]], T], scope: tuple[str, ...]) -> T:
        """Reads what may be within itself."""
        self._depth += 1
        if self._depth > _DEEPEST:
            raise UnsupportedType(f"the IDL is nested too deeply: more than {_DEEPEST} levels")
        found = read(scope)
        self._depth -= 1
        return found

    def specification(self) -> dict[str, Declaration]:
        while self._tokens.ahead.kind != "end":
            self._definition(())
        return self._found

    def _definition(self, scope: tuple[str, ...]) -> None:
        tokens, annotations = self._tokens, self._annotations(scope)
        if tokens.accept(";"):
            return
        if tokens.accept("module"):
            self._module(scope)
        elif tokens.at("struct", "union", "enum", "bitmask"):
            self._constructed(scope, annotations)
        elif tokens.accept("typedef"):
            for member in self._declarators(scope, self._spec(scope), {}):
                self._add(scope, member.name, Declaration("typedef", scope, (member,), annotations))
        elif tokens.accept("const"):
            self._spec(scope)
            name = tokens.name()
            tokens.expect("=")
            self._add(scope, name, Declaration("const", scope, (), annotations, self._expression(scope)))
        elif tokens.at(*OTHERS):
            self._other(scope)
        else:
            tokens.refuse("a definition")
        tokens.expect(";")

    def _module(self, scope: tuple[str, ...]) -> None:
        inner = (*scope, self._tokens.name())
        self._tokens.expect("{")
        while not self._tokens.accept("}"):
            if self._tokens.ahead.kind == "end":
                self._tokens.refuse("'}'")
            self._deeper(self._definition, inner)

    def _other(self, scope: tuple[str, ...]) -> None:
        """Skip an unsupported declaration, to its end: the error is raised for a message that needs it."""
        tokens, kind = self._tokens, self._tokens.take().text
        while tokens.at(*OTHERS):
            kind = tokens.take().text
        self._add(scope, tokens.name(), Declaration(kind, scope))
        depth = 0
        while tokens.ahead.kind != "end" and (depth or not tokens.at(";")):
            depth += tokens.at("{") - tokens.at("}")
            tokens.take()

    def _add(self, scope: tuple[str, ...], name: str, declaration: Declaration) -> None:
        self._found["::".join((*scope, name))] = declaration

    def _constructed(self, scope: tuple[str, ...], annotations: Annotations) -> str:
        tokens, kind = self._tokens, self._tokens.take().text
        name, base, members = tokens.name(), None, tuple[Member, ...]()
        if tokens.at(";"):  # declared here, defined elsewhere
            return name
        if kind == "struct":
            base = Ref(self._scoped_name(), scope) if tokens.accept(":") else None
            members = self._members(scope)
        elif kind == "union":
            base, members = self._union(scope)
        else:
            members = self._names(scope)
        self._add(scope, name, Declaration(kind, scope, members, annotations, base))
        return name

    def _members(self, scope: tuple[str, ...]) -> tuple[Member, ...]:
        found: list[Member] = []
        self._tokens.expect("{")
        while not self._tokens.accept("}"):
            annotations = self._annotations(scope)
            found += self._declarators(scope, self._spec(scope), annotations)
            self._tokens.expect(";")
        return tuple(found)

    def _union(self, scope: tuple[str, ...]) -> tuple[Any, tuple[Member, ...]]:
        tokens, found = self._tokens, list[Member]()
        for word in ("switch", "("):
            tokens.expect(word)
        self._annotations(scope)
        discriminator = self._spec(scope)
        for word in (")", "{"):
            tokens.expect(word)
        while not tokens.accept("}"):
            labels = self._labels(scope)
            annotations = self._annotations(scope)
            (member,) = self._declarators(scope, self._spec(scope), annotations)
            found.append(Member(member.name, member.type, annotations, labels))
            tokens.expect(";")
        return discriminator, tuple(found)

    def _labels(self, scope: tuple[str, ...]) -> tuple[Any, ...]:
        """The labels of a case; none for the default, which labels beside it add nothing to."""
        found: list[Any] = []
        default = False
        while self._tokens.at("case", "default"):
            if self._tokens.accept("default"):
                default = True
            else:
                self._tokens.expect("case")
                found.append(self._expression(scope))
            self._tokens.expect(":")
        if not found and not default:
            self._tokens.refuse("'case'")
        return () if default else tuple(found)

    def _names(self, scope: tuple[str, ...]) -> tuple[Member, ...]:
        """Enumerators, or the bits of a bitmask."""
        found: list[Member] = []
        self._tokens.expect("{")
        while not self._tokens.accept("}"):
            annotations = self._annotations(scope)
            found.append(Member(self._tokens.name(), None, annotations))
            if not self._tokens.at("}"):
                self._tokens.expect(",")
        return tuple(found)

    def _declarators(self, scope: tuple[str, ...], kind: Any, annotations: Annotations) -> list[Member]:
        found: list[Member] = []
        while True:
            name, lengths = self._tokens.name(), list[Any]()
            while self._tokens.accept("["):
                lengths.append(self._expression(scope))
                self._tokens.expect("]")
            shaped = kind
            for length in reversed(lengths):
                shaped = Spec("array", (shaped,), length)
            found.append(Member(name, shaped, annotations))
            if not self._tokens.accept(","):
                return found

    def _spec(self, scope: tuple[str, ...]) -> Any:
        tokens = self._tokens
        for words, name in PRIMITIVES.items():
            if tokens.accept(*words):
                return Spec("unsupported" if " " in name else "primitive", (name,))
        if tokens.accept("string"):
            return Spec("string", (), self._bound(scope))
        if tokens.accept("sequence", "<"):
            inner = self._inner(scope)
            size = self._expression(scope, _IN_BRACKETS) if tokens.accept(",") else None
            tokens.expect(">")
            return Spec("sequence", (inner,), size)
        if tokens.accept("map", "<"):
            return self._map(scope)
        if tokens.at(*UNSUPPORTED):
            word = tokens.take().text
            self._bound(scope)
            return Spec("unsupported", (word,))
        if tokens.at("struct", "union", "enum"):  # defined where it is used
            return Ref(self._deeper(lambda within: self._constructed(within, {}), scope), scope)
        return Ref(self._scoped_name(), scope)

    def _inner(self, scope: tuple[str, ...]) -> Any:
        return self._deeper(self._spec, scope)

    def _map(self, scope: tuple[str, ...]) -> Spec:
        key = self._inner(scope)
        self._tokens.expect(",")
        value = self._inner(scope)
        if self._tokens.accept(","):
            self._expression(scope, _IN_BRACKETS)
        self._tokens.expect(">")
        return Spec("map", (key, value))

    def _bound(self, scope: tuple[str, ...]) -> Any:
        if not self._tokens.accept("<"):
            return None
        bound = self._expression(scope, _IN_BRACKETS)
        self._tokens.expect(">")
        return bound

    def _scoped_name(self) -> str:
        name = "::" if self._tokens.accept("::") else ""
        name += self._tokens.name()
        parts = 1
        while self._tokens.accept("::"):
            name += "::" + self._tokens.name()
            parts += 1
            if parts > _LONGEST_NAME or len(name) > _LONGEST_NAME_TEXT:
                raise UnsupportedType(f"the IDL has a name of more than {_LONGEST_NAME} parts, or a very long one")
        return name

    def _annotations(self, scope: tuple[str, ...]) -> Annotations:
        tokens, found = self._tokens, Annotations()
        while tokens.accept("@"):
            name, parameters = self._scoped_name(), dict[str, Any]()
            if tokens.accept("("):
                while not tokens.accept(")"):
                    word = tokens.ahead.text
                    named = tokens.ahead.kind == "word" and tokens.accept(word, "=")
                    parameters[word if named else "value"] = self._expression(scope)
                    tokens.accept(",")
            found[name] = parameters
        return found

    def _expression(self, scope: tuple[str, ...], level: int = 0) -> Any:
        if level == len(_BINARY):
            return self._operand(scope)
        left = self._expression(scope, level + 1)
        while sign := next((sign for sign in _BINARY[level] if self._tokens.accept(*sign)), None):
            left = Operation(sign, (left, self._expression(scope, level + 1)))
        return left

    def _operand(self, scope: tuple[str, ...]) -> Any:
        tokens = self._tokens
        for sign in "+-~":
            if tokens.accept(sign):
                return Operation(sign, (self._deeper(self._operand, scope),))
        if tokens.accept("("):
            inner = self._deeper(self._expression, scope)
            tokens.expect(")")
            return inner
        if tokens.ahead.kind in ("text", "character", "number"):
            return self._literal()
        if tokens.at("TRUE", "FALSE"):
            return tokens.take().text == "TRUE"
        return Ref(self._scoped_name(), scope)

    def _literal(self) -> Any:
        token = self._tokens.take()
        if token.kind == "number":
            return number(token.text)
        pieces = [unquoted(token)]
        while token.kind == "text" and self._tokens.ahead.kind == "text":  # adjacent ones are one
            pieces.append(unquoted(self._tokens.take()))
        return "".join(pieces)
