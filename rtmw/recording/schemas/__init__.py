"""The types in a recording: for other readers in IDL, for rtmw as the description that lies in the region. Payloads of
JSON and protobuf become columns, although the bus does not know them.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from rtmw.columns import describe
from rtmw.errors import RegionDamaged, UnsupportedType
from rtmw.recording.contents import TYPE_KEY, Channel, Schema
from rtmw.recording.schemas.idl import in_full, to_idl, unescaped, without_optional
from rtmw.recording.schemas.idl_reader import from_idl
from rtmw.recording.schemas.ros2 import QOS_KEY, from_ros2msg, full_name, qos_profiles, to_ros2msg
from rtmw.recording.writer import Definitions
from rtmw.types import MessageType, description, from_description, resolve
from rtmw.types.message_type import read_document
from rtmw.types.schema import Schema as Structure

CDR: Final = "cdr"
NUMPY: Final = "rtmw.numpy"
OCTETS: Final = "application/octet-stream"
OWN: Final = "rtmw"
"""The schema encoding of our own descriptions."""

REMARK_KEY: Final = "rtmw.schema"
"""The key of a channel's metadata that says why its schema is not in the language that was asked for."""

ROS2: Final = "ros2"
"""The profile of recordings for the tools of ROS 2."""

_XCDR: Final = {0x00: (1, "final"), 0x01: (1, "final"), 0x02: (1, "mutable"), 0x03: (1, "mutable")} | {
    first + order: (2, extensibility)
    for first, extensibility in ((0x06, "final"), (0x08, "appendable"), (0x0A, "mutable"))
    for order in (0, 1)
}
"""The CDR version and the extensibility of the outermost type, by the second byte of a payload."""


class SchemaText(NamedTuple):
    """The content of the schema record of a type, and the encoding of its messages."""

    name: str
    encoding: str
    """`omgidl`, `ros2msg`, `rtmw`, or empty for raw bytes, which have no schema."""
    data: bytes
    message_encoding: str


def define(
    definitions: Definitions,
    topic: str,
    type: MessageType | bytes,
    qos: Mapping[str, str] | None = None,
    number: int | None = None,
) -> int:
    """Defines the channel of a topic and its schema; the channel's number, which is `number` if that is given.

    `type`: a message type, or its description. `qos`: of the publisher, by the keys of docs/formats/format.md.
    """
    ros2 = definitions.profile == ROS2
    record, given = schema_of(type, ros2=ros2), dict(qos or {})
    schema = definitions.schema(record.name, record.encoding, record.data) if record.name else 0
    profiles = {QOS_KEY: qos_profiles(given)} if ros2 else {}
    metadata = {**metadata_of(type, ros2=ros2), **given, **profiles}
    return definitions.channel(topic, schema, record.message_encoding, metadata, number)


def schema_of(type: MessageType | bytes, *, ros2: bool = False, optional: bool = True) -> SchemaText:
    """The schema record for a message type, or for its description.

    CDR types get IDL; where that cannot describe them, `rtmw` and our description, and `remark_of` says why. With
    `ros2` they get what ROS 2 writes, and all others no schema, since tools of ROS 2 stop at one that they do not know.
    `optional`: False for readers that do not know optional members. Raises RegionDamaged when the description is none.
    """
    data = type if isinstance(type, bytes) else type.description
    document = read_document(data)
    name = str(document["name"])
    if document.get("kind") == "bytes":
        return SchemaText("", "", b"", OCTETS)
    encoding = CDR if document.get("kind") == "cdr" else NUMPY
    try:
        if encoding == CDR:
            return _foreign(description.from_document(document), ros2, optional)
    except UnsupportedType:
        pass
    return SchemaText("", "", b"", encoding) if ros2 else SchemaText(name, OWN, data, encoding)


