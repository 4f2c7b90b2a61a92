"""Protobuf messages by their FileDescriptorSet, as MCAP keeps it. Needs the `protobuf` package.

The columns are the fields, in the order of the .proto file. A field with presence (of a message type, `optional`, in a
`oneof`, or of proto2) is null where it was not set; other fields have their default there. Unknown fields of a
message are ignored. A field whose message type contains itself is text: the message in protobuf's JSON mapping.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from rtmw.columns.object_decoder import DURATION, TIME, Elements, Leaf, Member, Node, Parser, Record
from rtmw.columns.program import DEEPEST, MOST, Unsigned
from rtmw.errors import UnsupportedType
from rtmw.optional import needed

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FieldDescriptor

_PLAIN: Final = {
    **dict.fromkeys(("int32", "sint32", "sfixed32"), pa.int32()),
    **dict.fromkeys(("int64", "sint64", "sfixed64"), pa.int64()),
    "double": pa.float64(),
    "float": pa.float32(),
    "bool": pa.bool_(),
    "string": pa.string(),
    "bytes": pa.binary(),
}
_UNSIGNED: Final[Mapping[Unsigned, tuple[pa.DataType, pa.DataType]]] = {
    "keep": (pa.uint32(), pa.uint64()),
    "widen": (pa.int64(), pa.decimal128(20, 0)),
    "long": (pa.int64(), pa.int64()),
}
"""The types of columns for unsigned numbers of 32 and of 64 bits."""
_NAMES: Final = (
    *("", "double", "float", "int64", "uint64", "int32", "fixed64", "fixed32", "bool", "string", "group", "message"),
    *("bytes", "uint32", "enum", "sfixed32", "sfixed64", "sint32", "sint64"),
)
"""Names of the types of fields, by their numbers in descriptor.proto."""
_YEAR_1, _YEAR_10000 = -62_135_596_800, 253_402_300_800
_LONGEST: Final = 315_576_000_000
"""Seconds that a Duration has at most."""


def protobuf_parser(name: str, schema: bytes, unsigned: Unsigned) -> Parser:
    """Raises UnsupportedType for a schema that is none or lacks the type, and for more columns than may be."""
    found = _message_class(name, schema)
    from google.protobuf.message import DecodeError

    members = _ProtobufBuilder(unsigned).members(found.DESCRIPTOR, ())
    parse: Callable[[memoryview], Any] = found.FromString
    return Parser(name, parse, (DecodeError,), found(), members)


def _message_class(name: str, schema: bytes) -> Any:
    """The class of the messages, in a pool of its own: files of other recordings may call other types the same."""
    needed("google.protobuf", "protobuf", "protobuf", "protobuf payloads as columns")
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    from google.protobuf.message import DecodeError

    try:
        files = {file.name: file for file in descriptor_pb2.FileDescriptorSet.FromString(schema).file}
        pool: Any = descriptor_pool.DescriptorPool()
        for file in _in_order(files):
            pool.AddSerializedFile(file.SerializeToString())
        return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))
    except (DecodeError, TypeError, ValueError, KeyError) as error:
        raise UnsupportedType(f"the protobuf schema of {name} cannot be read: {error}") from error


def _in_order(files: Mapping[str, Any]) -> list[Any]:
    """Returns the files in an order in which each comes after those that it imports. Raises ValueError for a circle."""
    done: dict[str, Any] = {}
    left = dict(files)
    while left:
        ready = [name for name, file in left.items() if not any(other in left for other in file.dependency)]
        if not ready:
            raise ValueError(f"its files import each other: {', '.join(sorted(left)[:5])}")
        for name in ready:
            done[name] = left.pop(name)
    return [*done.values()]


class _ProtobufBuilder:
    """Makes the columns of a message type, and counts them."""

    def __init__(self, unsigned: Unsigned) -> None:
        self._unsigned: Unsigned = unsigned
        self._count = 0

    def members(self, kind: Descriptor, above: tuple[str, ...]) -> tuple[Member, ...]:
        """The fields of a message. `above`: the types around it."""
        if len(above) >= DEEPEST:
            raise UnsupportedType(f"{above[0]} has messages within messages more than {DEEPEST} deep")
        inside = (*above, kind.full_name)
        return tuple(self._member(field, inside) for field in kind.fields)

    def _member(self, field: FieldDescriptor, above: tuple[str, ...]) -> Member:
        self._count += 1
        if self._count > MOST:
            raise UnsupportedType(f"{above[0]} has more than {MOST} columns")
        name = field.name
        kind = field.message_type
        if kind is not None and kind.GetOptions().map_entry:
            return Member(name, _entries(name), Elements(self._entry(kind, above)))
        node = self._node(field, above)
        if field.is_repeated:
            return Member(name, attrgetter(name), Elements(node))
        return Member(name, _if_set(name) if field.has_presence else attrgetter(name), node)

    def _entry(self, kind: Descriptor, above: tuple[str, ...]) -> Record:
        key, value = kind.fields_by_name["key"], kind.fields_by_name["value"]
        self._count += 2
        members = Member("key", _first, self._node(key, above)), Member("value", _second, self._node(value, above))
        return Record(members, (None, None))

    def _node(self, field: FieldDescriptor, above: tuple[str, ...]) -> Node:
        kind = field.message_type
        if kind is not None:
            return self._message(kind, above)
        if field.enum_type is not None:
            names = {number: value.name for number, value in field.enum_type.values_by_number.items()}
            return Leaf(pa.string(), lambda number: names.get(number) or str(number))
        word = _NAMES[field.type]
        if word in ("uint32", "fixed32", "uint64", "fixed64"):
            return Leaf(_UNSIGNED[self._unsigned][word.endswith("64")])
        return Leaf(_PLAIN[word])

    def _message(self, kind: Descriptor, above: tuple[str, ...]) -> Node:
        if kind.full_name == "google.protobuf.Timestamp":
            return Leaf(TIME, _timestamp)
        if kind.full_name == "google.protobuf.Duration":
            return Leaf(DURATION, _duration)
        if kind.full_name in above or _contains_itself(kind):
            return Leaf(pa.string(), _as_json)
        from google.protobuf import message_factory

        return Record(self.members(kind, above), message_factory.GetMessageClass(kind)())


def _contains_itself(kind: Descriptor) -> bool:
    seen: set[str] = set()
    waiting = [kind]
    while waiting:
        for field in waiting.pop().fields:
            inner = field.message_type
            if inner is not None and inner.full_name == kind.full_name:
                return True
            if inner is not None and inner.full_name not in seen:
                seen.add(inner.full_name)
                waiting.append(inner)
    return False


def _if_set(name: str) -> Callable[[Any], Any]:
    return lambda message: getattr(message, name) if message.HasField(name) else None


def _entries(name: str) -> Callable[[Any], list[tuple[Any, Any]]]:
    """Returns what gives the entries of a map in the order of their keys: the library keeps no order."""
    take = attrgetter(name)
    return lambda message: sorted(take(message).items(), key=_first)


def _first(pair: tuple[Any, Any]) -> Any:
    return pair[0]


def _second(pair: tuple[Any, Any]) -> Any:
    return pair[1]


def _timestamp(stamp: Any) -> int | None:
    """Microseconds since 1970; None: beyond the years 1 to 9999, which protobuf does not allow."""
    seconds: int = stamp.seconds
    if not _YEAR_1 <= seconds < _YEAR_10000 or not 0 <= stamp.nanos < 10**9:
        return None
    micros: int = seconds * 10**6 + stamp.nanos // 1000
    return micros


def _duration(length: Any) -> int | None:
    """Microseconds, cut towards 0; None: beyond what protobuf allows."""
    nanos: int = length.seconds * 10**9 + length.nanos
    if abs(length.seconds) > _LONGEST or abs(length.nanos) >= 10**9:
        return None
    return nanos // 1000 if nanos >= 0 else -(-nanos // 1000)


def _as_json(message: Any) -> str:
    from google.protobuf import json_format

    try:
        return json_format.MessageToJson(message, indent=None, preserving_proto_field_name=True)
    except (json_format.Error, RecursionError) as error:
        raise ValueError(f"it has no JSON: {error}") from error
