"""From a message type to the class that cyclonedds makes a DDS type of.

A node knows types by their descriptions; cyclonedds wants a class. The class made here has the same structure, names
and annotations as the class that the description was made from, so that DDS sees the same type.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from functools import lru_cache
from types import GenericAlias
from typing import Any, Optional

from rtmw.errors import UnsupportedType
from rtmw.net.dds.library import make_idl_bitmask, make_idl_enum, make_idl_struct, make_idl_union
from rtmw.net.dds.library import types as idl
from rtmw.types import MessageType, description
from rtmw.types.message_type import read_document
from rtmw.types.schema import (
    Array,
    Bitmask,
    Definition,
    Enumeration,
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
)

OCTETS_NAME = "rtmw::Octets"
"""The DDS type of topics of raw bytes and of numpy arrays: `struct Octets { sequence<octet> data; }`."""

Rename = Callable[[str], str]


def same(name: str) -> str:
    """DDS type names are the IDL types' names."""
    return name


def is_opaque(type: MessageType) -> bool:
    """Does it travel as octets, which DDS does not look into?"""
    return type.kind != "cdr"


@lru_cache(maxsize=4096)
def idl_class(type: MessageType, rename: Rename = same) -> Any:
    """The IdlStruct class of a message type, under the names that `rename` gives. Raises UnsupportedType.

    The same one each time, for cyclonedds keeps each class that it has made a DDS type of for ever.
    """
    if is_opaque(type):
        members: dict[str, Any] = {"data": idl.sequence[idl.byte]}
        return make_idl_struct("Octets", OCTETS_NAME, members)
    schema = description.from_document(read_document(type.description))
    return _Maker(schema, rename).definition(schema.name)


class _Maker:
    """Makes each definition of a schema once; those it is made of first."""

    def __init__(self, schema: Schema, rename: Rename) -> None:
        self._schema = schema
        self._rename = rename
        self._made: dict[str, Any] = {}

    def definition(self, name: str) -> Any:
        if name not in self._made:
            self._made[name] = None  # a type within itself finds this
            self._made[name] = self._make(name, self._schema.types[name])
        if self._made[name] is None:
            raise UnsupportedType(f"{name} contains itself, and cannot be carried to other hosts")
        return self._made[name]

    def _make(self, name: str, part: Definition) -> Any:
        short, full = name.rpartition("::")[2], self._rename(name)
        made: Any
        match part:
            case Struct():
                hints = {member.name: self.hint(member.node) for member in part.fields}
                annotations = {member.name: dict(member.annotations) for member in part.fields if member.annotations}
                made = make_idl_struct(short, full, hints, field_annotations=annotations)
                made.__idl_annotations__.update(part.annotations)
            case Union():
                made = self._union(short, full, part)
                made.__idl_annotations__.update(part.annotations)
            case Enumeration():
                made = make_idl_enum(short, full, dict(part.members))
                if part.bit_bound is not None:
                    made.__idl_annotations__["bit_bound"] = part.bit_bound
            case Bitmask():
                names = [bit for bit, _ in part.bits]
                annotations = {bit: {"position": position} for bit, position in part.bits}
                made = make_idl_bitmask(short, full, names, field_annotations=annotations)
                made.__idl_annotations__["bit_bound"] = part.bit_bound
        return made

    def _union(self, short: str, full: str, part: Union) -> Any:
        discriminator = self.hint(part.discriminator)
        cases: dict[str, Any] = {}
        for branch in part.cases:
            inner = self.hint(branch.node)
            labels = [_label(discriminator, label) for label in branch.labels]
            cases[branch.name] = idl.case[labels, inner] if labels else idl.default[inner]
        return make_idl_union(short, full, cases, discriminator)

    def hint(self, node: Node) -> Any:
        """The type hint of a member."""
        match node:
            case Primitive("boolean"):
                return bool
            case Primitive(name):
                return getattr(idl, {"float": "float32", "double": "float64", "octet": "byte"}.get(name, name))
            case Text(None):
                return str
            case Text(bound):
                return idl.bounded_str[bound]
            case Octets():
                return idl.sequence[idl.byte]
            case Sequence(element, None, True):
                return idl.sequence[self.hint(element)]
            case Sequence(element, bound, True):
                return idl.sequence[self.hint(element), bound]
            case Sequence(element):
                return GenericAlias(list, (self.hint(element),))
            case Array(element, length):
                return idl.array[self.hint(element), length]
            case Maybe(element):
                return Optional[self.hint(element)]  # noqa: UP045 (cyclonedds knows this spelling)
            case Typedef(name, element):
                return idl.typedef[self._rename(name), self.hint(element)]
            case Named(name):
                return self.definition(name)
            case Map():
                raise UnsupportedType("a map has no DDS type, and cannot be carried to other hosts")


def _label(discriminator: Any, label: Any) -> Any:
    is_enum = isinstance(discriminator, type) and issubclass(discriminator, Enum)
    return discriminator(label) if is_enum else label
