"""Looks at a core, and acts on it as its operator, through the same queues as programs: for tools."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any, Final

import rtmw
from rtmw import observe
from rtmw.clock import CLOCK
from rtmw.closing import Closing
from rtmw.transfer.client.line import Line, new_life
from rtmw.transfer.client.pending import Pending
from rtmw.transfer.messages import Alter, Done, Join, Leave, Message, Show, Shown
from rtmw.transfer.records import TransferId, TransferState

__all__ = ["Viewer"]

NAME: Final = "rtmw"
PATIENCE_S: Final = 10.0
"""For a core that is at work."""
STILL_S: Final = 2.5
"""After so long without an answer it is looked whether the core stands still, and then twice a second."""
_SILENT_S: Final = 2.5
"""So long a core that is at work may be silent: it counts once a second."""


class Viewer(Closing):
    """Errors: CoreNotRunning, TimeoutError (the core does not answer), and those of Domain. A core that stands still is
    found out within five seconds."""

    def __init__(self, domain: rtmw.Domain) -> None:
        self._life, self._join, self._domain = new_life(), Join(0, NAME), domain
        self._line = Line.of(domain)
        self._line.enter(self, self._wait)

    def _wait(self, pending: Pending) -> Message:
        """The answer. TimeoutError: there is none, with the reason."""
        end, patience = CLOCK.monotonic() + PATIENCE_S, STILL_S
        while True:
            with suppress(TimeoutError):
                return self._line.wait(pending, patience)
            core, found, patience = self._line.core, observe.transfers(self._domain), 0.5
            if core is None or found is None or found.silent > _SILENT_S or CLOCK.monotonic() > end:
                break
        where = f"the core of domain {self._domain.id}{f', process {core.pid},' if core else ''}"
        advice = f"kill -CONT {core.pid}, or " if core else ""
        raise TimeoutError(
            f"{where} does not answer: it was stopped, or its disk does not answer; {advice}ask "
            f"rtmw node doctor --domain {self._domain.id}"
        )

    def show(self, what: str) -> Any:
        """`transfers`, `dead`, `queues`, `members`, or `info ID`. TransferRefused: there is no such transfer."""
        pending = self._line.requests.begin(Pending(self._life, Show(what)))
        self._wait(pending)
        return json.loads(b"".join(piece.data for piece in pending.first if isinstance(piece, Shown)))

    def cancel(self, id: TransferId) -> TransferState:
        """Nobody gets it. TransferRefused: it was handed over already, or has ended."""
        return self._alter(id, TransferState.CANCELLED)

    def retry(self, id: TransferId) -> TransferState:
        """A dead letter is in its place again. TransferRefused: it is none."""
        return self._alter(id, TransferState.ACCEPTED)

    def _alter(self, id: TransferId, state: TransferState) -> TransferState:
        answer = self._wait(self._line.requests.begin(Pending(self._life, Alter(id, state))))
        assert isinstance(answer, Done), "ALTER is answered with DONE"
        return TransferState(answer.value)

    def close(self) -> None:
        self._line.leave(self._life, Leave())

    def _told(self, message: Message) -> None:
        """It has asked for nothing that is told without being asked."""

    def _core_changed(self) -> None:
        """Its questions are asked again."""
