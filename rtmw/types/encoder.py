"""Generates the source of a type's encode function.

Members of fixed size, and at most one string, are gathered into one run, which is one call of `Struct.pack`; only
what repeats or branches (sequences of structs, optionals, unions) ends a run. While the position in the payload is
known in advance it costs nothing; after a member of variable length it is the local variable `p`.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from struct import Struct as Pack
from typing import Any

from rtmw.types.convert import BOOLEANS, check_class, enum_number, mask_number, octets
from rtmw.types.layout import Item, Place, Runs
from rtmw.types.plan import INLINE_LENGTH, Plan, conversion, is_octet, number_of
from rtmw.types.schema import (
    Array,
    Enumeration,
    Maybe,
    Named,
    Node,
    Octets,
    Sequence,
    Struct,
    Text,
    Union,
    strip,
)
from rtmw.types.source import Source

PADS = (b"", b"\0", b"\0\0", b"\0\0\0")
SIZE = Pack("<I")


class NeedsList(Exception):
    """The parts of this type's payload cannot be counted in advance."""


class Encoder:
    """Writes the body of one function. With `listed` the parts go to a list, otherwise to variables."""

    def __init__(self, plan: Plan, listed: bool, start: int | None) -> None:
        self.plan = plan
        self.source = Source()
        self.parts: list[str] = []
        self._listed = listed
        self._place = Place(start)
        self._items: list[Item] = []
        self._arguments: list[str] = []
        self._key: str | None = None

    def number(self, code: str, size: int, argument: str) -> None:
        self._items.append(Item(code, size))
        self._arguments.append(argument)

    def skip(self, size: int) -> None:
        self._items.append(Item("x", 1, size))

    def value(self, node: Node, expression: str) -> None:
        """Adds what `expression` gives as a value of `node`."""
        node = strip(node)
        code = number_of(node, self.plan)
        if code is not None:
            self._single(node, code, expression)
            return
        match node:
            case Text():
                self._text(node, expression)
            case Octets():
                self._row_of_octets(expression, None)
            case Sequence():
                self._sequence(node, expression)
            case Array():
                self._array(node, expression)
            case Maybe():
                self._maybe(node, expression)
            case Named():
                self._named(node, expression)
            case _:
                raise AssertionError(f"{node} is not covered")

    def flush(self) -> None:
        """Ends the run: emits its pack call."""
        if not self._items:
            return
        place, line = self._place, self.source.line
        runs = Runs(self._items, self.plan.max_align, place.phase(self._items, self.plan.max_align), "pack")
        arguments, advance = ", ".join(self._arguments), None
        if self._key is None and place.at is not None:
            pack, advance = runs.entry(0)
            self._part(f"{self.source.constant('pack', pack)}({arguments})")
        else:
            self.source.look_up("f, k", runs, self._key)
            self._part(f"f({arguments})")
            line("p += k" if place.at is None else f"p = {place.at} + k")
        place.pass_over(self._items, advance)
        self._items, self._arguments, self._key = [], [], None

    def float(self) -> None:
        """Ends the run and puts the position into `p`, for code that may run any number of times."""
        if not self._listed:
            raise NeedsList
        self.flush()
        if self._place.at is not None:
            self.source.line(f"p = {self._place.at}")
        self._place = Place(None)

    def _make_room(self) -> None:
        """A run has one variable length; the length that comes next starts another, at a multiple of four."""
        if self._key is not None:
            self._items.append(Item("x", 4, 0))
            self.flush()

    def _part(self, call: str) -> None:
        if self._listed:
            self.source.line(f"w({call})")
        else:
            name = self.source.name("r")
            self.source.line(f"{name} = {call}")
            self.parts.append(name)

    def _local(self, expression: str, stem: str = "x") -> str:
        name = self.source.name(stem)
        self.source.line(f"{name} = {expression}")
        return name

    def _single(self, node: Node, code: tuple[str, int], expression: str) -> None:
        match conversion(node, self.plan):
            case "boolean":
                self.number("B", 1, f"{self.source.constant('booleans', BOOLEANS)}[{expression}]")
            case "char":
                self.number("b", 1, f"ord({expression})")
            case "enum":
                local = self._local(expression)
                cls = self.source.constant("C", self._class(node))
                number = self._converter(node, "enum")
                self.number(*code, f"{local}._value_ if type({local}) is {cls} else {number}({local})")
            case "bitmask":
                self.number(*code, f"{self._converter(node, 'bitmask')}({expression})")
            case _:
                self.number(*code, expression)

    def _class(self, node: Node) -> Any:
        node = strip(node)
        assert isinstance(node, Named)
        return self.plan.classes[node.name]

    def _converter(self, node: Node, kind: str) -> str:
        """Name of a function that turns one value into its number."""
        if kind == "boolean":
            return self.source.constant("boolean", BOOLEANS.__getitem__)
        if kind == "char":
            return "ord"
        part = self.plan.definition(node)
        made = enum_number(self._class(node)) if isinstance(part, Enumeration) else mask_number(self._class(node), part)
        return self.source.constant(kind, made)

    def _converted(self, element: Node, expression: str) -> str:
        kind = conversion(element, self.plan)
        return expression if kind == "number" else f"map({self._converter(element, kind)}, {expression})"

    def _text(self, node: Text, expression: str) -> None:
        self._make_room()
        if node.bound is not None:
            expression = self._local(expression)
            self._refuse(f"len({expression}) > {node.bound}")
        text = self._local(f"{expression}.encode()", "s")
        self._key = self._local(f"len({text}) + 1", "n")
        self.number("I", 4, self._key)
        self._items += [Item("s", 1, None, -1), Item("x", 1)]
        self._arguments.append(text)

    def _refuse(self, condition: str) -> None:
        self.source.line(f"if {condition}:")
        self.source.line("    raise ValueError")

    def _row_of_octets(self, expression: str, bound: int | None) -> None:
        self._make_room()
        row = self._octets(expression)
        self._key = self._local(f"len({row})", "n")
        if bound is not None:
            self._refuse(f"{self._key} > {bound}")
        self.number("I", 4, self._key)
        self._items.append(Item("s", 1, None))
        self._arguments.append(row)

    def _octets(self, expression: str) -> str:
        row = self._local(expression)
        self.source.line(f"if type({row}) is not bytes:")
        self.source.line(f"    {row} = {self.source.constant('octets', octets)}({row})")
        return row

    def _sequence(self, node: Sequence, expression: str) -> None:
        if is_octet(node.element) and not self.plan.sized(node):
            self._row_of_octets(expression, node.bound)
            return
        row = self._local(expression)
        count = self._local(f"len({row})", "n")
        if node.bound is not None:
            self._refuse(f"{count} > {node.bound}")
        with self._size_if(self.plan.sized(node)):
            self.number("I", 4, count)
            self._elements(node.element, row, count, None)

    def _array(self, node: Array, expression: str, inner: bool = False) -> None:
        sized = self.plan.sized(node) and not inner
        code = number_of(node.element, self.plan)
        if is_octet(node.element):
            row = self._octets(expression)
            self._refuse(f"len({row}) != {node.length}")
            self._items.append(Item("s", 1, node.length))
            self._arguments.append(row)
        elif code is not None and 0 < node.length <= INLINE_LENGTH and not sized:
            names = [self.source.name("a") for _ in range(node.length)]
            self.source.line(f"{', '.join(names)}, = {self._converted(node.element, expression)}")
            self._items.append(Item(_packed(code[0]), code[1], node.length))
            self._arguments += names
        else:
            row = self._local(expression)
            self._refuse(f"len({row}) != {node.length}")
            with self._size_if(sized):
                self._elements(node.element, row, None, node.length)

    def _elements(self, element: Node, row: str, count: str | None, length: int | None) -> None:
        """The elements of `row`: numbers by one pack call, all else one by one."""
        code = number_of(element, self.plan)
        if code is None and self.plan.flat(element):
            self._records(element, row, count or str(length))
            return
        if code is None:
            self.float()
            item = self.source.name("e")
            with self.source.block(f"for {item} in {row}:"):
                inner = strip(element)
                if isinstance(inner, Array):
                    self._array(inner, item, inner=length is not None)
                else:
                    self.value(inner, item)
                self.float()
            return
        self.flush()
        self._items.append(Item(_packed(code[0]), code[1], length))
        self._arguments.append(f"*{self._converted(element, row)}")
        self._key = count
        self.flush()

    def _records(self, element: Node, row: str, count: str) -> None:
        """Structs of fixed size. Only the first can differ in its padding: all others start where one ended."""
        self.float()
        item, first, rest = self.source.name("e"), self.source.name("k"), self.source.name("k")
        mark = len(self.source.lines)
        with self.source.block(f"for {item} in {row}:"):
            named = strip(element)
            if isinstance(named, Named):
                self.instance(named.name, item)
            else:
                self.value(named, item)
            runs, arguments = Runs(self._items, self.plan.max_align, None, "pack"), ", ".join(self._arguments)
            self._items, self._arguments = [], []
            self._part(f"f({arguments})")
            self.source.line("f = g")
        table = self.source.constant("table", runs.table())
        before = [f"f, {first} = {table}[p & 7]", f"g, {rest} = {table}[p + {first} & 7]"]
        self.source.insert(mark, before)
        self.source.line(f"if {count}:")
        self.source.line(f"    p += {first} + ({count} - 1) * {rest}")

    def _maybe(self, node: Maybe, expression: str) -> None:
        local = self._local(expression)
        self.number("B", 1, f"{local} is not None")
        self.float()
        with self.source.block(f"if {local} is not None:"):
            self.value(node.element, local)
            self.float()

    def _named(self, node: Named, expression: str) -> None:
        local = self._local(expression, "v")
        if node.name in self.plan.functions:
            self.float()
            self.source.line(f"p = {self.plan.function('encode', node.name)}({local}, p, out, w)")
        else:
            self.instance(node.name, local)

    def instance(self, name: str, local: str) -> None:
        """All members of a struct or union that the variable `local` holds."""
        part = self.plan.schema.types[name]
        cls = self.source.constant("C", self.plan.classes[name])
        self.source.line(f"if type({local}) is not {cls}:")
        self.source.line(f"    {self.source.constant('check', check_class)}({local}, {cls})")
        assert isinstance(part, Struct | Union)
        with self._size_if(self.plan.delimited(part)):
            if isinstance(part, Struct):
                for member in part.fields:
                    self.value(member.node, f"{local}.{member.name}")
            else:
                self._branches(part, local)

    def _branches(self, part: Union, local: str) -> None:
        label, content = self.source.name("d"), self.source.name("y")
        self.source.line(f"{label}, {content} = {local}.get()")
        self.source.line(f"if {label} is None:")
        self.source.line(f"    {label} = {self.source.constant('implicit', part.implicit)}")
        self.value(part.discriminator, label)
        self.float()
        branches = self.source.constant("branches", self.plan.branches(part))
        choice = self._local(f"{branches}.get({label}, -1)", "b")
        for index, case in enumerate(part.cases):
            with self.source.block(f"if {choice} == {index if case.labels else -1}:"):
                self.value(case.node, content)
                self.float()

    @contextmanager
    def _size_if(self, wanted: bool) -> Generator[None, None, None]:
        """Puts the size of what comes within in front of it (XCDR2)."""
        if not wanted:
            yield
            return
        self.float()
        slot, pad, start = (self.source.name(stem) for stem in ("slot", "pad", "start"))
        for line in (f"{slot} = len(out)", "w(b'')", f"{pad} = -p & 3", f"p += {pad} + 4", f"{start} = p"):
            self.source.line(line)
        yield
        self.float()
        pads, size = self.source.constant("pads", PADS), self.source.constant("size", SIZE.pack)
        self.source.line(f"out[{slot}] = {pads}[{pad}] + {size}(p - {start})")


def _packed(code: str) -> str:
    return "B" if code == "?" else code
