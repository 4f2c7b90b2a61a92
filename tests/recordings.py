"""Making recordings for tests, message by message."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cyclonedds.idl import IdlStruct, types

from rtmw.recording import RecordingWriter
from rtmw.recording.schemas import schema_of
from rtmw.types import resolve

BEGIN_NS = 1_700_000_000 * 10**9
"""When they begin: some day in 2023."""
MS = 10**6
SECOND = 10**9


@dataclass
class Old(IdlStruct, typename="plant.Level"):
    """A version of a type."""

    metres: types.float32


@dataclass
class New(IdlStruct, typename="plant.Level"):
    """The next version of it."""

    metres: types.float64


class Maker:
    """Writes a recording; times are nanoseconds since BEGIN_NS. `close` or `with` completes it."""

    def __init__(self, path: Path, **options: Any) -> None:
        self.path = path
        self.writer = RecordingWriter(path, **options)
        self._sequences: dict[tuple[int, int], int] = {}

    def channel(self, topic: str, type: Any = bytes, **metadata: Any) -> int:
        """`metadata`: `history=1` is `rtmw.history` = "1"."""
        kind = resolve(type)
        schema = schema_of(kind)
        number = self.writer.schema(schema.name, schema.encoding, schema.data) if schema.encoding else 0
        described = {"rtmw.type": base64.b64encode(kind.description).decode()}
        quality = {f"rtmw.{name}": str(value) for name, value in metadata.items()}
        return self.writer.channel(topic, number, schema.message_encoding, described | quality)

    def write(self, channel: int, at_ns: int, payload: Any, **more: Any) -> None:
        """`published` differs from `at_ns`: also since BEGIN_NS; `left`: what is left of the lifetime."""
        priority = more.pop("priority", 0)
        sequence = self._sequences[channel, priority] = self._sequences.get((channel, priority), 0) + 1
        left = more.pop("left", None)
        self.writer.write(
            channel,
            payload,
            log_time=BEGIN_NS + at_ns,
            publish_time=BEGIN_NS + more.pop("published", at_ns),
            sequence=more.pop("sequence", sequence),
            priority=priority,
            publisher=more.pop("publisher", 7),
            expires=0 if left is None else BEGIN_NS + at_ns + left,
            **more,
        )

    def close(self) -> Path:
        self.writer.close()
        return self.path

    def __enter__(self) -> Maker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def numbered(path: Path, topics: Iterable[str], count: int, apart_ns: int = MS, **options: Any) -> Path:
    """A recording of so many messages, on these topics in turn: their numbers, in eight bytes."""
    with Maker(path, **options) as maker:
        channels = [maker.channel(topic) for topic in topics]
        for number in range(count):
            maker.write(channels[number % len(channels)], number * apart_ns, number.to_bytes(8, "little"))
    return path
