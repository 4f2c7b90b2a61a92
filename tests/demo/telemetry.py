"""A recording like that of the demonstration."""

from __future__ import annotations

from pathlib import Path

from rtmw.demo.topics import telemetry
from rtmw.recording import RecordingWriter
from rtmw.recording.schemas import define
from rtmw.recording.writer import Definitions
from rtmw.types import resolve

BEGIN = 1_700_000_000_000_000_000
QOS = {"rtmw.reliability": "RELIABLE", "rtmw.history": "0", "rtmw.depth": "64"}


def write(path: Path, count: int) -> Path:
    """So many messages of each topic, 10 ms apart; memory says that as many bytes are used as there were before."""
    definitions = Definitions()
    with RecordingWriter(path, definitions=definitions) as writer:
        topics = (telemetry.MEMORY, telemetry.CPU, telemetry.ALARM)
        channels = [define(definitions, topic.name, resolve(topic.type), QOS) for topic in topics]
        for number in range(count):
            at = BEGIN + number * 10_000_000
            values = (
                telemetry.Memory(host="h", used=number),
                telemetry.Cpu(host="h", percent=float(number)),
                telemetry.Alarm(host="h", text="high"),
            )
            for channel, value in zip(channels, values, strict=True):
                writer.write(channel, value.serialize(), log_time=at + 90_000, publish_time=at, sequence=number)
    return path
