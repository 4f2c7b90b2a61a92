"""Rules of the sessions, each taken out: the simulated wire has to see harm."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from unittest.mock import patch

from rtmw.net.session import core
from rtmw.net.session.state import Controls, Receiving, Sending, State, Stream, Turns
from tests.harm import first_harm
from tests.net.session.wire import run

Mutant = Callable[[], AbstractContextManager[object]]


def _no_rewind(self: Sending, received: int) -> None:
    self.acknowledged = received


def _rewind_to_acknowledged(self: Sending, received: int) -> None:
    self.sent = self.acknowledged
    self._next, self._next_at = 0, self._at


def _take_anything(self: Receiving, position: int, size: int) -> None:
    self.received += size


def _no_count(self: Controls, count: int) -> None:
    self.acknowledge(count)


def _all_controls(self: Controls, count: int) -> None:
    self._sent = self._first


def _no_give_back(state: State, receiving: Receiving, final: int) -> None:
    return None


MUTANTS: dict[str, Mutant] = {
    "bytes are sent again": lambda: patch.object(Sending, "rewind", _no_rewind),
    "the peer says from where on": lambda: patch.object(Sending, "rewind", _rewind_to_acknowledged),
    "controls are sent again": lambda: patch.object(Controls, "rewind", _no_count),
    "controls are counted": lambda: patch.object(Controls, "rewind", _all_controls),
    "a reset gives credit back": lambda: patch.object(core, "_give_back", _no_give_back),
    "credit is said again after a cut": lambda: patch.object(core, "resume_frame", _silent_resume),
    "bytes of before the cut need no credit": lambda: patch.object(Turns, "put_back", _lost_turn),
}
"""Name of the rule, and what takes it out."""


OF_ORDER: dict[str, Mutant] = {
    "the most urgent stream goes first": lambda: patch.object(Turns, "next", _least_urgent),
    "a new priority holds for what waits": lambda: patch.object(Turns, "add", _where_it_stands),
}
"""Rules that only a model sees which reads the frames (machine.py): without them all comes, too."""


def _least_urgent(self: Turns) -> Stream | None:
    for queue in self._queues:
        if queue:
            stream = queue.popleft()
            stream.queued = None
            return stream
    return None


def _where_it_stands(self: Turns, stream: Stream) -> None:
    if stream.queued is None:
        stream.queued = stream.priority
        self._queues[stream.priority].append(stream)


def _silent_resume(state: State, *, crc: bool) -> bytes:
    frame = _resume(state, crc=crc)
    state.due.clear()
    state.owes_credit = False
    return frame


_resume = core.resume_frame


def _lost_turn(self: Turns, stream: object) -> None:
    """A stream without credit loses its turn for ever."""


def harm(name: str, seeds: range) -> str | None:
    """What the first seed saw that saw anything, without this rule."""
    return first_harm(MUTANTS[name](), run, seeds)
