"""The last message of each publisher that keeps some for late subscribers: carried into every file of a recording."""

from __future__ import annotations

from rtmw.recording._mcap import ChunkBuilder
from rtmw.recording.batch import CARRIED, CARRIED_MOST
from rtmw.recording.writer import RecordingWriter

__all__ = ["Latched"]

Kept = tuple[bytes, int, int, int, int, int, int]
"""Payload, log time, publish time, sequence, priority, publisher, expiry."""


class Latched:
    """By channel and publisher, the latest last."""

    def __init__(self) -> None:
        self._kept: dict[int, dict[int, Kept]] = {}

    def see(self, chunk: ChunkBuilder, channels: set[int]) -> None:
        """Remember the last messages that a chunk has of these channels."""
        for channel in channels & {number for number, _, _ in chunk.channels()}:
            kept = self._kept.setdefault(channel, {})
            for message in chunk.latest(channel):
                kept.pop(message[5], None)
                kept[message[5]] = message
            while len(kept) > CARRIED_MOST:
                del kept[next(iter(kept))]

    def carry(self, writer: RecordingWriter, log_time: int) -> None:
        """Into a file that begins at this time. What has expired by then stays behind."""
        for channel, by_publisher in self._kept.items():
            for payload, _, publish_time, sequence, priority, publisher, expires in by_publisher.values():
                if expires and expires <= log_time:
                    continue
                writer.write(
                    channel,
                    payload,
                    log_time=log_time,
                    publish_time=publish_time,
                    sequence=sequence,
                    priority=priority,
                    publisher=publisher,
                    expires=expires,
                    flags=CARRIED,
                )
