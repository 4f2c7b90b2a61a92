"""IDL text as a schema: what recordings of others say of their types, and what ours say to readers of IDL."""

from __future__ import annotations

import operator
from collections.abc import Callable
from keyword import iskeyword
from typing import Any, Final

from rtmw.errors import UnsupportedType
from rtmw.recording.schemas.idl_syntax import Annotations, Declaration, Member, Operation, Ref, Spec, bounded, parse
from rtmw.types.checks import MEMBERS, TYPES, shown
from rtmw.types.schema import (
    DEEPEST,
    NESTED,
    Array,
    Bitmask,
    Case,
    Definition,
    Enumeration,
    Field,
    Map,
    Maybe,
    Named,
    Node,
    Primitive,
    Schema,
    Sequence,
    Struct,
    Text,
    Typedef,
    Union,
    nodes_of,
    strip,
)

_exact: Any = operator  # some of its functions take whatever they are given
_OPERATORS: Final[dict[tuple[str, int], Callable[..., Any]]] = {
    ("+", 1): _exact.pos,
    ("-", 1): _exact.neg,
    ("~", 1): _exact.invert,
    ("+", 2): _exact.add,
    ("-", 2): _exact.sub,
    ("*", 2): _exact.mul,
    ("/", 2): _exact.floordiv,
    ("%", 2): _exact.mod,
    ("&", 2): _exact.and_,
    ("|", 2): _exact.or_,
    ("^", 2): _exact.xor,
}
_EXTENSIBILITIES: Final = ("final", "appendable", "mutable")
_LONGEST_SHIFT: Final = 64
_BEING_COMPUTED: Final = object()


def from_idl(text: str, name: str, *, xcdr: int | None = None, extensibility: str = "final") -> Schema:
    """The schema of the struct `name` in an IDL text.

    `xcdr` is the version in which its payloads are encoded; without it, what cyclonedds would take for the type.
    `extensibility` is that of types whose text does not say it. Raises UnsupportedType.
    """
    try:
        return _Reader(parse(text), extensibility).schema(name, xcdr)
    except RecursionError:
        raise UnsupportedType(f"the IDL of {name} is nested too deeply") from None


