"""Payloads of others that become columns: JSON and protobuf, which the bus does not know."""

from __future__ import annotations

from typing import Final

from rtmw.columns.payload_types import describe
from rtmw.recording.contents import Channel, Schema

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
