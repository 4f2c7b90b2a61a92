"""What is in the files of a recorder, and waiting for it."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import rtmw
from rtmw.recording.contents import Message

LONG_S = 60.0
"""Within which everything happens that has to."""


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + LONG_S
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.002)


def taken(recorder: rtmw.Recorder, count: int) -> None:
    """Wait until so many messages were taken from the bus."""
    until(lambda: recorder.stats().messages >= count)


def messages_of(paths: Iterable[Path], topic: str | None = None) -> list[Message]:
    """All messages, in the order of the files; each file has to be complete."""
    found: list[Message] = []
    for path in paths:
        with rtmw.Recording(path) as recording:
            assert recording.complete, recording.incomplete_because
            found += recording.messages(topic)
    return found


def payloads_of(paths: Iterable[Path], topic: str | None = None) -> list[bytes]:
    return [message.payload for message in messages_of(paths, topic)]


def missed_of(paths: Iterable[Path]) -> Counter[tuple[str, int]]:
    """How many messages are missing, by topic and cause, as the side records tell."""
    found: Counter[tuple[str, int]] = Counter()
    for path in paths:
        with rtmw.Recording(path) as recording:
            for chunk in recording.chunks:
                for missed in recording.read(chunk).missed:
                    found[recording.channels[missed.channel].topic, missed.cause] += missed.count
    return found


def table_of(path: Path, name: str) -> dict[str, Any]:
    """The metadata of this name; JSON inside of it is read."""
    with rtmw.Recording(path) as recording:
        (values,) = [values for found, values in recording.metadata if found == name]
    return {key: json.loads(value) if value[:1] in "{[" else value for key, value in values.items()}
