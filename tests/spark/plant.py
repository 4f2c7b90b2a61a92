"""Recordings of a plant for tests of reading: telemetry of several types, each value known from its number."""

import base64
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cyclonedds.idl.types as t
from cyclonedds.idl import IdlEnum, IdlStruct

from rtmw.recording import RecordingWriter
from rtmw.types import resolve

MS = 1_000_000
BEGIN = 1_760_000_000 * 1000 * MS
"""2025-10-09 08:53:20 UTC"""


class State(IdlEnum, typename="plant.State"):
    STOPPED = 0
    RUNNING = 1


@dataclass
class Speed(IdlStruct, typename="plant.Speed"):
    pump: t.int32
    rpm: t.float64
    turns: t.uint64
    state: State


@dataclass
class Report(IdlStruct, typename="plant.Report"):
    """With members that are called as columns of every message are, in other cases."""

    topic: str
    Priority: t.uint8
    speeds: t.sequence[Speed]
    image: bytes
    corners: t.array[t.float32, 2]


@dataclass
class Deep(IdlStruct, typename="plant.Deep"):
    below: t.sequence["tests.spark.plant.Deep"]  # noqa: F821 (cyclonedds imports it by this name)


@dataclass
class Phase(IdlStruct, typename="plant.Phase"):
    name: str


def speed(number: int) -> Speed:
    return Speed(number % 5, number / 7, (1 << 63) + number, State.RUNNING if number % 3 else State.STOPPED)


def report(number: int) -> Report:
    return Report(f"r{number}", number % 256, [speed(number)] * (number % 3), bytes([number % 256]), [number, 0.5])


class Plant:
    """A recording in which message n was logged n milliseconds after BEGIN."""

    def __init__(self, path: Path, chunk_bytes: int = 4096) -> None:
        self.path = path
        self.writer = RecordingWriter(path, chunk_bytes=chunk_bytes)
        self._channels: dict[tuple[str, Any], int] = {}

    def channel(self, topic: str, cls: Any) -> int:
        if (topic, cls) not in self._channels:
            kind = resolve(cls)
            described = {"rtmw.type": base64.b64encode(kind.description).decode()}
            schema = self.writer.schema(kind.name, "omgidl", b"") if kind.kind == "cdr" else 0
            self._channels[topic, cls] = self.writer.channel(topic, schema, "cdr", described)
        return self._channels[topic, cls]

    def put(self, topic: str, numbers: Iterable[int], make: Any = speed, **how: Any) -> None:
        """Values of `make`, or bytes as they are."""
        for number in numbers:
            value = make(number)
            cls = type(value)
            payload = value if cls is bytes else value.serialize()
            self.payload(topic, cls, number, payload, **how)

    def payload(self, topic: str, cls: Any, number: int, payload: bytes, **how: Any) -> None:
        stamp = BEGIN + number * MS
        facts = {"sequence": number, "priority": number % 8, "publisher": (1 << 63) + 5, **how}
        self.writer.write(self.channel(topic, cls), payload, log_time=stamp + 1, publish_time=stamp, **facts)

    def close(self) -> Path:
        self.writer.close()
        return self.path
