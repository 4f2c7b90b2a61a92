"""JSON messages by their JSON Schema, as MCAP keeps it. Needs the `msgspec` package.

The columns are the properties of the schema, in its order. A member that a message lacks, or that is null there, is
null; other members of a message are ignored. Where a schema leaves a type open (it names several types, an object
without properties, or a part that contains itself), the column is text: the JSON as it was written. A schema of
something else than an object, and messages without a schema, have one column, `value`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Annotated, Any, Final, cast

import pyarrow as pa

from rtmw.columns.object_decoder import Elements, Leaf, Member, Node, Parser, Record
from rtmw.columns.program import DEEPEST, MOST
from rtmw.errors import UnsupportedType
from rtmw.optional import needed

_VALUE: Final = "value"
_OPEN: Final[dict[str, Any]] = {}
"""The schema of anything."""
_UNION: Final = ("oneOf", "anyOf", "allOf", "not", "if", "$dynamicRef", "patternProperties")
"""Words by which a schema leaves the type of something open."""


def json_parser(name: str, schema: bytes) -> Parser:
    """Raises UnsupportedType for a schema that is none, and for more columns than may be."""
    msgspec: Any = needed("msgspec", "msgspec", "json", "JSON payloads as columns")
    try:
        document = json.loads(schema) if schema.strip() else _OPEN
        builder = _JsonBuilder(msgspec, document)
        kind, node = builder.column(document, 0)
    except (ValueError, RecursionError, TypeError, NameError) as error:
        raise UnsupportedType(f"the JSON schema of {name} cannot be read: {error}") from error
    members = node.members if isinstance(node, Record) else (Member(_VALUE, _itself, node),)
    blank = node.blank if isinstance(node, Record) else None
    decode: Callable[[str], Any] = msgspec.json.Decoder(kind).decode
    errors = (msgspec.DecodeError, ValueError, RecursionError)
    return Parser(name, lambda payload: decode(str(payload, "utf-8")), errors, blank, members)


class _JsonBuilder:
    """Makes of each part of a schema the type that msgspec decodes it to, and the column."""

    def __init__(self, msgspec: Any, document: Any) -> None:
        self._msgspec, self._document = msgspec, document
        self._count = 0
        self._followed: list[str] = []
        """References that lead to the part of the schema that is looked at."""
        bounds = msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)
        whole: Any = Annotated[float, msgspec.Meta(multiple_of=1.0, ge=-(2.0**63), lt=2.0**63)]
        self._plain: dict[str, tuple[Any, Node]] = {
            "integer": (_either(Annotated[int, bounds], whole), Leaf(pa.int64())),  # 1.0 is an integer to JSON Schema
            "number": (float | None, Leaf(pa.float64())),
            "boolean": (bool | None, Leaf(pa.bool_())),
            "string": (str | None, Leaf(pa.string())),
            "base64": (bytes | None, Leaf(pa.binary())),
        }

    def column(self, schema: Any, depth: int) -> tuple[Any, Node]:
        """Returns the type that msgspec decodes and the node of columns for a part of the schema, which lies `depth`
        parts deep. Raises ValueError."""
        self._count += 1
        if self._count > MOST or depth > DEEPEST:
            raise ValueError(f"it has more than {MOST} columns, or is more than {DEEPEST} deep")
        before = len(self._followed)
        found = self._resolved(schema)
        word = _type_of(found)
        made: tuple[Any, Node] = self._msgspec.Raw, Leaf(pa.string(), _text)
        if word == "array":
            kind, node = self.column(found["items"], depth + 1)
            made = _list_of(kind), Elements(node)
        elif word == "object":
            made = self._record(found["properties"], depth)
        del self._followed[before:]
        return self._plain.get(word, made)

    def _record(self, properties: Mapping[str, Any], depth: int) -> tuple[Any, Node]:
        names = {name: f"m{place}" for place, name in enumerate(properties)}
        columns = {name: self.column(part, depth + 1) for name, part in properties.items()}
        raw: Any = self._msgspec.Raw
        fields = [(names[name], k, raw(b"null") if k is raw else None) for name, (k, _) in columns.items()]
        made: Any = self._msgspec.defstruct("Message", fields, rename={m: name for name, m in names.items()}, gc=False)
        members = tuple(Member(name, attrgetter(names[name]), node) for name, (_, node) in columns.items())
        return (made if depth == 0 else made | None), Record(members, made())

    def _resolved(self, schema: Any) -> dict[str, Any]:
        """The schema to which references lead; of one that leads nowhere, or into itself, that of anything."""
        while isinstance(schema, dict):
            found = cast("dict[str, Any]", schema)
            if "$ref" not in found:
                return found
            reference = found["$ref"]
            if not isinstance(reference, str) or not reference.startswith("#") or reference in self._followed:
                break
            self._followed.append(reference)
            schema = self._at(reference)
        return _OPEN

    def _at(self, reference: str) -> Any:
        part: Any = self._document
        for step in filter(None, reference[1:].split("/")):
            if not isinstance(part, dict):
                return _OPEN
            part = cast("dict[str, Any]", part).get(step.replace("~1", "/").replace("~0", "~"))
        return part


def _type_of(schema: Mapping[str, Any]) -> str:
    """`integer` … `object`; "": it is open."""
    said = schema.get("type", "object" if "properties" in schema else None)
    words = [word for word in _listed(said) if word != "null"]
    if len(words) != 1 or not isinstance(words[0], str) or any(word in schema for word in _UNION):
        return ""
    word = words[0]
    if word == "object":
        inside = schema.get("properties")
        return word if isinstance(inside, dict) and inside else ""
    if word == "array":
        return word if isinstance(schema.get("items"), dict) else ""
    return "base64" if word == "string" and schema.get("contentEncoding") == "base64" else word


def _listed(said: Any) -> Sequence[Any]:
    return cast("Sequence[Any]", said) if isinstance(said, list) else (said,)


def _either(kind: Any, other: Any) -> Any:
    return kind | other | None


def _list_of(kind: Any) -> Any:
    return list[kind] | None


def _itself(value: Any) -> Any:
    return value


def _text(raw: Any) -> str | None:
    """The JSON of something; null is None."""
    text = bytes(raw).decode()
    return None if text == "null" else text
