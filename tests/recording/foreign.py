"""Recordings of others: what the `mcap` library writes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mcap.writer import CompressionType, IndexType, Writer

START = 1_700_000_000_000_000_000
TOPICS = ("plant/flow", "plant/heat", "plant/rpm")


def payload(row: int) -> bytes:
    return f"message {row}: ".encode() * (1 + row % 7)


def write_foreign(path: Path, messages: int = 600, **options: Any) -> Path:
    """Message `row` is of topic row % 3, was published at START + row, and logged 1000 ns later."""
    options = {"chunk_size": 4000, "compression": CompressionType.LZ4, "index_types": IndexType.ALL} | options
    with path.open("wb") as file:
        writer = Writer(file, **options)
        writer.start("", "somebody else")
        schema = writer.register_schema("plant.Text", "jsonschema", b'{"type": "string"}')
        channels = [writer.register_channel(topic, "json", schema, {"unit": topic[-3:]}) for topic in TOPICS]
        for row in range(messages):
            time = START + row
            writer.add_message(channels[row % 3], time + 1000, payload(row), time, row)
        writer.add_metadata("who", {"name": "somebody", "place": "elsewhere"})
        writer.add_attachment(5, 6, "notes.txt", "text/plain", b"an attachment")
        writer.finish()
    return path
