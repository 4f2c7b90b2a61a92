"""Recordings for the tests of Spark: typed messages on several topics, a millisecond apart."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

from rtmw.recording import RecordingWriter
from rtmw.types import resolve
from tests.bus import Reading

MS = 1_000_000
BEGIN = 1_700_000_000 * 1000 * MS


def reading(number: int) -> Reading:
    return Reading(f"A{number % 7}", number / 3)


def payload(number: int) -> bytes:
    encode = resolve(Reading).encode
    assert encode is not None
    return bytes(encode(reading(number)))


class Recorder:
    """Writes messages `first` to `last` of a flow to a file, by turns to its topics, in chunks of few."""

    def __init__(self, path: Path, topics: tuple[str, ...] = ("river",), kind: Any = Reading) -> None:
        self.writer = RecordingWriter(path, chunk_bytes=512)
        described = {"rtmw.type": base64.b64encode(resolve(kind).description).decode()}
        self.channels = [self.writer.channel(topic, 0, "cdr", described) for topic in topics]

    def write(self, first: int, last: int) -> None:
        for number in range(first, last):
            channel, stamp = self.channels[number % len(self.channels)], BEGIN + number * MS
            self.writer.write(channel, payload(number), log_time=stamp, publish_time=stamp - 100, sequence=number)
        self.writer.flush()


def record(path: Path, first: int, last: int, *, kind: Any = Reading) -> None:
    """A complete recording of these messages. `kind`: what they are said to be."""
    recorder = Recorder(path, kind=kind)
    recorder.write(first, last)
    recorder.writer.close()
