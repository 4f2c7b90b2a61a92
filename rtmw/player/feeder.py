"""Prepares what the player plays next, in a thread of its own: reading, decompressing, sorting.

From messages of recordings it makes cues: what the player has to know of each (struct cue in player.h). `Clock` makes
cues of the recording's time as a topic, for programs that live by it: the type and the name that ROS 2 has for it.

`latched` finds the messages valid at the moment at which a replay begins: the last ones before it, of topics whose
publishers kept some for late subscribers. The index says which chunks have messages of such topics. They are read
backwards from the moment, until each topic has as many as were kept.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from rtmw.errors import RtmwError
from rtmw.player.tracks import Plan, Track, TrackQos
from rtmw.qos import Reliability
from rtmw.recording.batch import CARRIED, CarriedOver, Damaged, Part, Stretch, in_order
from rtmw.shm import make_linkable
from rtmw.types import int32, resolve, uint32

make_linkable()

from rtmw.player._player import CUE as CUE  # noqa: E402  the names of our core have to be there first
from rtmw.player._player import Player as Player  # noqa: E402

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rtmw.recording.batch import Batch
    from rtmw.recording.contents import Chunk
    from rtmw.recording.recording import Recording


DTYPE: Final = np.dtype(CUE)
NEVER_NS: Final = 100 * 365 * 86400 * 10**9
"""A lifetime for messages that have none, among others of their topic that have."""
EXPIRED: Final = -1


@dataclass(frozen=True, slots=True)
class Cues:
    """The input of the player."""

    cues: NDArray[Any]
    buffers: list[Any]


class CueMaker:
    """Makes the cues of one run through the recordings, from a moment on; None: from their beginning."""

    def __init__(self, plan: Plan, fresh: bool, since_ns: int | None) -> None:
        self._plan, self._fresh = plan, fresh
        qos = [track.qos for track in plan.tracks]
        self._own_priority = np.array([q.own_priority for q in qos], bool)
        self._own_lifetime = np.array([q.own_lifetime for q in qos], bool)
        self._unless_said = np.where([q.lifetime_ns > 0 for q in qos], NEVER_NS, 0).astype(np.int64)
        self._carried = CarriedOver(len(qos), since_ns)

    def make(self, stretch: Stretch) -> Cues:
        """Cues of all messages, but of those that were carried over and have been given before."""
        made = self._made(stretch, stretch.each(self._lifetime))
        again = self._carried.again(made["track"], stretch.column("publish_time"), stretch.column("flags"))
        return Cues(made[~again], [part.batch.data for part in stretch.parts])

    def latched(self, stretch: Stretch, at_ns: int) -> Cues:
        """Cues of what was valid at a moment, for this moment; without what had expired by then."""
        made = self._made(stretch, stretch.each(lambda part: self._lifetime(part, at_ns)))
        made["log_ns"] = at_ns
        self._carried.again(made["track"], stretch.column("publish_time"), stretch.column("flags"))
        return Cues(made[made["lifetime_ns"] != EXPIRED], [part.batch.data for part in stretch.parts])

    def _made(self, stretch: Stretch, lifetime: NDArray[np.int64]) -> NDArray[Any]:
        made = np.zeros(len(stretch), DTYPE)
        made["log_ns"] = stretch.column("log_time")
        made["source_ns"] = 0 if self._fresh else stretch.column("publish_time")
        made["lifetime_ns"] = lifetime
        made["position"] = stretch.column("position")
        made["size"] = stretch.column("size")
        made["buffer"] = stretch.part()
        made["track"] = stretch.each(self._track)
        made["priority"] = stretch.each(self._priority)
        return made

    def _track(self, part: Part) -> NDArray[np.int32]:
        return self._plan.numbers(part.recording, part.batch.channel)

    def _priority(self, part: Part) -> NDArray[np.int8]:
        if not part.batch.chunk.side_position:
            return np.full(len(part.batch), -1, np.int8)
        own = self._own_priority[self._track(part)]
        return np.where(own, part.batch.priority, -1).astype(np.int8)

    def _lifetime(self, part: Part, at_ns: int | None = None) -> NDArray[np.int64]:
        """The rest of each lifetime, when the message was recorded or at a moment."""
        batch, tracks = part.batch, self._track(part)
        if not batch.chunk.side_position:
            return np.zeros(len(batch), np.int64)
        left = batch.expires - (batch.log_time if at_ns is None else at_ns)
        left = np.where(batch.expires == 0, self._unless_said[tracks], np.where(left > 0, left, EXPIRED))
        return np.where(self._own_lifetime[tracks], left, 0)


TOPIC: Final = "clock"
MOST_HZ: Final = 1000.0
_BLOCK: Final = 4096
"""Ticks that the player is fed with at a time."""
_NS: Final = 10**9
_PAYLOAD: Final = np.dtype([("head", "S4"), ("sec", "<i4"), ("nanosec", "<u4")])
_LITTLE_ENDIAN: Final = b"\x00\x01"


@dataclass
class Time:
    """Wall clock time."""

    __idl_typename__ = "builtin_interfaces.msg.Time"
    sec: int32
    nanosec: uint32


@dataclass
class Clock:
    """The time at which a replay stands."""

    __idl_typename__ = "rosgraph_msgs.msg.Clock"
    clock: Time


def clock_track(reliable: bool) -> Track:
    """The topic of the time; the last one is kept for late subscribers."""
    reliability = Reliability.RELIABLE if reliable else Reliability.ADAPTIVE
    return Track(TOPIC, "", resolve(Clock), TrackQos(reliability, history=1))


@dataclass(frozen=True, slots=True)
class Ticks:
    """The messages of that topic, at even times of the recording."""

    track: int
    """The number of its track."""
    every_ns: int
    fresh: bool
    """Whether messages get the time of their replay as source time."""

    def among(self, found: Iterator[Cues], at_ns: int) -> Iterator[Cues]:
        """The cues, and a tick at `at_ns` and after each such time from there on, until the last cue."""
        due_ns = at_ns
        for cues in found:
            rest = cues.cues
            while len(rest):
                until = due_ns + _BLOCK * self.every_ns
                count = int(np.searchsorted(rest["log_ns"], until))
                last = until - 1 if count < len(rest) else int(rest["log_ns"][-1])
                ticks = np.arange(due_ns, last + 1, self.every_ns)
                yield self._merged(ticks, rest[:count], cues.buffers)
                due_ns += len(ticks) * self.every_ns
                rest = rest[count:]

    def _merged(self, times: NDArray[np.int64], cues: NDArray[Any], buffers: list[Any]) -> Cues:
        """Returns cues and ticks in the order of their times; a tick comes before messages of the same time."""
        every = np.zeros(len(times) + len(cues), DTYPE)  # np.concatenate would give another layout
        every[len(times) :] = cues
        made = every[: len(times)]
        made["log_ns"] = times
        made["source_ns"] = 0 if self.fresh else times
        made["position"] = np.arange(len(times)) * _PAYLOAD.itemsize
        made["size"] = _PAYLOAD.itemsize
        made["buffer"] = len(buffers)
        made["track"] = self.track
        made["priority"] = -1
        return Cues(every[np.argsort(every["log_ns"], kind="stable")], [*buffers, payloads(times)])


def payloads(times: NDArray[np.int64]) -> bytes:
    """Clock messages of these times, encoded, one behind the other."""
    encoded = np.zeros(len(times), _PAYLOAD)
    encoded["head"] = _LITTLE_ENDIAN
    encoded["sec"], encoded["nanosec"] = times // _NS, times % _NS
    return encoded.tobytes()


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
        """For each track: the times of the messages that have been found."""
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


@dataclass(frozen=True, slots=True)
class Score:
    """The input of a replay from beginning to end: recordings, plan, times and options."""

    recordings: Sequence[Recording]
    plan: Plan
    start_ns: int
    """The first moment that is played."""
    end_ns: int | None
    """The first moment that is not played any more; None: to the end."""
    loop: bool
    fresh: bool
    """Whether messages get the time of their replay as source time."""
    ticks: Ticks | None = None
    """The recording's time as a topic."""
    damaged: Damaged | None = None
    """Is told of damaged chunks, which are left out. None: they end the replay."""

    def read(self, at_ns: int) -> Iterator[tuple[int | None, Cues]]:
        """Cues in order from a moment on; with the moment at which the clock begins anew, where it does."""
        while True:
            begin: int | None = at_ns
            found = self._once(at_ns)
            for cues in found if self.ticks is None else self.ticks.among(found, at_ns):
                if len(cues.cues):
                    yield begin, cues
                    begin = None
            if not self.loop or begin is not None:
                return
            at_ns = self.start_ns

    def _once(self, at_ns: int) -> Iterator[Cues]:
        begin_ns = min((recording.start_ns for recording in self.recordings if recording.message_count), default=0)
        maker = CueMaker(self.plan, self.fresh, at_ns if at_ns > begin_ns else None)
        before = latched(self.recordings, self.plan, at_ns)
        if before is not None:
            yield maker.latched(before, at_ns)
        for stretch in in_order(self.recordings, self.plan.messages_within(at_ns, self.end_ns), self.damaged):
            yield maker.make(stretch)


