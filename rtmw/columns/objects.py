"""Payloads that a library decodes, message by message, to columns: JSON by its JSON Schema (needs the `msgspec`
package), and protobuf by its FileDescriptorSet (needs `protobuf`), as MCAP keeps them.

A column is a tree. Each node makes one array of a list of values, in which None is null; a record takes the lists of
its members from its values, so that no value is looked at twice.

Of JSON, the columns are the properties of the schema, in its order. A member that a message lacks, or that is null
there, is null; other members of a message are ignored. Where a schema leaves a type open (it names several types, an
object without properties, or a part that contains itself), the column is text: the JSON as it was written. A schema of
something else than an object, and messages without a schema, have one column, `value`.

Of protobuf, the columns are the fields, in the order of the .proto file. A field with presence (of a message type,
`optional`, in a `oneof`, or of proto2) is null where it was not set; other fields have their default there. Unknown
fields of a message are ignored. A field whose message type contains itself is text: the message in protobuf's JSON
mapping.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated, Any, Final, Protocol, cast

import numpy as np
import pyarrow as pa

from rtmw.columns.program import DEEPEST, MOST, Unsigned
from rtmw.columns.rows import Rows
from rtmw.errors import UnsupportedType, needed

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FieldDescriptor

    from rtmw.columns import Mask


TIME: Final = pa.timestamp("us", tz="UTC")
"""The type of times, which recordings have, too: to the microsecond, which every reader knows."""
DURATION: Final = pa.duration("us")

Values = list[Any]
_MOST: Final = 1 << 31


class TooLarge(OverflowError):
    """An array would be larger than Arrow's offsets reach."""


class Node(Protocol):
    """How the values of a column become an array."""

    @property
    def type(self) -> pa.DataType: ...

    def array(self, values: Values) -> pa.Array:
        """Raises TooLarge, and ValueError, TypeError or OverflowError for a value that is not of the type."""
        ...


@dataclass(frozen=True)
class Leaf:
    """Values as they are, or as `convert` makes them of a value that is not None."""

    type: pa.DataType
    convert: Callable[[Any], Any] | None = None

    def array(self, values: Values) -> pa.Array:
        if self.convert is not None:
            convert = self.convert
            values = [None if value is None else convert(value) for value in values]
        made = pa.array(values, self.type)
        if isinstance(made, pa.ChunkedArray):
            raise TooLarge("a column has more than 2 GiB")
        return made


@dataclass(frozen=True)
class Member:
    """A member of a record: how its value is taken from one that is not None, and what becomes of the values."""

    name: str
    take: Callable[[Any], Any]
    node: Node

    @property
    def field(self) -> pa.Field:
        return pa.field(self.name, self.node.type, True)

    def array(self, owners: Values) -> pa.Array:
        return self.node.array(list(map(self.take, owners)))


@dataclass(frozen=True)
class Record:
    """Values with members. `blank`: a value without any, which stands for None."""

    members: tuple[Member, ...]
    blank: Any

    @property
    def type(self) -> pa.DataType:
        return pa.struct([member.field for member in self.members])

    def array(self, values: Values) -> pa.Array:
        is_null = [value is None for value in values]
        mask = pa.array(is_null, pa.bool_()) if any(is_null) else None
        there = [self.blank if value is None else value for value in values] if mask is not None else values
        if not self.members:
            return pa.array([None if null else {} for null in is_null], pa.struct([]))
        arrays = [member.array(there) for member in self.members]
        return pa.StructArray.from_arrays(arrays, fields=[*self.type], mask=mask)


@dataclass(frozen=True)
class Elements:
    """Values that are sequences."""

    node: Node

    @property
    def type(self) -> pa.DataType:
        return pa.list_(pa.field("element", self.node.type, True))

    def array(self, values: Values) -> pa.Array:
        is_null = [value is None for value in values]
        there: list[Sequence[Any]] = [() if value is None else value for value in values]
        ends = [0, *accumulate(map(len, there))]
        if ends[-1] >= _MOST:
            raise TooLarge("a column has more than 2^31 elements")
        offsets = pa.array(ends, pa.int32())
        elements = self.node.array(list(chain.from_iterable(there)))
        mask = pa.array(is_null, pa.bool_()) if any(is_null) else None
        return pa.ListArray.from_arrays(offsets, elements, type=self.type, mask=mask)


