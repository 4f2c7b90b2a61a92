"""Recordings for the readers of others, and what is in them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from rtmw.recording import RecordingWriter
from rtmw.recording.schemas import define
from rtmw.recording.writer import Definitions
from rtmw.types import resolve
from tests.types import messages
from topics import airport, river, telemetry

QOS = {"rtmw.reliability": "TIMELY", "rtmw.history": "3", "rtmw.lifetime_ns": "1500000000"}
START = 1_700_000_000_000_000_000

VALUES: tuple[tuple[str, Any], ...] = (
    ("river/reading", river.Reading("A1", "ph", 7.5, river.Quality.BAD, 12345)),
    ("river/station", river.Station("A1", "Brücke", "Elbe", 53.5, 9.9, 600.0)),
    ("airport/departure", airport.Movement("JFK", airport.Direction.ARRIVAL, "SFO", "UA", 7, "N1", 1, 2, -3.5, 300.0)),
    ("telemetry/cpu", telemetry.Cpu("host", 1.0, 2.0, 3.0, [4.0, 5.0], 6.0, 1 << 40)),
    ("plot", messages.Plot("t", [messages.Point(1.0, True, "a")], [1, 2, 3], b"abcd", b"xy", -1)),
    ("rows", messages.Rows([1, -2], b"ab", [1.5], [2.5], [3.0, 4.0])),
)
"""A message of each of these topics, round and round."""


def write(path: Path, rounds: int = 20, *, profile: str = "", **options: Any) -> Path:
    """Message `row` is of topic row % topics, published at START + 1000 row, and recorded 100 ns later."""
    definitions = Definitions(profile)
    with RecordingWriter(path, chunk_bytes=2000, definitions=definitions, **options) as writer:
        channels = [define(definitions, topic, resolve(type(value)), QOS) for topic, value in VALUES]
        for row in range(rounds * len(VALUES)):
            at = START + 1000 * row
            payload = VALUES[row % len(VALUES)][1].serialize()
            writer.write(channels[row % len(VALUES)], payload, log_time=at + 100, publish_time=at, sequence=row)
        writer.metadata("rtmw.recorder", {"host": "here", "reason": "a test"})
    return path


def plain(value: Any) -> Any:
    """A value as JSON of JavaScript has it: 64-bit numbers as text, enumerators and characters as numbers."""
    if hasattr(value, "__dataclass_fields__"):
        types = {name: str(kind) for name, kind in type(value).__annotations__.items()}
        return {name: _long(plain(getattr(value, name)), types[name]) for name in types}
    if hasattr(value, "_value_"):
        return value.value
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if isinstance(value, bytes):
        return list(value)
    return [plain(part) for part in value] if isinstance(value, list) else value


def _long(value: Any, kind: str) -> Any:
    if "'char'" in kind:
        return ord(value)
    if "int64" not in kind:
        return value
    return [str(part) for part in value] if isinstance(value, list) else str(value)