class Feeder:
    """Feeds a player with what a score has from a moment on, until that is over or another take begins."""

    def __init__(self, player: Player, score: Score, at_ns: int) -> None:
        self._player, self._score, self._at_ns = player, score, at_ns
        self._take = player.clear(at_ns)
        self.error: Exception | None = None
        """Why it could not go on."""
        self._thread = threading.Thread(target=self._run, name="rtmw replay feeder", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        _let_the_player_go_first()
        try:
            for begin, cues in self._score.read(self._at_ns):
                if not self._player.feed(self._take, cues.cues, cues.buffers, begin):
                    return
        except Exception as error:  # told to the thread that waits for the replay
            self.error = error
        finally:
            self._end()

    def _end(self) -> None:
        with suppress(RtmwError):  # the player was closed
            self._player.end(self._take)

    def join(self) -> None:
        """Wait for it. The player has been given another take, or was closed."""
        self._thread.join()


def _let_the_player_go_first() -> None:
    """Both threads of a real-time program are real-time ones; this one works for milliseconds at a time."""
    priority = os.sched_getparam(0).sched_priority
    if priority:
        policy = os.sched_getscheduler(0) if priority > 1 else os.SCHED_OTHER
        os.sched_setscheduler(0, policy, os.sched_param(priority - 1))
