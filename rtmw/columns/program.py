"""Compiles a schema to the program that `_columns` runs, and to the tree of columns it builds; see `column.h`.

Ops lead behind themselves only: a struct that is met twice is laid out twice, because it builds two columns.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final, Literal, NamedTuple, assert_never, get_args

from rtmw.columns import _columns
from rtmw.errors import UnsupportedType
from rtmw.types.checks import shown_name
from rtmw.types.schema import (
    Array,
    Bitmask,
    Enumeration,
    Map,
    Maybe,
    Named,
    Node,
    Octets,
    Plan,
    Primitive,
    Schema,
    Sequence,
    Struct,
    Text,
    Typedef,
    Union,
    code_of,
    is_octet,
    minimum_size,
    strip,
)

Unsigned = Literal["keep", "widen", "long"]
"""Treatment of unsigned numbers: they stay; or get the next wider type with a sign, those of 64 bits decimal(20, 0),
or int64, where a number beyond its range is refused."""

MOST: Final = 4096
"""Columns of one type, nested ones counted."""
LABELS: Final = 65536
"""Names of enumerators and labels of unions in all columns of one type."""
DEEPEST: Final = 64
LARGEST: Final = (1 << 32) - 1

_WORDS: Final = {"boolean": _columns.BOOLEAN, "char": _columns.CHAR}
_KINDS: Final = {"?": "bool", "f": "float", "d": "double"}


@dataclass(frozen=True)
class Column:
    """A column, and the columns it consists of. `op` is its place in the program."""

    name: str
    op: int
    kind: str
    """`int8` ... `uint64`, `decimal`, `float`, `double`, `bool`, `text`, `binary`, `list`, `struct`."""
    nullable: bool
    parts: tuple[Column, ...] = ()


class Op(NamedTuple):
    """One op, as `_columns.Program` takes it: `struct column_op`."""

    code: int
    size: tuple[int, int] = (0, 0)
    width: int = 0
    sized: bool = False
    optional: bool = False
    narrow: bool = False
    skipped: bool = False
    first: int = 0
    length: int = 0
    least: tuple[int, int] = (0, 0)
    otherwise: int = -1
    labels: tuple[tuple[int, bytes | int], ...] = ()


def compile_columns(schema: Schema, unsigned: Unsigned) -> tuple[list[Op], tuple[Column, ...]]:
    """The program of a schema, and the columns of its members. Raises UnsupportedType for what no columns can hold."""
    if unsigned not in get_args(Unsigned):
        raise ValueError(f"unsigned={unsigned!r} is not known; use one of {', '.join(get_args(Unsigned))}")
    compiler = _Compiler(schema, unsigned)
    tree = compiler.lay_out([("", Named(schema.name))], False, ())
    return compiler.ops, tree[0].parts


class _Compiler:
    def __init__(self, schema: Schema, unsigned: Unsigned) -> None:
        self.ops: list[Op] = []
        self._schemas = replace(schema, xcdr=1), replace(schema, xcdr=2)
        self._newer = Plan(self._schemas[1], {})
        self._unsigned = unsigned
        self._labels = 0

    def lay_out(
        self, parts: list[tuple[str, Node]], nullable: bool, within: tuple[str, ...], inner: bool = False
    ) -> tuple[Column, ...]:
        """Ops for named parts, side by side. `within`: the definitions around; `inner`: directly within an array."""
        first = len(self.ops)
        self._check_size(first + len(parts), within)
        self.ops += [Op(_columns.BIT)] * len(parts)  # the places; what these consist of comes behind
        return tuple(
            self._column(first + at, name, strip(node), nullable, within, inner)
            for at, (name, node) in enumerate(parts)
        )

    def _check_size(self, count: int, within: tuple[str, ...]) -> None:
        name = self._newer.schema.shown_name
        if count > MOST:
            raise UnsupportedType(f"{name} would be more than {MOST} columns; read it as payloads")
        if len(within) > DEEPEST:
            raise UnsupportedType(f"{name} is nested more than {DEEPEST} deep; read it as payloads")

    def _column(
        self, place: int, name: str, node: Node, nullable: bool, within: tuple[str, ...], inner: bool
    ) -> Column:
        optional = isinstance(node, Maybe)
        if isinstance(node, Maybe):
            node = strip(node.element)
        op, kind, parts = self._built(node, within, inner)
        self.ops[place] = op._replace(optional=optional)
        return Column(name, place, kind, nullable or optional, parts)

    def _built(self, node: Node, within: tuple[str, ...], inner: bool) -> tuple[Op, str, tuple[Column, ...]]:
        match node:
            case Primitive():
                return self._primitive(node)
            case Text():
                return Op(_columns.TEXT, length=node.bound or 0), "text", ()
            case Octets():
                return Op(_columns.OCTETS), "binary", ()
            case Sequence() | Array():
                return self._row(node, within, inner)
            case Named():
                return self._named(node, within)
            case Maybe() | Map() | Typedef():
                raise UnsupportedType(
                    f"{self._newer.schema.shown_name} has {type(node).__name__.lower()}s, not read in bulk"
                )
            case _:
                assert_never(node)

    def _sizes(self, node: Node) -> tuple[int, int]:
        older, newer = (code_of(node, schema) for schema in self._schemas)
        assert older is not None
        assert newer is not None
        return older[1], newer[1]

    def _primitive(self, node: Primitive) -> tuple[Op, str, tuple[Column, ...]]:
        sizes = self._sizes(node)
        if node.name in _WORDS:
            return Op(_WORDS[node.name], sizes), "bool" if node.name == "boolean" else "text", ()
        number = code_of(node, self._newer.schema)
        assert number is not None
        letter, size = number
        if letter in _KINDS:
            return Op(_columns.NUMBER, sizes, size), _KINDS[letter], ()
        if letter.islower():
            return Op(_columns.NUMBER, sizes, size), f"int{8 * size}", ()
        return self._unsigned_number(size)

    def _unsigned_number(self, size: int) -> tuple[Op, str, tuple[Column, ...]]:
        sizes = size, size
        if self._unsigned == "keep":
            return Op(_columns.NUMBER, sizes, size), f"uint{8 * size}", ()
        if size < 8:
            return Op(_columns.NUMBER, sizes, 2 * size), f"int{16 * size}", ()
        if self._unsigned == "widen":
            return Op(_columns.NUMBER, sizes, 16), "decimal", ()
        return Op(_columns.NUMBER, sizes, 8, narrow=True), "int64", ()

    def _row(self, node: Sequence | Array, within: tuple[str, ...], inner: bool) -> tuple[Op, str, tuple[Column, ...]]:
        is_array = isinstance(node, Array)
        length = node.length if isinstance(node, Array) else node.bound or 0
        sized = self._newer.sized(node) and not (is_array and inner)
        if isinstance(node, Array) and node.length == 0:  # it takes no bytes, and a column of it an offset a row
            raise UnsupportedType(f"{self._newer.schema.shown_name} has an array of no elements; read it as payloads")
        if is_octet(node.element):
            return Op(*_octets(is_array), sized=sized and not is_array, length=length), "binary", ()
        older, newer = (minimum_size(node.element, schema) for schema in self._schemas)
        if older == 0 or newer == 0:
            raise UnsupportedType(f"{self._newer.schema.shown_name} has rows of elements without content")
        first = len(self.ops)
        (element,) = self.lay_out([("element", node.element)], False, (*within, ""), inner=is_array)
        code = _columns.ARRAY if is_array else _columns.SEQUENCE
        return Op(code, sized=sized, first=first, length=length, least=(older, newer)), "list", (element,)

    def _named(self, node: Named, within: tuple[str, ...]) -> tuple[Op, str, tuple[Column, ...]]:
        part, first = self._newer.schema.types[node.name], len(self.ops)
        if node.name in within:
            raise UnsupportedType(f"{shown_name(node.name)} contains itself, which columns cannot; read it as payloads")
        inside = (*within, node.name)
        match part:
            case Enumeration():
                self._count_labels(len(part.members))
                return Op(_columns.ENUM, self._sizes(node), labels=_names(part)), "text", ()
            case Bitmask():
                return self._bitmask(node, part, first)
            case Struct():
                self._check_form(node.name, part)
                parts = self.lay_out([(member.name, member.node) for member in part.fields], False, inside)
                sized = self._newer.delimited(part)
                return Op(_columns.STRUCT, sized=sized, first=first, length=len(parts)), "struct", parts
            case Union():
                self._check_form(node.name, part)
                return self._union(part, first, inside)

    def _count_labels(self, labels: int) -> None:
        self._labels += labels
        if self._labels > LABELS:
            raise UnsupportedType(f"{self._newer.schema.shown_name} has more than {LABELS} labels; read it as payloads")

    def _check_form(self, name: str, part: Struct | Union) -> None:
        if part.extensibility == "mutable":
            raise UnsupportedType(f"{name} is mutable, and its members are not at known places; read it as payloads")

    def _bitmask(self, node: Named, part: Bitmask, first: int) -> tuple[Op, str, tuple[Column, ...]]:
        self._check_size(first + len(part.bits), ())
        self.ops += [Op(_columns.BIT, length=position) for _, position in part.bits]
        bits = tuple(Column(name, first + at, "bool", False) for at, (name, _) in enumerate(part.bits))
        return Op(_columns.BITMASK, self._sizes(node), first=first, length=len(bits)), "struct", bits

    def _union(self, part: Union, first: int, inside: tuple[str, ...]) -> tuple[Op, str, tuple[Column, ...]]:
        self._count_labels(sum(len(case.labels) for case in part.cases))
        (label,) = self.lay_out([(label_name(part), part.discriminator)], False, inside)
        # the branches lie directly behind the label, so what the label consists of may not lie between
        branches = self.lay_out([(case.name, case.node) for case in part.cases], True, inside)
        otherwise = next((at for at, case in enumerate(part.cases) if not case.labels), -1)
        size = self._sizes(part.discriminator)[0]
        op = Op(_columns.UNION, sized=self._newer.delimited(part), first=first, length=len(branches))
        return op._replace(otherwise=otherwise, labels=_branches(part, size)), "struct", (label, *branches)


def label_name(part: Union) -> str:
    """The column of a union's discriminator; no branch is called so."""
    name = "discriminator"
    while any(case.name == name for case in part.cases):
        name += "_"
    return name


def _octets(is_array: bool) -> tuple[int]:
    return (_columns.OCTET_ROW,) if is_array else (_columns.OCTETS,)


def _names(part: Enumeration) -> tuple[tuple[int, bytes], ...]:
    """The first name of each number."""
    names: dict[int, bytes] = {}
    for name, value in part.members:
        names.setdefault(value & LARGEST, name.encode())
    return tuple(sorted(names.items()))


def _branches(part: Union, size: int) -> tuple[tuple[int, int], ...]:
    mask = (1 << 8 * size) - 1
    labels = {_number(label) & mask: at for at, case in enumerate(part.cases) for label in case.labels}
    return tuple(sorted(labels.items()))


def _number(label: Any) -> int:
    return ord(label) if isinstance(label, str) else int(label)