_ROWS: Final = 1 << 14
"""Messages that are objects of Python at the same time."""
_BYTES: Final = 16 << 20
"""Bytes of the payloads of messages that are objects of Python at the same time; a single message may have more."""
_MISFITS: Final = (ValueError, TypeError, OverflowError)


@dataclass(frozen=True)
class Parser:
    """How a payload becomes an object, and an object columns."""

    name: str
    """Name of the type."""
    parse: Callable[[memoryview], Any]
    """Raises one of `errors` for what is no such message."""
    errors: tuple[type[Exception], ...]
    blank: Any
    """An object whose members are all null or empty."""
    members: tuple[Member, ...]


class ObjectDecoder:
    """The columns of such a type, each of which may be null. One may serve several threads."""

    def __init__(self, parser: Parser) -> None:
        self._parser = parser
        self._schema = pa.schema([member.field for member in parser.members])

    def schema(self, permissive: bool) -> pa.Schema:
        return self._schema

    def decode(self, rows: Rows, permissive: bool) -> Iterator[tuple[pa.RecordBatch, Any]]:
        """See `Decoder`."""
        for part, first in _parts(rows):
            objects, damaged = self._objects(part, first, permissive)
            try:
                yield self._batch(part, first, objects, damaged, permissive)
            except TooLarge:
                for half in part.halves():
                    yield from self.decode(half, permissive)

    def _objects(self, rows: Rows, first: int, permissive: bool) -> tuple[list[Any], dict[int, str]]:
        """The messages, and why those are blank that are damaged."""
        payloads = rows.views()
        parse, damaged = self._parser.parse, dict[int, str]()
        try:
            return [parse(payload) for payload in payloads], damaged
        except self._parser.errors:
            pass
        objects: list[Any] = []
        for row, payload in enumerate(payloads):
            try:
                objects.append(parse(payload))
            except self._parser.errors as error:
                self._keep(rows, first, row, str(error), damaged, permissive)
                objects.append(self._parser.blank)
        return objects, damaged

    def _batch(
        self, rows: Rows, first: int, objects: list[Any], damaged: dict[int, str], permissive: bool
    ) -> tuple[pa.RecordBatch, Mask | None]:
        try:
            arrays = self._arrays(objects)
        except TooLarge:
            raise
        except _MISFITS:  # a value that its column cannot have
            for row, value in enumerate(objects):
                reason = self._misfit(value)
                if reason:
                    self._keep(rows, first, row, reason, damaged, permissive)
                    objects[row] = self._parser.blank
            arrays = self._arrays(objects)
        if not damaged:
            return self._made(arrays, len(rows)), None
        mask = np.zeros(len(rows), bool)
        mask[[*damaged]] = True
        places = pa.array(np.arange(len(rows)), mask=mask)
        return self._made([array.take(places) for array in arrays], len(rows)), mask

    def _arrays(self, objects: list[Any]) -> list[pa.Array]:
        return [member.array(objects) for member in self._parser.members]

    def _misfit(self, value: Any) -> str:
        """Why a message has no columns; "": it has."""
        for member in self._parser.members:
            try:
                member.array([value])
            except _MISFITS as error:
                return f"{member.name}: {error}"
        return ""

    def _made(self, arrays: list[pa.Array], count: int) -> pa.RecordBatch:
        if arrays:
            return pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        return pa.RecordBatch.from_struct_array(pa.array([{}] * count, pa.struct([])))

    def _keep(self, rows: Rows, first: int, row: int, reason: str, damaged: dict[int, str], permissive: bool) -> None:
        if not permissive:
            raise rows.damage(row, self._parser.name, reason, first)
        damaged[row] = reason


def _parts(rows: Rows) -> Iterator[tuple[Rows, int]]:
    """The rows in pieces, each with the number of its first row; without rows one piece that has none."""
    begin = 0
    while begin < len(rows) or begin == 0:
        sizes = np.cumsum(rows.size[begin : begin + _ROWS])
        count = max(int(np.searchsorted(sizes, _BYTES, "right")), 1)
        yield rows[begin : begin + count], begin
        begin += count


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
