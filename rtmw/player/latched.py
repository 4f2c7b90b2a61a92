"""The messages valid at a moment: the last ones before it, of topics whose publishers kept some for late subscribers.

The index says which chunks have messages of such topics. They are read backwards from the moment, until each topic has
as many as were kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from rtmw.player.tracks import Plan
from rtmw.recording.batch import CARRIED
from rtmw.recording.ordered import Part, Stretch

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rtmw.recording.batch import Batch
    from rtmw.recording.contents import Chunk
    from rtmw.recording.recording import Recording


def latched(recordings: Sequence[Recording], plan: Plan, at_ns: int) -> Stretch | None:
    """The messages that a late subscriber would have got at this moment, in the order of their times."""
    search = _Search(plan, at_ns)
    chunks = [(at, chunk) for at, recording in enumerate(recordings) for chunk in recording.chunks]
    earlier = [(at, chunk) for at, chunk in chunks if chunk.message_count and chunk.start_ns < at_ns]
    for at, chunk in sorted(earlier, key=lambda item: -item[1].end_ns):
        if search.wants(at, chunk):
            search.look_into(at, recordings[at].read(chunk))
    return search.found()


def _moment_ns(
    flags: NDArray[np.uint8], publish_time: NDArray[np.int64], log_time: NDArray[np.int64]
) -> NDArray[np.int64]:
    """When each message came to the recorder; of what was carried over it is known when it was published."""
    return np.where(flags & CARRIED, publish_time, log_time)


def _last(times: NDArray[np.int64], rows: NDArray[np.intp], count: int) -> NDArray[np.intp]:
    newest: NDArray[np.intp] = rows[np.argsort(times[rows], kind="stable")][-count:]
    return newest


class _Search:
    def __init__(self, plan: Plan, at_ns: int) -> None:
        self._plan, self._at_ns = plan, at_ns
        self._kept = {number: track.qos.history for number, track in enumerate(plan.tracks) if track.qos.history}
        self._channels = plan.channels_of(self._kept)
        self._times: dict[int, list[int]] = {number: [] for number in self._kept}
        """Of each track: when what has been found came."""
        self._parts: list[Part] = []

    def wants(self, recording: int, chunk: Chunk) -> bool:
        """Whether the chunk may have a message that is missing: all that end later have been looked into."""
        wanted = self._channels[recording]
        here = [wanted[number] for number in wanted.keys() & chunk.counts.keys()]
        return any(self._lacks(track, chunk.end_ns) for track in here)

    def _lacks(self, track: int, end_ns: int) -> bool:
        return sum(time > end_ns for time in self._times[track]) < self._kept[track]

    def look_into(self, recording: int, batch: Batch) -> None:
        tracks = self._plan.numbers(recording, batch.channel)
        times = _moment_ns(batch.flags, batch.publish_time, batch.log_time)
        early = times < self._at_ns
        rows = [_last(times, np.flatnonzero(early & (tracks == track)), kept) for track, kept in self._kept.items()]
        taken = batch.where(np.concatenate(rows)) if rows else batch
        if not rows or not len(taken):
            return
        self._parts.append(Part(recording, taken))
        times = _moment_ns(taken.flags, taken.publish_time, taken.log_time)
        for track, time in zip(self._plan.numbers(recording, taken.channel), times, strict=True):
            self._times[int(track)].append(int(time))

    def found(self) -> Stretch | None:
        if not self._parts:
            return None
        every = Stretch(tuple(self._parts), np.arange(sum(len(part.batch) for part in self._parts)))
        tracks = every.each(lambda part: self._plan.numbers(part.recording, part.batch.channel))
        times = _moment_ns(*map(every.column, ("flags", "publish_time", "log_time")))
        first = self._first_of_each(every)
        rows = [_last(times, np.flatnonzero(first & (tracks == track)), kept) for track, kept in self._kept.items()]
        chosen = np.concatenate(rows)
        return Stretch(every.parts, chosen[np.argsort(times[chosen], kind="stable")])

    @staticmethod
    def _first_of_each(every: Stretch) -> NDArray[np.bool_]:
        """False for what was carried over into another file, and is there twice."""
        names = ("publisher", "publish_time", "sequence", "priority")
        keys = np.stack([every.column(name).astype(np.uint64) for name in names])
        mask = np.zeros(len(every), bool)
        mask[np.unique(keys, axis=1, return_index=True)[1]] = True
        return mask
