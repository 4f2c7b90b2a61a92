"""Payloads of a described type: of a random value, and then damaged in most cases."""

from __future__ import annotations

from random import Random
from typing import Any, Final

from rtmw.errors import RtmwError
from rtmw.types.description import from_document
from rtmw.types.message_type import MessageType, read_document
from rtmw.types.plain import maker
from rtmw.types.schema import (
    CODES,
    Array,
    Bitmask,
    Enumeration,
    Maybe,
    Named,
    Node,
    Octets,
    Primitive,
    Schema,
    Sequence,
    Struct,
    Text,
    Union,
    strip,
)
from tests.torture.wire.types_documents import HEADERS, payload
from tests.types.hostile import damaged

MOST: Final = 200
"""Parts of a value; a type that needs more has no payload here."""


class TooLarge(Exception):
    """A value has too many parts."""


class Payloads:
    """Of one type."""

    def __init__(self, type: MessageType, chance: Random) -> None:
        self._chance = chance
        document = read_document(type.description)
        self._schema = from_document(document) if document["kind"] == "cdr" else None
        self._make: Any = None
        if self._schema and type.in_place:  # else its values are the payload's bytes
            type, self._make = maker(type.description)
        self._encode = type.encode

    def some(self) -> bytes:
        """A payload; it may be whole."""
        made = self._whole() if self._chance.random() < 0.9 else None
        if made is None:
            return payload(self._chance, HEADERS[:3] if self._chance.random() < 0.8 else HEADERS)
        return made if len(made) == 4 or self._chance.random() < 0.4 else damaged(made, self._chance)

    def _whole(self) -> bytes | None:
        if self._schema is None or self._make is None or self._encode is None:
            return None
        try:
            plain = _Values(self._schema, self._chance).of(Named(self._schema.name))
            return bytes(self._encode(self._make(plain)))
        except (TooLarge, RtmwError):
            return None


class _Values:
    """Plain data, as JSON has it, of which a value can be made."""

    def __init__(self, schema: Schema, chance: Random) -> None:
        self._schema, self._chance, self._parts = schema, chance, 0

    def of(self, node: Node) -> Any:
        self._parts += 1
        if self._parts > MOST:
            raise TooLarge
        match node := strip(node):
            case Primitive():
                return self._number(node.name)
            case Text():
                return "aé"[: self._chance.randrange(min(node.bound or 2, 2) + 1)]
            case Octets():
                return "ab"
            case Sequence():
                return [self.of(node.element) for _ in range(self._chance.randrange(min(node.bound or 3, 3) + 1))]
            case Array():
                return [self.of(node.element) for _ in range(min(node.length, MOST + 1))]
            case Maybe():
                return self.of(node.element) if self._chance.random() < 0.5 else None
            case Named():
                return self._named(node.name)
            case _:
                raise TooLarge

    def _number(self, name: str) -> Any:
        if name in ("boolean", "char"):
            return self._chance.choice((True, False) if name == "boolean" else "ab")
        return self._chance.randrange(100) if CODES[name][0] not in "fd" else self._chance.random()

    def _named(self, name: str) -> Any:
        match part := self._schema.types[name]:
            case Struct():
                return {member.name: self.of(member.node) for member in part.fields}
            case Union():
                case = self._chance.choice(part.cases) if part.cases else None
                label = case.labels[0] if case and case.labels else part.implicit
                kind = strip(part.discriminator)
                if isinstance(kind, Named) and not (case and case.labels):
                    raise TooLarge  # an enumerator for the default has no name here
                return {"discriminator": label, "value": self.of(case.node) if case else None}
            case Enumeration():
                return self._chance.choice(part.members)[0]
            case Bitmask():
                return {bit: self._chance.random() < 0.5 for bit, _ in part.bits}
