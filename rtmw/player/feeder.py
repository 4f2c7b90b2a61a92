"""Prepares what the player plays next, in a thread of its own: reading, decompressing, sorting."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rtmw.errors import RtmwError
from rtmw.player.cues import CueMaker, Cues
from rtmw.player.latched import latched
from rtmw.player.library import Player
from rtmw.player.tracks import Plan
from rtmw.recording.ordered import Damaged, in_order

if TYPE_CHECKING:
    from rtmw.player.clock import Ticks
    from rtmw.recording.recording import Recording


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
    """With source times of now."""
    ticks: Ticks | None = None
    """The recording's time as a topic."""
    damaged: Damaged | None = None
    """Is told of damaged chunks, which are left out; None: they end the replay."""

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
