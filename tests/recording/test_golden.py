"""Files as they have been from the first release on: today's have the same bytes, and old ones are read."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from pathlib import Path

import pytest
from cyclonedds.idl import IdlStruct, types

from rtmw.recording import Recording, writer
from rtmw.recording.writer import RecordingWriter
from rtmw.types import resolve
from tests.types.coded import encode

GOLDEN = Path(__file__).parent / "golden" / "two-chunks.mcap"
PUBLISHER = (1 << 62) + 5


@dataclass
class Level(IdlStruct, typename="river.Level"):
    station: str
    metres: types.float64
    number: types.uint16


def payload(number: int) -> bytes:
    return encode(resolve(Level), Level("Elbe", 2.5 - number, 7 + number))


def write(path: Path) -> None:
    """Two chunks: typed messages with ranges, and bytes; each field of a side record has a value of its own."""
    kind = resolve(Level)
    with RecordingWriter(path, compression="none", chunk_bytes=1000) as file:
        schema = file.schema(kind.name, "rtmw", kind.description)
        described = {"rtmw.type": base64.b64encode(kind.description).decode(), "rtmw.priority": "3"}
        level = file.channel("river/level", schema, "cdr", described)
        raw = file.channel("river/raw", 0, "application/octet-stream")
        for n in range(3):
            times = {"log_time": 1000 + n, "publish_time": 990 + n}
            about = {"sequence": (3 << 32) + n, "priority": 3, "publisher": PUBLISHER, "expires": 5000 + n}
            file.write(level, payload(n), **times, **about)
        file.missed(level, 2, 4)
        file.flush()
        file.write(raw, b"bytes", log_time=2000, publish_time=1999, flags=1)
        file.missed(raw, 6, 1)
        file.metadata("rtmw.recorder", {"host": "åre"})


# Proves G7.
def test_a_file_that_is_written_today_has_the_bytes_of_the_golden_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But for the version of rtmw, which stands in the header."""
    monkeypatch.setattr(writer, "_version", lambda: "golden")
    write(tmp_path / "new.mcap")
    assert (tmp_path / "new.mcap").read_bytes() == GOLDEN.read_bytes()


def test_the_golden_file_holds_what_was_written() -> None:
    with Recording(GOLDEN) as recording:
        found = list(recording.messages())
        names = {channel.id: channel.topic for channel in recording.channels.values()}
        missed = [(names[m.channel], m.cause, m.count) for c in recording.chunks for m in recording.read(c).missed]
        ranges = [
            [(r.member, r.kind, r.least, r.most) for r in rows]
            for rows in recording.ranges(recording.chunks[0]).values()
        ]
    assert [(m.channel.topic, m.sequence, m.priority, m.publisher, m.expires, m.flags) for m in found] == [
        *(("river/level", (3 << 32) + n, 3, PUBLISHER, 5000 + n, 0) for n in range(3)),
        ("river/raw", 0, 0, 0, 0, 1),
    ]
    assert [(m.log_time, m.publish_time) for m in found] == [(1000, 990), (1001, 991), (1002, 992), (2000, 1999)]
    assert [m.payload for m in found] == [*map(payload, range(3)), b"bytes"]
    assert missed == [("river/level", 2, 4), ("river/raw", 6, 1)]
    assert ranges == [[(1, "double", 0.5, 2.5), (2, "uint16", 7, 9)]]
