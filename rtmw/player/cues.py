"""From messages of recordings to cues: what the player has to know of each (struct cue in player.h)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from rtmw.player.library import CUE
from rtmw.player.tracks import Plan
from rtmw.recording.ordered import CarriedOver, Part, Stretch

if TYPE_CHECKING:
    from numpy.typing import NDArray

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
