"""`rtmw.Transfer`: what has become of something that was sent."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rtmw.qos import check_seconds
from rtmw.transfer.client.pending import Pending
from rtmw.transfer.errors import TransferError, TransferRefused, error_of
from rtmw.transfer.header import Delivery, Header, Level
from rtmw.transfer.messages import Accepted, Alter, Move, Moves
from rtmw.transfer.records import ENDED, TransferId, TransferState

if TYPE_CHECKING:
    from rtmw.transfer.client.sender import Sender

__all__ = ["Progress", "Transfer"]

_REACHED: Final = {
    TransferState.HELD: Level.NONE,
    TransferState.ACCEPTED: Level.ACCEPTED,
    TransferState.SENT: Level.SENT,
    TransferState.DELIVERED: Level.DELIVERED,
    TransferState.CONSUMED: Level.CONSUMED,
}
"""The level that a state has reached. One that is not here reaches none any more."""


@dataclass(frozen=True)
class Progress:
    """How far a transfer has come."""

    state: TransferState
    bytes: int
    """Of its body, that the core of the receiver has."""
    total: int

    @property
    def share(self) -> float:
        """From 0 to 1."""
        return self.bytes / self.total


class Transfer:
    """Made by `Sender.send`. It is followed for as long as the program keeps it, or waits for it. Any thread."""

    def __init__(self, sender: Sender, header: Header, body: bytes, has_files: bool = False) -> None:
        self._sender, self._header, self._has_files = sender, header, has_files
        self._body: bytes | None = body
        """Until the core has it."""
        self._ids: tuple[TransferId, ...] = ()
        self._states: dict[TransferId, TransferState] = {}
        self._most: dict[TransferId, Level] = {}
        self._cause = ""
        self._failure: Exception | None = None
        self._callbacks: list[Callable[[Progress], object]] = []
        self._lock = threading.Lock()
        self._pending: Pending | None = None
        self._twins: list[Transfer] = []
        """Of one id, with this one: they live as long as one of them does, and are told the same. Empty: there is no
        other."""

    @property
    def id(self) -> TransferId | None:
        """Which transfer it is, everywhere and for ever; None: the core has not answered yet. Of `service/*`: that of
        the first receiver."""
        return self._ids[0] if self._ids else None

    @property
    def ids(self) -> tuple[TransferId, ...]:
        """One a receiver of `service/*`; else one."""
        return self._ids

    @property
    def state(self) -> TransferState:
        """As far as this program has heard; HELD: not accepted yet. Of `service/*`: the one that is least far."""
        states = list(self._states.values())
        failed = [state for state in states if state not in _REACHED]
        return failed[0] if failed else min(states, key=lambda state: _REACHED[state], default=TransferState.HELD)

    @property
    def cause(self) -> str:
        """Why it was refused, or is a dead letter."""
        return self._cause

    @property
    def progress(self) -> Progress:
        total, pending = self._header.length, self._pending
        got = total if self._states else pending.got if pending is not None else 0
        return Progress(self.state, got, total)

    def wait(self, level: Level, timeout: float | None = None) -> bool:
        """Until it has reached the level: True. False: not within `timeout` seconds (None: no limit).

        TransferRefused, SourceChanged: it never will, and why. CoreNotRunning: there has been no core for ten seconds.
        """
        check_seconds("timeout", timeout)
        self._check_level(level)
        if not self._sender._line.wait_until(lambda: self._is_over(level), timeout):
            return False
        return self._outcome(level)

    async def reached(self, level: Level, timeout: float | None = None) -> bool:
        """As `wait`, for asyncio: the event loop goes on meanwhile."""
        check_seconds("timeout", timeout)
        self._check_level(level)
        if not await self._sender._line.until(lambda: self._is_over(level), timeout):
            return False
        return self._outcome(level)

    def _check_level(self, level: Level) -> None:
        Header(self._header.to, self._header.kind, 1, level, self._header.delivery)

    def _is_over(self, level: Level) -> bool:
        """Reached, or never to be."""
        if self._failure is not None or level is Level.NONE:
            return True
        if not self._states:
            return False
        return any(state not in _REACHED for state in self._states.values()) or all(
            most >= level for most in self._most.values()
        )

    def _outcome(self, level: Level) -> bool:
        if level is Level.NONE:
            return True
        if self._failure is not None:
            raise type(self._failure)(*self._failure.args)
        if all(most >= level for most in self._most.values()):
            return True
        state = self.state
        why = f": {self._cause}" if self._cause else ""
        if state is TransferState.UNKNOWN:
            raise TransferError(
                f"transfer {self.id}: nobody knows whether it was {level.name}, because its core was started anew"
                f"{self._advice}"
            )
        raise error_of(f"transfer {self.id} is {state.name}, and will not be {level.name}{why}", self._cause)

    @property
    def _advice(self) -> str:
        is_logged = self._header.delivery is Delivery.LOG
        return "" if is_logged else "; with Delivery.LOG it would be known"

    def on_progress(self, callback: Callable[[Progress], object]) -> None:
        """Called at once, and whenever it has come further; in a thread of rtmw, so it must not block."""
        with self._lock:
            self._callbacks.append(callback)
        callback(self.progress)

    def cancel(self) -> bool:
        """True: nobody gets it. False: it was handed over already, or has ended."""
        if self._states and self.state in ENDED:
            return self.state is TransferState.CANCELLED
        line = self._sender._line
        if self._pending is not None:
            line.wait(self._pending)
        try:
            for id in self._ids:
                line.ask(self._sender._life, Alter(id, TransferState.CANCELLED))
        except TransferRefused:
            return False
        return True

    # ---- of the sender, in the thread of the line ----

    @property
    def has_ended(self) -> bool:
        """Nothing more will be heard of it."""
        over = ENDED | {TransferState.UNKNOWN}
        return self._failure is not None or (bool(self._states) and all(one in over for one in self._states.values()))

    def _accepted(self, pending: Pending) -> None:
        """The core has answered."""
        self._body = None
        if pending.error is not None:
            self._failure = pending.error
        elif isinstance(pending.answer, Accepted):
            self._ids = pending.answer.ids
            for id in self._ids:
                self._note(id, self._states.get(id, TransferState.ACCEPTED))
            if not self._ids:
                self._failure = TransferError(
                    "the transfer was accepted before its core was started anew, and has ended since; nobody knows how"
                )
        self._tell()

    def _asked(self, pending: Pending) -> None:
        """Another core has said how it is."""
        if isinstance(pending.answer, Moves):
            for move in pending.answer.moves:
                self._told(move)

    def _note(self, id: TransferId, state: TransferState) -> None:
        """The core of a receiver of this node is the sender's: it has all bytes when it accepts, but those of files."""
        is_here = self._header.to.node in ("", self._sender._line.node) and not self._has_files
        level = Level.SENT if is_here and state is TransferState.ACCEPTED else _REACHED.get(state, Level.NONE)
        self._states = {**self._states, id: state}  # others go through it meanwhile
        self._most = {**self._most, id: max(self._most.get(id, Level.NONE), level)}

    def _twin_of(self, other: Transfer) -> None:
        """Both are the same transfer, sent again with its id."""
        twins = [*(other._twins or [other]), self]
        for one in twins:
            one._twins = twins
        for id, state in other._states.items():
            self._note(id, state)

    def _told(self, move: Move) -> None:
        """It has moved; so have its twins."""
        for one in self._twins or (self,):
            one._moved(move)

    def _moved(self, move: Move) -> None:
        state = move.state
        if state is TransferState.UNKNOWN and self._states.get(move.id) in ENDED:
            return  # the core that has told its end is gone
        if state is None:
            self._failure = TransferRefused(f"transfer {move.id} was part of a transaction that was undone")
        else:
            self._cause = move.cause
            self._note(move.id, state)
        self._tell()

    def _tell(self) -> None:
        for callback in self._callbacks:
            callback(self.progress)

    def __repr__(self) -> str:
        return f"<rtmw.Transfer {self.id or 'not accepted yet'} to {self._header.to} {self.state.name}>"
