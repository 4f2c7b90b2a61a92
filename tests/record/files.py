"""What is in the files of a recorder."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import rtmw
from rtmw.recording.contents import Message


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
