"""The recording's time as a topic, for programs that live by it: the type and the name that ROS 2 has for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from rtmw.player.cues import DTYPE, Cues
from rtmw.player.qos import TrackQos
from rtmw.player.tracks import Track
from rtmw.qos import Reliability
from rtmw.types import int32, resolve, uint32

if TYPE_CHECKING:
    from numpy.typing import NDArray

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
    """With source times of now."""

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
        """In the order of their times; a tick before messages of the same time."""
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
