"""From a `cyclonedds.idl` class to its schema, and to the classes that its parts are made of.

cyclonedds reads an annotation that is a string only as the name of a class, and most programs postpone all annotations
of a module. `resolve_annotations` puts them back to the objects they name.
"""

from __future__ import annotations

from enum import Enum
from functools import partial
from importlib import import_module
from typing import Any, Final, get_args, get_origin, get_type_hints

from rtmw.errors import UnsupportedType
from rtmw.types.schema import (
    CODES,
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
    Octets,
    Primitive,
    Schema,
    Sequence,
    Struct,
    Text,
    Typedef,
    Union,
    fault_of,
    strip,
)


def resolve_annotations(cls: Any) -> None:
    """Resolves the annotations of a struct class and of all classes that they lead to, in place."""
    seen: set[int] = set()
    ahead = [cls]
    while ahead:
        part = ahead.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        if hasattr(part, "__idl__"):
            hints: dict[str, Any] = part.__annotations__
            hints.update({name: _resolved(text, part.__module__) for name, text in hints.items() if _is_text(text)})
            ahead += hints.values()
        ahead += [*get_args(part), *([part.subtype] if hasattr(part, "subtype") else [])]


def _resolved(text: str, module: str) -> Any:
    """The type that the text names in its module; the text itself if it names none there, for cyclonedds to look up."""
    holder = type("Holder", (), {"__annotations__": {"it": text}, "__module__": module})
    try:
        return get_type_hints(holder, include_extras=True)["it"]
    except (NameError, AttributeError, SyntaxError, TypeError):
        return text


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


_STRUCT_ANNOTATIONS: Final = ("extensibility", "xcdrv2", "autoid", "keylist")
_FIELD_ANNOTATIONS: Final = ("key", "id", "hash_id", "must_understand", "name")
_IDL_NAMES: Final = {"float": "float32", "double": "float64", "octet": "byte"}


def describe(cls: Any) -> tuple[Schema, dict[str, Any]]:
    """The schema of an IdlStruct class, and the class of each of its definitions. Raises UnsupportedType."""
    try:
        resolve_annotations(cls)
        cls.__idl__.populate()
        reader = _IdlReader()
        name = reader.named(cls).name
    except UnsupportedType:
        raise
    except Exception as error:  # cyclonedds raises plain exceptions for what it cannot lay out
        raise UnsupportedType(f"{cls.__name__} is no IDL type that can travel: {error}") from error
    schema = Schema(name, cls.__idl__.default_version, reader.types)
    fault = fault_of(schema)
    if fault:
        raise UnsupportedType(f"{cls.__name__} cannot travel: {fault}")
    return schema, reader.classes


class _IdlReader:
    """Walks type hints as cyclonedds normalises them; each class once."""

    def __init__(self) -> None:
        self.types: dict[str, Definition] = {}
        self.classes: dict[str, Any] = {}
        self._kinds: Any = import_module("cyclonedds.idl.types")
        self._idl: Any = import_module("cyclonedds.idl")
        self._hints: Any = import_module("cyclonedds.idl._type_normalize")
        self._primitives: dict[Any, str] = {bool: "boolean", int: "int64", float: "double"}
        for name in CODES:
            if name != "boolean":
                self._primitives[getattr(self._kinds, _IDL_NAMES.get(name, name))] = name

    def node(self, hint: Any) -> Node:
        kinds = self._kinds
        if hint in self._primitives:
            return Primitive(self._primitives[hint])
        if isinstance(hint, self._hints.WrapOpt):
            return Maybe(self.node(hint.inner))
        if isinstance(hint, kinds.typedef):
            return Typedef(hint.name.replace(".", "::"), self.node(hint.subtype))
        if isinstance(hint, kinds.sequence):
            return Sequence(self.node(hint.subtype), hint.max_length)
        if isinstance(hint, kinds.array):
            return Array(self.node(hint.subtype), hint.length)
        if isinstance(hint, kinds.bounded_str):
            return Text(hint.max_length)
        return self._plain(hint)

    def _plain(self, hint: Any) -> Node:
        if hint is str:
            return Text()
        if hint is bytes:
            return Octets()
        if get_origin(hint) is list:
            return Sequence(self.node(get_args(hint)[0]), plain=False)
        if get_origin(hint) is dict:
            key, value = get_args(hint)
            return Map(self.node(key), self.node(value))
        if isinstance(hint, type):
            return self.named(hint)
        raise UnsupportedType(f"{hint!r} cannot be a member of a message")

    def named(self, cls: Any) -> Named:
        """Registers the class under its DDS name. Two classes of one name cannot be told apart by a reader."""
        name: str = getattr(cls, "__idl_typename__", cls.__name__).replace(".", "::")
        known = self.classes.get(name)
        if known is cls:
            return Named(name)
        if known is not None:
            raise UnsupportedType(f"two classes are called {name}: {known!r} and {cls!r}; give one another typename")
        self.classes[name] = cls
        self.types[name] = Struct(())  # keeps the order of first mention, which makes the description canonical
        self.types[name] = self._definition(cls)
        return Named(name)

    def _definition(self, cls: Any) -> Definition:
        if issubclass(cls, self._idl.IdlStruct):
            return self._struct(cls)
        if issubclass(cls, self._idl.IdlUnion):
            return self._union(cls)
        if issubclass(cls, self._idl.IdlBitmask):
            bits = tuple((name, bit.bit_length() - 1) for bit, name in cls.__idl_bits__.items())
            return Bitmask(bits, cls.__idl_annotations__["bit_bound"])
        if issubclass(cls, Enum) and hasattr(cls, "__idl_annotations__"):
            members = tuple((name, member.value) for name, member in cls.__members__.items())
            return Enumeration(members, vars(cls)["__idl_annotations__"].get("bit_bound"))
        raise UnsupportedType(f"{cls!r} cannot be a member of a message; use the types of cyclonedds.idl")

    def _struct(self, cls: Any) -> Struct:
        hints: dict[str, Any] = self._hints.get_extended_type_hints(cls)
        annotations: dict[str, dict[str, Any]] = self._hints.get_idl_field_annotations(cls)
        fields = tuple(
            Field(name, self.node(hint), _kept(annotations.get(name, {}), _FIELD_ANNOTATIONS))
            for name, hint in hints.items()
        )
        return Struct(fields, {"extensibility": "final"} | _kept(cls.__idl_annotations__, _STRUCT_ANNOTATIONS))

    def _union(self, cls: Any) -> Union:
        hints: dict[str, Any] = self._hints.get_extended_type_hints(cls)
        discriminator = self.node(cls.__idl_discriminator__)
        label = partial(_label, is_boolean=strip(discriminator) == Primitive("boolean"))
        cases = tuple(
            Case(name, tuple(map(label, getattr(hint, "labels", ()))), self.node(hint.subtype))
            for name, hint in hints.items()
        )
        implicit = label(cls.__idl_default_discriminator__)
        annotations = {"extensibility": "final"} | _kept(cls.__idl_annotations__, _STRUCT_ANNOTATIONS)
        return Union(discriminator, cases, implicit, annotations)


def _kept(annotations: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: annotations[name] for name in names if name in annotations}


def _label(label: Any, is_boolean: bool) -> Any:
    """`typing` takes case[1, X] and case[True, X] for one: whichever is first in a program stands for both."""
    value = label.value if isinstance(label, Enum) else label
    return (bool if is_boolean else int)(value) if isinstance(value, int) else value
