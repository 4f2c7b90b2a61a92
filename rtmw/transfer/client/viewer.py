"""Looks at a core, and acts on it as its operator, through the same queues as programs: for tools."""

from __future__ import annotations

import base64
import json
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import IO, Any, Final

import rtmw
from rtmw import observe
from rtmw.clock import CLOCK
from rtmw.closing import Closing
from rtmw.observe.services import STILL
from rtmw.transfer.client.line import Line, new_life
from rtmw.transfer.client.waiting import Pending
from rtmw.transfer.errors import TransferRefused
from rtmw.transfer.header import Kind
from rtmw.transfer.messages import Alter, Done, Join, Leave, Message, Show, Shown
from rtmw.transfer.records import TransferId, TransferState

__all__ = ["Viewer"]

NAME: Final = "rtmw"
PATIENCE_S: Final = 10.0
"""Seconds to wait for a core that is at work."""
_LOOK_S: Final = 0.5
"""Seconds between two looks whether a core that does not answer stands still."""


class Viewer(Closing):
    """The view of one core. Errors: CoreNotRunning, TimeoutError (the core does not answer), and those of Domain. A
    core that stands still is found out within five seconds."""

    def __init__(self, domain: rtmw.Domain) -> None:
        self._life, self._join, self._domain = new_life(), Join(0, NAME), domain
        self._line = Line.for_member(domain)
        self._line.enter(self, ask=self._ask)

    def _ask(self, pending: Pending) -> Message:
        """Return the answer. TimeoutError: there is none, with the reason; or its queue is full, as that of a core that
        stands still is at last."""
        end, is_asked = CLOCK.monotonic() + PATIENCE_S, False
        while True:
            with suppress(TimeoutError):
                if not is_asked:
                    self._line.requests.begin(pending, _LOOK_S)
                    is_asked = True
                return self._line.wait(pending, _LOOK_S)
            core, found = self._line.core, observe.transfers(self._domain)
            if core is None or found is None or found.stands_still or CLOCK.monotonic() > end:
                break
        where = f"the core of domain {self._domain.id}{f', process {core.pid},' if core else ''}"
        advice = f"kill -CONT {core.pid}, or " if core else ""
        raise TimeoutError(f"{where} does not answer: {STILL}; {advice}ask rtmw node doctor --domain {self._domain.id}")

    def show(self, what: str) -> Any:
        """Return what the core shows: `transfers`, `dead`, `queues`, `members`, `info ID` or `body ID`.
        TransferRefused: there is no such one."""
        pending = Pending(self._life, Show(what))
        self._ask(pending)
        return json.loads(b"".join(piece.data for piece in pending.first if isinstance(piece, Shown)))

    def body(self, id: TransferId) -> tuple[Kind, IO[bytes]]:
        """Return kind and body of a transfer, as it lies at the core; nobody takes it by that. TransferRefused: there
        is no such transfer."""
        found = self.show(f"body {id}")
        if "path" not in found:
            return Kind[found["kind"]], BytesIO(base64.b64decode(found["body"]))
        try:
            return Kind[found["kind"]], Path(found["path"]).open("rb")
        except FileNotFoundError:
            raise TransferRefused(f"transfer {id} has ended meanwhile, and its body is gone") from None

    @property
    def full(self) -> str:
        """The disk of the core is full: how full, and what makes room. Empty: there is room."""
        found = observe.transfers(self._domain)
        return "" if found is None else found.full

    def cancel(self, id: TransferId) -> TransferState:
        """Cancel a transfer, so that nobody gets it. TransferRefused: it was handed over already, or has ended."""
        return self._alter(id, TransferState.CANCELLED)

    def retry(self, id: TransferId) -> TransferState:
        """Put a dead letter in its place again. TransferRefused: it is none."""
        return self._alter(id, TransferState.ACCEPTED)

    def _alter(self, id: TransferId, state: TransferState) -> TransferState:
        answer = self._ask(Pending(self._life, Alter(id, state)))
        assert isinstance(answer, Done), "ALTER is answered with DONE"
        return TransferState(answer.value)

    def close(self) -> None:
        self._line.leave(self._life, Leave())

    def _told(self, message: Message) -> None:
        """Ignore the message: a viewer has asked for nothing that is told without being asked."""

    def _core_changed(self) -> None:
        """Do nothing: the questions of a viewer are asked again."""
