"""The messages latched at a moment: a section that begins then has them, too, as the next file of a recorder has.

The last message of each publisher, that is, of channels whose publishers kept some for late subscribers. Recordings of
others do not say who published what: of them, as many messages as the channel had publishers of that kind.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

import numpy as np

from rtmw.recording.batch import CARRIED, CARRIED_MOST, Batch
from rtmw.recording.schemas.ros2_qos import QOS_KEY, is_latched, offered

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rtmw.recording.contents import Chunk
    from rtmw.recording.recording import Recording

_Found = tuple[int, Batch]
"""When it came, and a batch of this message only."""


def latched(recording: Recording, channels: Collection[int], at_ns: int) -> list[Batch]:
    """The messages of these channels, one a batch, in the order in which they came; without those expired by then."""
    counts = {number: _count(recording, number) for number in channels}
    search = _Search(recording, {number: count for number, count in counts.items() if count}, at_ns)
    earlier = [chunk for chunk in recording.chunks if chunk.counts and chunk.start_ns < at_ns]
    for chunk in sorted(earlier, key=lambda chunk: -chunk.end_ns):
        search.look_into(chunk)
    return search.carried()


def _count(recording: Recording, channel: int) -> int:
    """How many messages are latched: of each publisher, or, where nobody says whose they are, of all."""
    metadata = recording.channels[channel].metadata
    if recording.header.is_ours and metadata.get("rtmw.history", "0") != "0":
        return 1
    return sum(map(is_latched, offered(metadata.get(QOS_KEY, ""))))


class _Search:
    def __init__(self, recording: Recording, counts: Mapping[int, int], at_ns: int) -> None:
        self._recording, self._counts, self._at_ns = recording, counts, at_ns
        self._found: dict[int, dict[int, list[_Found]]] = {channel: {} for channel in counts}
        """By channel and publisher, the newest last."""

    def look_into(self, chunk: Chunk) -> None:
        """All chunks that end later have been looked into."""
        channels = self._counts.keys() & chunk.counts.keys()
        wanted = [channel for channel in channels if self._lacks(channel, chunk.end_ns)]
        if not wanted:
            return
        batch = self._recording.read(chunk)
        early = batch.where(batch.log_time < self._at_ns)
        times = np.where(early.flags & CARRIED, early.publish_time, early.log_time)
        for channel in wanted:
            rows = np.flatnonzero(early.channel == channel)
            self._see(channel, early, times, rows[np.argsort(times[rows], kind="stable")])

    def _lacks(self, channel: int, end_ns: int) -> bool:
        """Could a chunk that ends then have a message that is missing?"""
        found = self._found[channel]
        if self._recording.header.is_ours:
            return len(found) < CARRIED_MOST
        return sum(time > end_ns for time, _ in found.get(0, ())) < self._counts[channel]

    def _see(self, channel: int, batch: Batch, times: NDArray[np.int64], rows: NDArray[np.intp]) -> None:
        """Rows of this channel, in the order in which they came. No more than what is wanted is kept in memory."""
        count = self._counts[channel]
        for publisher in np.unique(batch.publisher[rows]).tolist():
            found = self._found[channel].setdefault(publisher, [])
            for row in rows[batch.publisher[rows] == publisher][-count:]:
                found.append((int(times[row]), _alone(batch, row)))
            found.sort(key=lambda item: item[0])
            del found[:-count]

    def carried(self) -> list[Batch]:
        found = [item for publishers in self._found.values() for items in publishers.values() for item in items]
        found.sort(key=lambda item: item[0])
        return [self._carry(batch) for _, batch in found if not 0 < int(batch.expires[0]) <= self._at_ns]

    def _carry(self, batch: Batch) -> Batch:
        begin = np.full_like(batch.log_time, self._at_ns)
        return batch.having(log_time=begin, flags=batch.flags | CARRIED)


def _alone(batch: Batch, row: np.intp) -> Batch:
    """A message, without the chunk in which it lies: there may be many."""
    one = batch.where(np.array([row]))
    columns = one.having(position=np.zeros_like(one.position))
    return Batch(one.chunk, bytes(one.payload(0)), columns.make)
