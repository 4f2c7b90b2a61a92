"""Generates the source of a type's decode function; the mirror image of the encoder.

A run ends after each length, because what follows depends on it; everything else is gathered. Values go straight
into the attributes of the new object where the class allows it, which is faster than calling its constructor.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from itertools import chain
from struct import Struct as Pack
from typing import Any

from rtmw.types.construct import constructor_call, stores_directly
from rtmw.types.convert import mask_value
from rtmw.types.layout import HEADER, Item, Place, Runs
from rtmw.types.plan import INLINE_LENGTH, Plan, conversion, is_octet, number_of
from rtmw.types.schema import (
    Array,
    Bitmask,
    Maybe,
    Named,
    Node,
    Octets,
    Sequence,
    Struct,
    Text,
    Union,
    minimum_size,
    strip,
)
from rtmw.types.source import Source

SIZE = Pack("<I")
UNTERMINATED = "a string without its terminator"


class Decoder:
    """Writes the body of one function, which reads from `d`."""

    def __init__(self, plan: Plan, start: int | None) -> None:
        self.plan = plan
        self.source = Source()
        self._place = Place(start)
        self._items: list[Item] = []
        self._targets: list[str] = []
        self._after: list[str] = []
        self._key: str | None = None

    def number(self, code: str, size: int, target: str) -> None:
        self._items.append(Item(code, size))
        self._targets.append(target)

    def skip(self, size: int) -> None:
        self._items.append(Item("x", 1, size))

    def then(self, line: str) -> None:
        """A line for behind the unpack call of the present run."""
        self._after.append(line)

    def refuse_then(self, condition: str, reason: str) -> None:
        self._after += [f"if {condition}:", f"    raise ValueError({reason!r})"]

    def value(self, node: Node, target: str) -> None:
        """Reads a value of `node` into `target`, a variable or an attribute."""
        node = strip(node)
        code = number_of(node, self.plan)
        if code is not None:
            self._single(node, code, target)
            return
        match node:
            case Text():
                self._text(node, target)
            case Octets():
                self._row_of_octets(target, None, "{}")
            case Sequence():
                self._sequence(node, target)
            case Array():
                self._array(node, target)
            case Maybe():
                self._maybe(node, target)
            case Named():
                self._named(node, target)
            case _:
                raise AssertionError(f"{node} is not covered")

    def flush(self) -> None:
        """Ends the run: emits its unpack call and what follows from it."""
        if self._items:
            targets = "".join(f"{target}, " for target in self._targets) + "= " if self._targets else ""
            self._unpack(targets, "")
        for line in self._after:
            self.source.line(line)
        self._after = []

    def float(self) -> None:
        """Ends the run and puts the position into `p`, for code that may run any number of times."""
        self.flush()
        if self._place.at is not None:
            self.source.line(f"p = {self._place.at}")
        self._place = Place(None)

    @property
    def end(self) -> str:
        """Where the payload should end, as an expression."""
        return "p" if self._place.at is None else str(self._place.at)

    def _unpack(self, target: str, star: str) -> None:
        """One unpack call; `star` is `*` when all that it gives becomes one list.

        From a known position it begins at the last multiple of eight, so that native order fits.
        """
        place, source = self._place, self.source
        phase = place.phase(self._items, self.plan.max_align)
        lead = phase or 0 if place.at is not None and place.at >= HEADER else 0
        runs = Runs(self._items, self.plan.max_align, phase, "unpack_from", lead)
        left, right = (f"{target} = [*", "]") if star else (target, "")
        where = "d, p" if place.at is None else f"d, {place.at - lead}" if place.at else "d"
        advance = None
        if self._key is None and place.at is not None:
            unpack, advance = runs.entry(0)
            source.line(f"{left}{source.constant('unpack', unpack)}({where}){right}")
        else:
            if place.at is not None:
                source.line(f"p = {place.at}")
            source.look_up("u, k", runs, self._key)
            source.line(f"{left}u({where}){right}")
            source.line("p += k")
        place.pass_over(self._items, advance)
        self._items, self._targets, self._key = [], [], None

    def _single(self, node: Node, code: tuple[str, int], target: str) -> None:
        kind = conversion(node, self.plan)
        if kind in ("number", "boolean"):
            self.number(*code, target)
            return
        local = self.source.name("x")
        self.number(*code, local)
        self.then(f"{target} = {self._converted(node, kind, local)}")

    def _converted(self, node: Node, kind: str, local: str) -> str:
        if kind == "char":
            return f"chr({local})"
        node = strip(node)
        part = self.plan.definition(node)
        assert isinstance(node, Named)
        cls = self.plan.classes[node.name]
        if isinstance(part, Bitmask):
            return f"{self.source.constant('mask', mask_value(cls, part))}({local})"
        members = self.source.constant("members", {member.value: member for member in cls})
        get = self.source.method("get", members)
        return f"{get}({local}, {local})"

    def _row(self, element: Node, row: str) -> str:
        """The list of values from a row of numbers."""
        kind = conversion(element, self.plan)
        if kind in ("number", "boolean"):
            return f"[*{row}]"
        return f"[{self._converted(element, kind, 'i')} for i in {row}]"

    def _count(self) -> str:
        """Reads a length; what comes next starts a new run."""
        count = self.source.name("n")
        self.number("I", 4, count)
        self.flush()
        return count

    def _text(self, node: Text, target: str) -> None:
        self._key = self._count()
        text, end = self.source.name("s"), self.source.name("z")
        self._items += [Item("s", 1, None, -1), Item("B", 1)]
        self._targets += [text, end]
        self.refuse_then(end, UNTERMINATED)
        if node.bound is None:
            self.then(f"{target} = {text}.decode()")
        else:
            self.then(f"{text} = {text}.decode()")
            self.refuse_then(f"len({text}) > {node.bound}", f"a string of more than {node.bound} characters")
            self.then(f"{target} = {text}")

    def _row_of_octets(self, target: str, bound: int | None, form: str) -> None:
        count = self._count()
        self._bounded(count, bound)
        self._key = count
        row = self.source.name("s")
        self._items.append(Item("s", 1, None))
        self._targets.append(row)
        self.then(f"{target} = {form.format(row)}")

    def _bounded(self, count: str, bound: int | None) -> None:
        if bound is not None:
            self.source.line(f"if {count} > {bound}:")
            self.source.line(f"    raise ValueError('a sequence of more than {bound} elements')")

    def _sequence(self, node: Sequence, target: str) -> None:
        if is_octet(node.element) and not self.plan.sized(node):
            self._row_of_octets(target, node.bound, "[*{}]")
            return
        with self._size_if(self.plan.sized(node), exact=True):
            count = self._count()
            self._bounded(count, node.bound)
            self._elements(node.element, target, count, None)

    def _array(self, node: Array, target: str, inner: bool = False) -> None:
        sized = self.plan.sized(node) and not inner
        code = number_of(node.element, self.plan)
        if is_octet(node.element):
            self._items.append(Item("s", 1, node.length))
            self._targets.append(target)
        elif code is not None and 0 < node.length <= INLINE_LENGTH and not sized:
            names = [self.source.name("a") for _ in range(node.length)]
            self._items.append(Item(*code, node.length))
            self._targets += names
            listed = ", ".join(names)
            plain = conversion(node.element, self.plan) in ("number", "boolean")
            self.then(f"{target} = " + (f"[{listed}]" if plain else self._row(node.element, f"({listed},)")))
        else:
            with self._size_if(sized, exact=True):
                self._elements(node.element, target, None, node.length)

    def _elements(self, element: Node, target: str, count: str | None, length: int | None) -> None:
        self.flush()
        code = number_of(element, self.plan)
        if code is not None:
            if self._place.at is None and min(code[1], self.plan.max_align) == 8:
                self._round_up(count)
            self._items.append(Item(*code, length))
            self._key = count
            self._unpack(target, "*")
            if conversion(element, self.plan) not in ("number", "boolean"):
                self.source.line(f"{target} = {self._row(element, target)}")
            return
        self.float()
        number = count or str(length)
        self.source.line(f"if {number} * {minimum_size(element, self.plan.schema)} > len(d) - p:")
        self.source.line(f"    raise ValueError('a row of %d elements' % {number})")
        row, item = self.source.name("x"), self.source.name("e")
        self.source.line(f"{row} = []")
        if self.plan.flat(element):
            self._records(element, row, number)
            self.source.line(f"{target} = {row}")
            return
        with self.source.block(f"for _ in range({number}):"):
            inner = strip(element)
            if isinstance(inner, Array):
                self._array(inner, item, inner=length is not None)
            else:
                self.value(inner, item)
            self.float()
            self.source.line(f"{row}.append({item})")
        self.source.line(f"{target} = {row}")

    def _round_up(self, count: str | None) -> None:
        """Moves `p` to a multiple of eight after the header, where native order fits; not for an empty sequence."""
        rounded = "p = (p + 3 & -8) + 4"
        self.source.line(rounded if count is None else f"if {count}: {rounded}")
        self._place = Place(None, even=True, settled=True)

    def _records(self, element: Node, row: str, count: str) -> None:
        """Structs of fixed size. Only the first can differ in its padding: all others start where one ended."""
        line = self.source.line
        with self.source.block(f"if {count}:"):
            mark = len(self.source.lines)
            with self.source.block("for t in r:"):
                item = self.source.name("e")
                named = strip(element)
                if isinstance(named, Named):
                    self.instance(named.name, item)
                else:
                    self.value(named, item)
                items, targets, after = self._items, self._targets, self._after
                self._items, self._targets, self._after = [], [], []
                line("".join(f"{target}, " for target in targets) + "= t")
                for text in after:
                    line(text)
                line(f"{row}.append({item})")
            first, others = (Runs(items, self.plan.max_align, None, way) for way in ("unpack_from", "iter_unpack"))
            table, iterators = self.source.constant("table", first.table()), self.source.constant("its", others.table())
            before = [f"u, k = {table}[p & 7]", f"g, m = {iterators}[p + k & 7]", f"q = p + k + ({count} - 1) * m"]
            before += ["if q > len(d):", f"    raise ValueError('a row of %d structs' % {count})"]
            before += [f"r = {self.source.constant('chain', chain)}((u(d, p),), g(d[p + k : q]))"]
            self.source.insert(mark, before)
            line("p = q")

    def _maybe(self, node: Maybe, target: str) -> None:
        present = self.source.name("b")
        self.number("?", 1, present)
        self.float()
        with self.source.block(f"if {present}:"):
            self.value(node.element, target)
            self.float()
        with self.source.block("else:"):
            self.source.line(f"{target} = None")

    def _named(self, node: Named, target: str) -> None:
        if node.name in self.plan.functions:
            self.float()
            self.source.line(f"{target}, p = {self.plan.function('decode', node.name)}(d, p)")
            return
        local = self.source.name("v")
        self.instance(node.name, local)
        self.then(f"{target} = {local}")

    def instance(self, name: str, local: str) -> None:
        """All members of a struct or union, and the object itself into the variable `local`."""
        part = self.plan.schema.types[name]
        assert isinstance(part, Struct | Union)
        cls: Any = self.plan.classes[name]
        with self._size_if(self.plan.delimited(part), exact=False):
            if isinstance(part, Union):
                self._branches(part, local, cls)
            elif stores_directly(cls):
                new = self.source.constant("new", object.__new__)
                self.source.line(f"{local} = {new}({self.source.constant('C', cls)})")
                for member in part.fields:
                    self.value(member.node, f"{local}.{member.name}")
            else:
                names = {member.name: self.source.name("m") for member in part.fields}
                for member in part.fields:
                    self.value(member.node, names[member.name])
                self.then(f"{local} = {self.source.constant('C', cls)}({constructor_call(cls, names)})")

    def _branches(self, part: Union, local: str, cls: Any) -> None:
        label, content = self.source.name("d"), self.source.name("y")
        self.value(part.discriminator, label)
        self.float()
        choice = self.source.name("b")
        branches = self.source.constant("branches", self.plan.branches(part))
        self.source.line(f"{choice} = {branches}.get({label}, -1)")
        self.source.line(f"{content} = None")
        for index, case in enumerate(part.cases):
            with self.source.block(f"if {choice} == {index if case.labels else -1}:"):
                self.value(case.node, content)
                self.float()
        self.then(f"{local} = {self.source.constant('C', cls)}(discriminator={label}, value={content})")

    @contextmanager
    def _size_if(self, wanted: bool, exact: bool) -> Generator[None, None, None]:
        """Reads the size in front of what comes within (XCDR2); more than is known may follow unless `exact`."""
        if not wanted:
            yield
            return
        self.float()
        size, end = self.source.name("size"), self.source.name("end")
        unpack = self.source.constant("unpack", SIZE.unpack_from)
        reason = "raise ValueError('a size that does not agree with the content')"
        for line in ("p = p + 3 & -4", f"{size}, = {unpack}(d, p)", f"{end} = p + 4 + {size}"):
            self.source.line(line)
        self.source.line(f"if {end} > len(d):")
        self.source.line(f"    {reason}")
        self.source.line("p += 4")
        yield
        self.float()
        self.source.line(f"if p {'!=' if exact else '>'} {end}:")
        self.source.line(f"    {reason}")
        self.source.line(f"p = {end}")