def remark_of(type: MessageType | bytes, *, ros2: bool = False, optional: bool = True) -> str | None:
    """Why a CDR type has no schema that other readers know; None where it has one."""
    document = read_document(type if isinstance(type, bytes) else type.description)
    if document.get("kind") != "cdr":
        return None
    try:
        _foreign(description.from_document(document), ros2, optional)
    except UnsupportedType as error:
        return str(error)
    return None


def metadata_of(type: MessageType | bytes, *, ros2: bool = False) -> dict[str, str]:
    """The metadata of a channel that describes its type."""
    data = type if isinstance(type, bytes) else type.description
    remark = remark_of(data, ros2=ros2)
    own = {TYPE_KEY: base64.b64encode(data).decode()}
    return own if remark is None else own | {REMARK_KEY: remark}


def _foreign(schema: Structure, ros2: bool, optional: bool) -> SchemaText:
    if ros2:
        name, text = to_ros2msg(schema)
        return SchemaText(name, "ros2msg", text.encode(), CDR)
    text = to_idl(schema if optional else without_optional(schema))
    return SchemaText(in_full(schema.name), "omgidl", text.encode(), CDR)


def type_name(schema: Schema) -> str:
    """The name of the type that a schema record describes."""
    return unescaped(schema.name) if schema.encoding == "omgidl" else schema.name


def message_type_of(schema: Schema | None, channel: Channel, payload: bytes = b"") -> MessageType | None:
    """The message type of a channel: of ours exactly, of other recorders' from the IDL or the ROS 2 text.

    None where there is nothing to make a type from: no schema, or messages that are not CDR. A `payload` of the
    channel, of which the first four bytes suffice, says how types are encoded whose IDL leaves that open. Raises
    UnsupportedType, which says what it is that cannot be decoded.
    """
    own = channel.metadata.get(TYPE_KEY)
    try:
        if own is not None:
            return from_description(base64.b64decode(own, validate=True))
        if channel.message_encoding == OCTETS:
            return resolve(bytes)
        if schema is not None and schema.encoding == OWN:
            return from_description(schema.data)
        if schema is None or channel.message_encoding != CDR:
            return None
        found = _read(schema, payload)
        return None if found is None else _compiled(found)
    except (RegionDamaged, ValueError) as error:
        name = schema.name if schema is not None else "a channel"
        raise UnsupportedType(f"the type of {name} cannot be read: {error}") from error


def no_type(schema: Schema | None, channel: Channel) -> str:
    """Why a channel has nothing to make a type from, where `message_type_of` says None."""
    if schema is None:
        return f"its messages are {channel.message_encoding or 'of no named encoding'}, and it has no schema"
    return f"its messages are {channel.message_encoding}, and its schema is {schema.encoding}"


def _read(schema: Schema, payload: bytes) -> Structure | None:
    text = schema.data.decode()
    match schema.encoding:
        case "ros2msg":
            return from_ros2msg(text, schema.name)
        case "ros2idl":
            return from_idl(text, full_name(schema.name), xcdr=1)
        case "omgidl":
            xcdr, extensibility = _XCDR.get(payload[1], (None, "final")) if len(payload) > 1 else (None, "final")
            return from_idl(text, type_name(schema).replace("/", "::"), xcdr=xcdr, extensibility=extensibility)
        case _:
            return None


def _compiled(schema: Structure) -> MessageType:
    from rtmw.types.idl_type import idl_from_document

    document: dict[str, Any] = description.to_document(schema)
    return idl_from_document(document)


JSON: Final = "json"


def described_payloads(schema: Schema | None, channel: Channel) -> bytes | None:
    """The description from which `rtmw.columns` makes columns; None: payloads or schema are of another encoding.

    Raises UnsupportedType for a schema that is too large.
    """
    if channel.message_encoding == JSON and schema is None:
        return describe("json", JSON, b"")
    if schema is None:
        return None
    match channel.message_encoding, schema.encoding:
        case "json", ("jsonschema" | ""):
            return describe("json", schema.name, schema.data)
        case "protobuf", "protobuf":
            return describe("protobuf", schema.name, schema.data)
        case _:
            return None