class _Reader:
    """Looks up names, computes constants, and collects the definitions that a struct needs.

    Each definition and each constant is read once. What a name stands for may be much larger than the name, so all that
    is read is counted: definitions, members, and the types that members consist of.
    """

    def __init__(self, declarations: dict[str, Declaration], extensibility: str) -> None:
        self._declarations = declarations
        self._extensibility = extensibility
        self._types: dict[str, Definition] = {}
        self._constants: dict[str, Any] = {}
        self._members = 0
        self._nodes = 0
        self._level = 0
        self._enumerators = {
            "::".join((*part.scope, member.name)): (name, member.name)
            for name, part in declarations.items()
            if part.kind == "enum"
            for member in part.members
        }

    def schema(self, name: str, xcdr: int | None) -> Schema:
        found = self._declarations.get(name)
        if found is None or found.kind != "struct":
            there = [name for name, part in self._declarations.items() if part.kind == "struct"]
            raise UnsupportedType(f"the IDL has no struct {name}, but {', '.join(there[:8])[:500] or 'none at all'}")
        self._named(name)
        return Schema(name, default_xcdr(self._types) if xcdr is None else xcdr, self._types)

    def _named(self, name: str) -> Named:
        if name not in self._types:
            if len(self._types) == TYPES:
                raise UnsupportedType(f"a type of more than {TYPES} definitions")
            self._types[name] = Struct(())  # keeps the order of first mention
            level, self._level = self._level, 0  # levels of a member begin anew in each definition
            self._types[name] = self._definition(name, self._declarations[name])
            self._level = level
        return Named(name)

    def _count(self, members: int) -> None:
        self._members += members
        if self._members > MEMBERS:
            raise UnsupportedType(f"a type of more than {MEMBERS} members, labels, enumerators and bits")

    def _definition(self, name: str, part: Declaration) -> Definition:
        match part.kind:
            case "struct":
                return Struct(tuple(map(self._field, self._inherited(part))), self._of_struct(part.annotations))
            case "union":
                return self._union(part)
            case "enum":
                return self._enumeration(part)
            case "bitmask":
                values = self._values(part, "position")
                return Bitmask(values, self._bit_bound(part) or 32)
            case kind:
                raise UnsupportedType(f"{name} is a {kind}, which no message can hold")

    def _inherited(self, part: Declaration) -> list[Member]:
        """The members of a struct, those of its bases first."""
        heirs = [part]
        while (reference := heirs[-1].base) is not None:
            name, base = self._look_up(reference)
            if base.kind != "struct":
                raise UnsupportedType(f"a struct inherits from {name}, which is a {base.kind}")
            if len(heirs) > NESTED:
                raise UnsupportedType(f"a struct inherits from more than {NESTED} others, or from itself")
            heirs.append(base)
        self._count(sum(len(heir.members) for heir in heirs))
        return [member for heir in reversed(heirs) for member in heir.members]

    def _field(self, member: Member) -> Field:
        annotations: dict[str, Any] = {}
        if self._flag(member.annotations, "key"):
            annotations["key"] = True
        if "id" in member.annotations:
            annotations["id"] = self._number_of(member.annotations, "id")
        if "hashid" in member.annotations:
            annotations["hash_id"] = self._value(member.annotations["hashid"].get("value", ""))
        if self._flag(member.annotations, "must_understand"):
            annotations["must_understand"] = True
        name = python_name(member.name)
        if name != member.name:
            annotations["name"] = member.name
        node = self._node(member.type)
        return Field(name, Maybe(node) if self._flag(member.annotations, "optional") else node, annotations)

    def _flag(self, annotations: Annotations, name: str) -> bool:
        return name in annotations and bool(self._value(annotations[name].get("value", True)))

    def _of_struct(self, annotations: Annotations) -> dict[str, Any]:
        found: dict[str, Any] = {"extensibility": self._extensibility}
        for word in _EXTENSIBILITIES:
            if word in annotations:
                found["extensibility"] = word
        if "extensibility" in annotations:
            found["extensibility"] = _word(annotations["extensibility"]).lower()
        if "autoid" in annotations:
            found["autoid"] = _word(annotations["autoid"], "hash").lower()
        representations = {"XCDR1": False, "XCDR2": True}
        if "data_representation" in annotations and _word(annotations["data_representation"]) in representations:
            found["xcdrv2"] = representations[_word(annotations["data_representation"])]
        return found

    def _union(self, part: Declaration) -> Union:
        self._count(sum(1 + len(member.labels) for member in part.members))
        discriminator = self._node(part.base)
        cases = tuple(
            Case(python_name(m.name), tuple(map(self._value, m.labels)), self._node(m.type)) for m in part.members
        )
        labels = {label for case in cases for label in case.labels}
        return Union(discriminator, cases, self._implicit(discriminator, labels), self._of_struct(part.annotations))

    def _implicit(self, discriminator: Node, labels: set[Any]) -> Any:
        """The discriminator of a default branch that is chosen by its name, as cyclonedds would send it."""
        kind = strip(discriminator)
        if isinstance(kind, Named):
            definition = self._types[kind.name]
            values = {value for _, value in definition.members} if isinstance(definition, Enumeration) else set[int]()
            return next(value for value in range(len(values) + 1) if value not in values)
        word = kind.name if isinstance(kind, Primitive) else ""
        if word == "boolean":
            return next((value for value in (True, False) if value not in labels), True)
        if word == "char":
            return next((letter for letter in map(chr, range(128)) if letter not in labels), "\0")
        step = -1 if word.startswith("int") else 1
        return next(value for value in range(min(step, 0), step * (len(labels) + 2), step) if value not in labels)

    def _enumeration(self, part: Declaration) -> Enumeration:
        return Enumeration(self._values(part, "value"), self._bit_bound(part))

    def _bit_bound(self, part: Declaration) -> int | None:
        return self._length(part.annotations["bit_bound"].get("value")) if "bit_bound" in part.annotations else None

    def _values(self, part: Declaration, annotation: str) -> tuple[tuple[str, int], ...]:
        self._count(len(part.members))
        found: list[tuple[str, int]] = []
        following = 0
        for member in part.members:
            value = self._number_of(member.annotations, annotation) if annotation in member.annotations else following
            found.append((python_name(member.name), value))
            following = value + 1
        return tuple(found)

    def _number_of(self, annotations: Annotations, name: str) -> int:
        value = self._value(annotations[name].get("value"))
        if type(value) is not int:
            raise UnsupportedType(f"the IDL has the annotation @{name} with {shown(value)}, which is no number")
        return value

    def _node(self, spec: Any) -> Node:
        self._nodes += 1
        if self._nodes > MEMBERS * DEEPEST:
            raise UnsupportedType(f"a type of more than {MEMBERS * DEEPEST} sequences, arrays and names of types")
        if self._level > DEEPEST:
            raise UnsupportedType(f"the IDL is nested too deeply: more than {DEEPEST} levels in one member")
        self._level += 1
        node = self._reference(spec) if isinstance(spec, Ref) else self._specified(spec)
        self._level -= 1
        return node

    def _specified(self, spec: Any) -> Node:
        assert isinstance(spec, Spec)
        match spec.kind:
            case "primitive":
                return Primitive(spec.inner[0])
            case "string":
                return Text(None if spec.size is None else self._length(spec.size))
            case "sequence":
                return Sequence(self._node(spec.inner[0]), None if spec.size is None else self._length(spec.size))
            case "array":
                return Array(self._node(spec.inner[0]), self._length(spec.size))
            case "map":
                return Map(self._node(spec.inner[0]), self._node(spec.inner[1]))
            case _:
                raise UnsupportedType(f"the IDL type {spec.inner[0]} cannot be decoded")

    def _reference(self, reference: Ref) -> Node:
        name, part = self._look_up(reference)
        if part.kind == "typedef":
            return Typedef(name, self._node(part.members[0].type))
        if part.kind == "const":
            raise UnsupportedType(f"{name} is a constant, not a type")
        return self._named(name)

    def _look_up(self, reference: Ref) -> tuple[str, Declaration]:
        for name in _candidates(reference):
            if name in self._declarations:
                return name, self._declarations[name]
        raise UnsupportedType(f"the IDL does not define {reference.name}")

    def _value(self, expression: Any) -> Any:
        """An expression's value; that of an enumerator is its number."""
        match expression:
            case Operation(sign, operands):
                return _computed(sign, [self._value(operand) for operand in operands])
            case Ref():
                return self._constant(expression)
            case _:
                return expression

    def _constant(self, reference: Ref) -> Any:
        for name in _candidates(reference):
            if name in self._enumerators:
                enum, member = self._enumerators[name]
                return self._numbers(enum)[python_name(member)]
            enum, _, member = name.rpartition("::")
            if enum in self._declarations and self._declarations[enum].kind == "enum":
                return self._numbers(enum).get(python_name(member))
            if name in self._declarations and self._declarations[name].kind == "const":
                return self._once(name, lambda part: self._value(part.base))
        raise UnsupportedType(f"the IDL does not define the constant {reference.name}")

    def _numbers(self, enum: str) -> dict[str, int]:
        """The enumerators of an enum, with their numbers."""
        numbers: dict[str, int] = self._once(enum, lambda part: dict(self._values(part, "value")))
        return numbers

    def _once(self, name: str, compute: Callable[[Declaration], Any]) -> Any:
        """The result of `compute` for a declaration, computed the first time only."""
        if name not in self._constants:
            self._constants[name] = _BEING_COMPUTED
            self._constants[name] = compute(self._declarations[name])
        if self._constants[name] is _BEING_COMPUTED:
            raise UnsupportedType(f"the IDL is nested too deeply: {name} is computed of itself")
        return self._constants[name]

    def _length(self, expression: Any) -> int:
        value = self._value(expression)
        if type(value) is not int or value < 1:
            raise UnsupportedType(f"{shown(value)} is no length or bound")
        return value


