"""Schemas and channels of recordings; the files of one recording that was split share them."""

from __future__ import annotations

import base64
from collections.abc import Container, Iterable, Mapping
from contextlib import suppress
import itertools

from rtmw.recording import records
from rtmw.recording.contents import TYPE_KEY

__all__ = ["Definitions"]

MOST = (1 << 16) - 1


class Definitions:
    """Schemas and channels by number, as records. The same one again has the same number.

    `profile`: "ros2" for recordings that are meant for ROS 2's tools, too (schemas.py), else "".
    """

    def __init__(self, profile: str = "") -> None:
        self.profile = profile
        self.schemas: dict[int, bytes] = {}
        self.channels: dict[int, bytes] = {}
        self.types: dict[int, bytes] = {}
        """Descriptions of the types of CDR payloads, by channel."""
        self._schema_of: dict[int, int] = {}
        self._schema_numbers: dict[tuple[str, str, bytes], int] = {}
        self._channel_numbers: dict[bytes, int] = {}

    def schema(self, name: str, encoding: str, data: bytes) -> int:
        key = (name, encoding, bytes(data))
        if key not in self._schema_numbers:
            number = _next(self.schemas, "schemas")
            self.schemas[number] = records.schema(number, *key)
            self._schema_numbers[key] = number
        return self._schema_numbers[key]

    def channel(
        self, topic: str, schema_id: int, message_encoding: str, metadata: Mapping[str, str], number: int | None = None
    ) -> int:
        """`number`: the one that it is to have, if it is for the caller to say."""
        if schema_id and schema_id not in self.schemas:
            raise ValueError(f"channel {topic}: there is no schema {schema_id}; make it first")
        key = records.channel(0, schema_id, topic, message_encoding, metadata)
        if number is None:
            number = self._channel_numbers.get(key) or _next(self.channels, "channels")
        self.channels[number] = records.channel(number, schema_id, topic, message_encoding, metadata)
        self._channel_numbers.setdefault(key, number)
        self._schema_of[number] = schema_id
        if message_encoding == "cdr" and TYPE_KEY in metadata:
            with suppress(ValueError):  # others may write anything under this key
                self.types[number] = base64.b64decode(metadata[TYPE_KEY], validate=True)
        return number

    def of(self, channels: Iterable[int], but: Container[bytes]) -> list[bytes]:
        """Records of these channels and of their schemas, each once, without those that are in `but`."""
        found: dict[bytes, None] = {}
        for number in channels:
            schema_id = self._schema_of[number]
            if schema_id:
                found[self.schemas[schema_id]] = None
            found[self.channels[number]] = None
        return [definition for definition in found if definition not in but]


def _next(used: Mapping[int, bytes], what: str) -> int:
    number = next(number for number in itertools.count(len(used) + 1) if number not in used)
    if number > MOST:
        raise ValueError(f"a recording has at most {MOST} {what}")
    return number
