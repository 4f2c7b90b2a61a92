"""Which topics are played, under which name, with which type and QoS; and which are not, and why.

The QoS of what is replayed is as it was recorded, or as it is wanted instead.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, TypedDict

import numpy as np

from rtmw import shm
from rtmw.errors import RtmwError
from rtmw.publisher import LONGEST_QUEUE, check_count
from rtmw.qos import PRIORITIES, Reliability, check_priority
from rtmw.recording.batch import MessageFilter
from rtmw.recording.schemas.ros2 import QOS_KEY, is_latched, offered
from rtmw.text.patterns import check_levels, check_pattern, is_among, is_meant, is_own
from rtmw.types import MessageType

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rtmw.recording.contents import Channel
    from rtmw.recording.recording import Recording


_DEPTH: Final = 64
_RELIABLE: Final = {"1", "reliable"}


class QosOptions(TypedDict, total=False):
    """The QoS that can replace the recorded one; the keywords of Publisher."""

    priority: int
    lifetime: float | None
    reliability: Reliability
    depth: int
    history: int


@dataclass(frozen=True, slots=True)
class TrackQos:
    """The QoS of the publisher that plays a topic."""

    reliability: Reliability = Reliability.ADAPTIVE
    priority: int = 0
    depth: int = _DEPTH
    history: int = 0
    lifetime_ns: int = 0
    """0: no limit."""
    own_priority: bool = True
    """Each message keeps the priority with which it was recorded."""
    own_lifetime: bool = True
    """Each message keeps what was left of its lifetime when it was recorded."""

    def stronger(self, other: TrackQos) -> TrackQos:
        """The QoS that promises at least as much as both."""
        unlimited = not (self.lifetime_ns and other.lifetime_ns)
        return TrackQos(
            Reliability(max(self.reliability, other.reliability)),
            max(self.priority, other.priority),
            max(self.depth, other.depth),
            max(self.history, other.history),
            0 if unlimited else max(self.lifetime_ns, other.lifetime_ns),
        )

    def changed(self, wanted: QosOptions) -> TrackQos:
        """Returns the QoS with the changes that are wanted. Raises ValueError."""
        unknown = wanted.keys() - QosOptions.__annotations__.keys()
        if unknown:
            known = ", ".join(QosOptions.__annotations__)
            raise ValueError(f"{', '.join(sorted(unknown))}: a replay can change {known}")
        values: dict[str, Any] = {name: value for name, value in wanted.items() if name != "lifetime"}
        if "lifetime" in wanted:
            values |= {"lifetime_ns": _nanoseconds(wanted["lifetime"]), "own_lifetime": False}
        if "priority" in wanted:
            values["own_priority"] = False
        return _checked(replace(self, **values))


def recorded_qos(metadata: Mapping[str, str]) -> TrackQos:
    """The QoS that a channel was recorded with; the defaults where it does not say."""
    if QOS_KEY in metadata and "rtmw.reliability" not in metadata:
        return _ros2(metadata[QOS_KEY])
    return TrackQos(
        _reliability(metadata.get("rtmw.reliability", "")),
        min(_number(metadata, "rtmw.priority", 0), PRIORITIES - 1),
        max(min(_number(metadata, "rtmw.depth", _DEPTH), LONGEST_QUEUE), 1),
        min(_number(metadata, "rtmw.history", 0), LONGEST_QUEUE),
        _number(metadata, "rtmw.lifetime_ns", 0),
    )


def _ros2(profiles: str) -> TrackQos:
    found = offered(profiles)
    depths = [int(profile["depth"]) for profile in found if profile.get("depth", "").isdecimal()]
    depth = min(max(depths, default=0) or _DEPTH, LONGEST_QUEUE)
    reliable = any(profile.get("reliability") in _RELIABLE for profile in found)
    latched = any(map(is_latched, found))
    return TrackQos(
        Reliability.RELIABLE if reliable else Reliability.TIMELY, depth=depth, history=depth if latched else 0
    )


def _reliability(text: str) -> Reliability:
    try:
        return Reliability(int(text)) if text.isdecimal() else Reliability[text]
    except (KeyError, ValueError):
        return Reliability.ADAPTIVE


def _number(metadata: Mapping[str, str], key: str, default: int) -> int:
    text = metadata.get(key, "")
    return int(text) if text.isdecimal() else default


def _nanoseconds(seconds: float | None) -> int:
    if seconds is not None and not 0 < seconds < 1e9:
        raise ValueError(f"lifetime={seconds!r} is not possible; it must be seconds above 0, or None")
    return 0 if seconds is None else int(seconds * 1e9)


def _checked(qos: TrackQos) -> TrackQos:
    check_priority(qos.priority)
    check_count("depth", qos.depth, 1)
    check_count("history", qos.history, 0)
    return replace(qos, reliability=Reliability(qos.reliability))


NONE: Final = -1


@dataclass(frozen=True, slots=True)
class Track:
    """A topic of one type that is played."""

    topic: str
    """The name under which it is played."""
    recorded: str
    """The name under which it was recorded."""
    type: MessageType
    qos: TrackQos


@dataclass(frozen=True, slots=True)
class Choice:
    """The topics of a recording to replay, their new names and their QoS."""

    topics: tuple[str, ...] | None = None
    """Names or patterns; None: all."""
    remap: Mapping[str, str] = field(default_factory=dict[str, str])
    qos: Mapping[str, QosOptions] = field(default_factory=dict[str, QosOptions])
    """Changes of the QoS, by name or pattern of the recorded topic; all that match are applied, in their order."""
    reliable: bool = False
    """RELIABLE, whatever was recorded: for a replay that goes as fast as its readers."""

    def takes(self, topic: str) -> bool:
        if self.topics is None:
            return not is_own(topic)  # what a node said of itself then is not true now
        return is_among(topic, self.topics)

    def quality(self, topic: str, recorded: TrackQos) -> TrackQos:
        qos = replace(recorded, reliability=Reliability.RELIABLE) if self.reliable else recorded
        for pattern, wanted in self.qos.items():
            if is_meant(topic, pattern):
                qos = qos.changed(wanted)
        return qos

    def check(self, known: Iterable[str]) -> None:
        """Raises RtmwError where something is named that the recordings do not have, or that no topic can be named."""
        for name in self.remap.values():
            check_levels(name)
        for wanted in (*(self.topics or ()), *self.qos):
            check_pattern(wanted)
        names = sorted(set(known))
        patterns = [wanted for wanted in (*(self.topics or ()), *self.qos) if not _is_any(names, wanted)]
        for unknown in (*patterns, *(name for name in self.remap if name not in names)):
            near = difflib.get_close_matches(unknown, names, n=3, cutoff=0.5)
            advice = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(names) or 'none'}."
            raise RtmwError(f"The recording has no topic {unknown}; {advice}")


def _is_any(names: Iterable[str], wanted: str) -> bool:
    return any(is_meant(name, wanted) for name in names)


class Plan:
    """The tracks of several recordings, played as one."""

    def __init__(self, recordings: Sequence[Recording], choice: Choice) -> None:
        choice.check(channel.topic for recording in recordings for channel in recording.channels.values())
        self.tracks: list[Track] = []
        self.skipped: dict[str, str] = {}
        """Topics that are wanted, and cannot be played, with the reason."""
        self._numbers: dict[tuple[str, int], int] = {}
        self._table = np.full((len(recordings), 1 << 16), NONE, np.int32)
        for at, recording in enumerate(recordings):
            for channel in recording.channels.values():
                if choice.takes(channel.topic):
                    self._table[at, channel.id] = self._track(recording, channel, choice)
        self.tracks = [
            replace(track, topic=choice.remap.get(name, name), qos=choice.quality(name, track.qos))
            for name, track in ((track.recorded, track) for track in self.tracks)
        ]
        self.recorded = len(self.tracks)
        """Tracks of the recordings, which come first."""

    def numbers(self, recording: int, channels: NDArray[np.uint16]) -> NDArray[np.int32]:
        """The track of each channel; NONE: it has none."""
        found: NDArray[np.int32] = self._table[recording, channels]
        return found

    def channels_of(self, tracks: Iterable[int]) -> list[dict[int, int]]:
        """For each recording, the channels of these tracks, with their track."""
        wanted = [*tracks]
        found = [(row, np.flatnonzero(np.isin(row, wanted)).tolist()) for row in self._table]
        return [{channel: int(row[channel]) for channel in channels} for row, channels in found]

    def messages_within(self, start_ns: int | None, end_ns: int | None) -> MessageFilter:
        """All messages of the tracks in this time."""
        channels = [frozenset(np.flatnonzero(row != NONE).tolist()) for row in self._table]
        return MessageFilter(channels, start_ns, end_ns)

    def _track(self, recording: Recording, channel: Channel, choice: Choice) -> int:
        type = recording.message_type(channel)
        if type is None:
            self.skipped[channel.topic] = str(recording.type_problem(channel))
            return NONE
        if channel.topic not in choice.remap and not shm.is_topic_name(channel.topic):
            self.skipped[channel.topic] = "no topic of the bus can have this name; play it under another one (remap)"
            return NONE
        qos = recorded_qos(channel.metadata)
        number = self._numbers.setdefault((channel.topic, type.identity), len(self.tracks))
        if number == len(self.tracks):
            self.tracks.append(Track(channel.topic, channel.topic, type, qos))
        else:
            known = self.tracks[number]
            self.tracks[number] = replace(known, qos=known.qos.stronger(qos))
        return number