def default_xcdr(types: dict[str, Definition]) -> int:
    """The CDR version that cyclonedds takes for a type: 2 where something is optional or may grow."""
    for part in types.values():
        if isinstance(part, Struct | Union):
            if "xcdrv2" in part.annotations:
                return 2 if part.annotations["xcdrv2"] else 1
            if part.extensibility != "final" or any(isinstance(node, Maybe) for node in nodes_of(part)):
                return 2
    return 1


def python_name(name: str) -> str:
    """The name of a member as Python can spell it."""
    return f"{name}_" if iskeyword(name) else name


def _candidates(reference: Ref) -> list[str]:
    """Full names that a name may stand for, from the innermost scope outwards."""
    if reference.name.startswith("::"):
        return [reference.name[2:]]
    scope = reference.scope
    return ["::".join((*scope[:depth], reference.name)) for depth in range(len(scope), -1, -1)]


def _word(parameters: dict[str, Any], default: str = "") -> str:
    value = parameters.get("value", Ref(default, ()))
    return value.name.rpartition("::")[2] if isinstance(value, Ref) else shown(value)


def _computed(sign: str, values: list[Any]) -> int | float:
    """The value of an operation on numbers; texts, which operators would take as well, have none."""
    try:
        if not all(isinstance(value, int | float) for value in values):
            raise ValueError("only numbers can be computed with")
        return bounded(_result(sign, values))
    except (TypeError, ValueError, ArithmeticError) as error:
        words = f"{', '.join(map(shown, values))} with {sign!r}"
        raise UnsupportedType(f"the IDL computes {words}, which fails: {error}") from error


def _result(sign: str, values: list[Any]) -> Any:
    if sign in ("<<", ">>"):
        number, by = values
        if not 0 <= by <= _LONGEST_SHIFT:
            raise ValueError(f"a shift by {by}")
        return number << by if sign == "<<" else number >> by
    if sign == "/" and any(isinstance(value, float) for value in values):
        return values[0] / values[1]
    return _OPERATORS[sign, len(values)](*values)
