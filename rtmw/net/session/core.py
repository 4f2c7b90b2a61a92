"""One session without I/O: `step(event, now) -> effects`. No clock, no socket and no thread inside.

A session outlives its connections: Attached brings one, Detached takes it. Between two the session waits, within its
lease. The state consists of:

    controls     counted frames that open and end streams          sent again from the peer's count on
    streams      bytes by position, kept until acknowledged        sent again from the peer's position on
    all else     credit and acknowledgements, which only grow      said again as they are now
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from rtmw.net.session import events as e
from rtmw.net.session.asking import ASKED
from rtmw.net.session.connection import Connection
from rtmw.net.session.errors import Code, Violation
from rtmw.net.session.frames import Frame, Kind, places
from rtmw.net.session.hearing import hear, resume
from rtmw.net.session.state import State
from rtmw.net.session.terms import Agreed, Terms
from rtmw.net.session.timing import Timing
from rtmw.units import duration

SIGN_OF_LIFE: Final = 1024
"""Bytes of a frame that is not whole after which the peer counts as heard: more than its PINGs and PONGs of a lease. A
length that was spoiled on the way makes a frame of all that follows, and only these would come for long."""
STAYS: Final = frozenset({Code.REPLACED, Code.SILENT, Code.EXPIRED, Code.DAMAGED})
"""Codes of a BYE that ends the connection, and not the session."""


class Core:
    """One session. `step` is the only way in; after Closed it answers nothing."""

    def __init__(self, agreed: Agreed, terms: Terms, now: float) -> None:
        self._out: list[e.Effect] = []
        self._state = State(agreed, terms, self._out)
        self._connection: Connection | None = None
        self.timing = Timing(agreed.lease, terms.ack_delay, now)
        self.is_closed = False
        self.has_heard = False
        """The peer has sent a frame: it knows the session."""

    def step(self, event: e.Event, now: float) -> list[e.Effect]:
        """The effects to carry out now. An event that a program may not ask for raises SessionError or ValueError and
        changes nothing."""
        if self.is_closed:
            return []
        try:
            _STEPS[type(event)](self, event, now)
            self._send(now)
        except Violation as error:
            self._violated(error)
        if not self.is_closed:
            timer = self.timing.timer(now)
            if timer is not None:
                self._out.append(e.SetTimer(timer))
        effects = self._out.copy()
        self._out.clear()
        return effects

    @property
    def is_attached(self) -> bool:
        return self._connection is not None

    def _attached(self, event: e.Attached, now: float) -> None:
        self._connection = Connection(self._state, crc=event.crc)
        self.timing.attached(now)

    def _detached(self, _: e.Detached, now: float) -> None:
        self._connection = None
        self.timing.detached()

    def _room(self, event: e.Room, now: float) -> None:
        if self._connection is not None:
            self._connection.room = event.size

    def _received(self, event: e.Received, now: float) -> None:
        connection = self._connection
        if connection is None:
            return
        connection.partial += len(event.data)
        for frame in connection.reader.feed(event.data):
            self.has_heard, connection.partial = True, SIGN_OF_LIFE
            self._frame(connection, frame, now)
            if self.is_closed or self._connection is not connection:
                return
        if connection.partial >= SIGN_OF_LIFE:
            self.timing.heard(now)
            connection.partial = 0
        if self._state.has_news:
            self.timing.acknowledge_soon(now)

    def _frame(self, connection: Connection, frame: Frame, now: float) -> None:
        if frame.kind == Kind.BYE:
            self._bye(frame)
        elif frame.kind == Kind.PING:
            connection.pong = bytes(frame.body)  # one at most, whatever the peer sends
        elif frame.kind == Kind.PONG:
            self.timing.pong(frame.fields()[0], now)
        elif frame.kind == Kind.RESUME:
            if connection.is_resumed:
                raise Violation("a second RESUME on one connection")
            resume(self._state, frame.fields()[0], places(frame))
            connection.is_resumed = True
        elif not connection.is_resumed:
            raise Violation(f"{frame.kind.name} before RESUME")
        else:
            hear(self._state, frame)

    def _bye(self, frame: Frame) -> None:
        code, words = frame.fields()[0], frame.words()
        if code in STAYS:
            self._cut(code, f"the peer ended the connection: {words}")
        else:
            self._close(code, f"the peer ended the session: {words}")

    def _timer(self, _: e.Timer, now: float) -> None:
        self.timing.fired(now)
        if self.timing.is_lost(now):
            words = f"nothing was heard of the peer for the lease of {duration(self.timing.lease)}"
            self._say_bye(Code.LEASE, words)
            self._close(Code.LEASE, words)
        elif self._connection is not None and self.timing.is_silent(now):
            words = f"nothing was heard on the connection for {duration(self.timing.lease / 2)}, half the lease"
            self._say_bye(Code.SILENT, words)
            self._cut(Code.SILENT, words)
        elif self._connection is not None:
            self._connection.ping = self.timing.ping(now)
            if self.timing.may_acknowledge(now):
                self._state.acknowledge_all()

    def _asked(self, event: Any, now: float) -> None:
        ASKED[type(event)](self._state, event)
        if self._state.has_news:
            self.timing.acknowledge_soon(now)

    def _close_asked(self, event: e.Close, now: float) -> None:
        self._say_bye(event.code, event.words)
        self._close(event.code, event.words)

    def _send(self, now: float) -> None:
        if self._connection is not None:
            data = self._connection.fill()
            if data:
                self._out.append(e.Transmit(data))

    def _violated(self, error: Violation) -> None:
        self._say_bye(error.code, str(error))
        if error.code in STAYS:
            self._cut(error.code, str(error))
        else:
            self._close(error.code, f"the peer broke the protocol: {error}")

    def _say_bye(self, code: int, words: str) -> None:
        if self._connection is not None:
            self._out.append(e.Transmit(self._connection.bye(code, words)))

    def _cut(self, code: int, words: str) -> None:
        self._connection = None
        self.timing.detached()
        self._out.append(e.Cut(code, words))

    def _close(self, code: int, words: str) -> None:
        self.is_closed = True
        self._connection = None
        self._state.close(code, words)
        self._out.append(e.Closed(code, words))

    def room(self, stream: int) -> int:
        """How many bytes Write would take now."""
        found = self._state.streams.get(stream)
        if found is None or found.sending is None:
            return 0
        return max(0, self._state.terms.send_buffer - found.sending.kept)


_STEPS: Final[dict[type, Callable[[Core, Any, float], None]]] = {
    e.Attached: Core._attached,
    e.Detached: Core._detached,
    e.Received: Core._received,
    e.Room: Core._room,
    e.Timer: Core._timer,
    e.Close: Core._close_asked,
    **dict.fromkeys(ASKED, Core._asked),
}
