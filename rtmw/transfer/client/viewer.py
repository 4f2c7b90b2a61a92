"""Looks at a core, and acts on it as its operator, through the same queues as programs: for tools."""

from __future__ import annotations

import json
from typing import Any, Final

import rtmw
from rtmw.closing import Closing
from rtmw.transfer.client.line import Line, new_life
from rtmw.transfer.client.pending import Pending
from rtmw.transfer.messages import Alter, Done, Join, Leave, Message, Show, Shown
from rtmw.transfer.records import TransferId, TransferState

__all__ = ["Viewer"]

NAME: Final = "rtmw"
PATIENCE_S: Final = 10.0


class Viewer(Closing):
    """Errors: CoreNotRunning, TimeoutError (the core does not answer), and those of Domain."""

    def __init__(self, domain: rtmw.Domain) -> None:
        self._life, self._join = new_life(), Join(0, NAME)
        self._line = Line.of(domain)
        self._line.enter(self)

    def show(self, what: str) -> Any:
        """`transfers`, `queues`, `members`, or `info ID`. TransferRefused: there is no such transfer."""
        pending = self._line.requests.begin(Pending(self._life, Show(what)))
        self._line.wait(pending, PATIENCE_S)
        return json.loads(b"".join(piece.data for piece in pending.first if isinstance(piece, Shown)))

    def cancel(self, id: TransferId) -> TransferState:
        """Nobody gets it. TransferRefused: it was handed over already, or has ended."""
        return self._alter(id, TransferState.CANCELLED)

    def retry(self, id: TransferId) -> TransferState:
        """A dead letter is in its place again. TransferRefused: it is none."""
        return self._alter(id, TransferState.ACCEPTED)

    def _alter(self, id: TransferId, state: TransferState) -> TransferState:
        answer = self._line.ask(self._life, Alter(id, state), PATIENCE_S)
        assert isinstance(answer, Done), "ALTER is answered with DONE"
        return TransferState(answer.value)

    def close(self) -> None:
        self._line.leave(self._life, Leave())

    def _told(self, message: Message) -> None:
        """It has asked for nothing that is told without being asked."""

    def _core_changed(self) -> None:
        """Its questions are asked again."""
