"""A recording with messages of a river, of an airport and of a machine, each of three hours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rtmw.recording import RecordingWriter
from rtmw.recording.schemas import define
from rtmw.recording.writer import Definitions
from rtmw.types import resolve
from topics import airport, river, telemetry

BEGIN = 1_700_000_000_000_000_000
STEP = 60_000_000_000
ROUNDS = 180


def values(number: int, at: int) -> list[tuple[str, Any]]:
    """One message a topic; an alarm on <b>every</b> hundredth round, over ten rounds later."""
    quality = river.Quality.BAD if number % 9 == 0 else river.Quality.GOOD
    direction = airport.Direction.ARRIVAL if number % 2 else airport.Direction.DEPARTURE
    carrier = ("AA", "UA", "B6")[number % 3]
    return [
        ("river/reading", river.Reading(f"S{number % 2}", "ph", 7 + number % 8 / 8, quality, at)),
        ("river/alarm", river.Alarm("S0", "ph", number % 100 < 10, 9.5, 9.0, at, "ph <b>above</b> 9")),
        ("airport/departure", airport.Movement("JFK", direction, "SFO", carrier, 7, "", at // 10**9, 0, number % 60)),
        ("machine/load", telemetry.Cpu("host", number % 100)),
    ]


def write(path: Path) -> Path:
    definitions = Definitions()
    channels: dict[str, int] = {}
    with RecordingWriter(path, definitions=definitions) as writer:
        for number in range(ROUNDS):
            at = BEGIN + number * STEP
            for topic, value in values(number, at):
                if topic not in channels:
                    channels[topic] = define(definitions, topic, resolve(type(value)))
                expires = at + (1_000_000 if topic == "river/alarm" else 0)
                times = {"log_time": at + 2_000_000, "publish_time": at, "expires": expires if expires != at else 0}
                writer.write(channels[topic], value.serialize(), sequence=number, **times)
    return path
