"""One session without I/O: `step(event, now) -> effects`. No clock, no socket and no thread inside.

A session outlives its connections: Attached brings one, Detached takes it. Between two the session waits, within its
lease. The state (state.py) consists of:

    controls     counted frames that open and end streams          sent again from the peer's count on
    streams      bytes by position, kept until acknowledged        sent again from the peer's position on
    all else     credit and acknowledgements, which only grow      said again as they are now

`hear` takes in a frame of the peer and raises Violation for a broken rule. `next_frame` says what goes next: controls,
then credit and acknowledgements, then data of the highest priority. A `Connection` has what ends with the connection
under the session. `Timing` has keep-alive, round trip, silence, lease and delayed acknowledgement, in seconds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from rtmw.checksum import crc32
from rtmw.net.session import events as e
from rtmw.net.session import frames as f
from rtmw.net.session.errors import Code, Violation
from rtmw.net.session.frames import PING, Frame, FrameReader, Kind, bye, places
from rtmw.net.session.hello import Agreed, Terms
from rtmw.net.session.state import ASKED, Receiving, Sending, State, Stream, say_reset
from rtmw.text.units import duration

PINGS: Final = 8
"""PINGs in one lease."""


class Timing:
    """The lease runs from the last byte that was heard of the peer, over whichever connection."""

    def __init__(self, lease: float, ack_delay: float, now: float) -> None:
        self.lease = lease
        self._ack_delay = ack_delay
        self._heard = now
        self._ping_at: float | None = None
        self._ack_at: float | None = None
        self._set: float | None = None
        self._pings: dict[int, float] = {}
        self._number = 0
        self.round_trip: float | None = None
        self.least_round_trip: float | None = None

    def attached(self, now: float) -> None:
        """The hello was heard."""
        self._heard = self._ping_at = now
        self._set = None

    def detached(self) -> None:
        self._ping_at = self._ack_at = None
        self._pings.clear()

    def heard(self, now: float) -> None:
        self._heard = now

    def acknowledge_soon(self, now: float) -> None:
        if self._ack_at is None and self._ping_at is not None:
            self._ack_at = now + self._ack_delay

    def fired(self, now: float) -> None:
        """The timer came. If it came late this process stood still, and what the peer said meanwhile may lie unread."""
        if self._set is not None and now - self._set > self.lease / PINGS:
            self._heard += now - self._set
        self._set = None

    def is_lost(self, now: float) -> bool:
        return now - self._heard >= self.lease

    def is_silent(self, now: float) -> bool:
        return now - self._heard >= self.lease / 2

    def ping(self, now: float) -> int | None:
        """The number of the PING that is due, if one is."""
        if self._ping_at is None or now < self._ping_at:
            return None
        self._ping_at = now + self.lease / PINGS
        self._number += 1
        self._pings[self._number] = now
        if len(self._pings) > PINGS:
            del self._pings[next(iter(self._pings))]
        return self._number

    def pong(self, number: int, now: float) -> None:
        """The answer to a PING; one to none is passed over."""
        sent = self._pings.pop(number, None)
        if sent is not None:
            self.round_trip = now - sent
            least = self.least_round_trip
            self.least_round_trip = self.round_trip if least is None else min(least, self.round_trip)

    def may_acknowledge(self, now: float) -> bool:
        if self._ack_at is None or now < self._ack_at:
            return False
        self._ack_at = None
        return True

    def timer(self, now: float) -> float | None:
        """When to give Timer, if that is earlier than was said last."""
        due = self._heard + self.lease
        if self._ping_at is not None:
            due = min(due, self._ping_at, self._heard + self.lease / 2)
        if self._ack_at is not None:
            due = min(due, self._ack_at)
        if self._set is not None and self._set <= due:
            return None
        self._set = due
        return due


MOST_UNACKNOWLEDGED: Final = 8
"""Control frames that are kept for a peer that does not acknowledge them, for each stream that may be open."""


def hear(state: State, frame: Frame) -> None:
    """A frame after RESUME."""
    if frame.kind in f.CONTROL:
        state.controls_came += 1
    heard = _HEARD.get(frame.kind)
    if heard is None:
        raise Violation(f"{frame.kind.name} where it has no place")
    heard(state, frame)
    if len(state.controls) > MOST_UNACKNOWLEDGED * (state.agreed.peer_streams + state.terms.streams):
        raise Violation("control frames are not acknowledged")


def resume(state: State, controls: int, places: dict[int, int]) -> None:
    """The peer says what it has received: all behind that goes again."""
    for stream in state.streams.values():
        if stream.sending is not None:
            _rewind(state, stream, stream.sending, controls, places.get(stream.number))
    state.controls.rewind(controls)


def _rewind(state: State, stream: Stream, sending: Sending, controls: int, received: int | None) -> None:
    if stream.was_reset:
        return
    if received is None and stream.opened_as is not None and stream.opened_as >= controls:
        received = f.NOTHING  # the peer does not know the stream yet
    if received is not None:
        before = sending.acknowledged
        sending.rewind(sending.start if received == f.NOTHING else received)
        state.turns.add(stream)
        if sending.acknowledged > before:  # the ACK that follows may say no more
            _tell_acknowledged(state, stream.number, sending)
    elif sending.sent != sending.end:  # a peer forgets a stream when it has all of it, or was told that it is reset
        raise Violation(f"RESUME does not name stream {stream.number}, which is open")


def _stream(state: State, frame: Frame) -> Stream:
    stream = state.streams.get(frame.stream)
    if stream is None:
        raise Violation(f"{frame.kind.name} of stream {frame.stream}, which is not open")
    return stream


def _open(state: State, frame: Frame) -> None:
    (position,) = frame.fields()
    if frame.stream != state.next_peer:
        raise Violation(f"OPEN of stream {frame.stream}; the next one is {state.next_peer}")
    if sum(1 for number in state.streams if not state.is_mine(number)) >= state.terms.streams:
        raise Violation(f"OPEN of more than the {state.terms.streams} streams that are allowed")
    state.next_peer += 2
    stream = Stream(frame.stream, frame.flags & f.PRIORITY, None, Receiving(state.terms.stream_credit))
    stream.receiving.begin(position)
    state.streams[frame.stream] = stream
    state.out.append(e.Offered(frame.stream, frame.words(), stream.priority, position))


def _accept(state: State, frame: Frame) -> None:
    stream = _stream(state, frame)
    if not state.is_mine(frame.stream) or stream.receiving.start is not None:
        raise Violation(f"ACCEPT of stream {frame.stream}, which does not wait for it")
    (position,) = frame.fields()
    stream.receiving.begin(position)
    if not stream.was_reset:
        state.out.append(e.Accepted(frame.stream, position))


def _data(state: State, frame: Frame) -> None:
    stream, size = _stream(state, frame), len(frame.body) - f.DATA.size
    if stream.was_reset:
        return
    (position,) = f.DATA.unpack_from(frame.body)
    stream.receiving.take(position, size)
    _take_credit(state, size)
    state.out.append(e.Delivered(frame.stream, position, bytes(frame.body[f.DATA.size :])))
    state.may_acknowledge(stream)
    _ended(state, stream)


def _take_credit(state: State, size: int) -> None:
    state.came += size
    if state.came > state.told_allowed:
        raise Violation(f"{state.came} bytes in all streams; {state.told_allowed} were allowed")


def _ended(state: State, stream: Stream) -> None:
    if stream.receiving.end == stream.receiving.received:
        state.out.append(e.Ended(stream.number))


def _ack(state: State, frame: Frame) -> None:
    stream = state.streams.get(frame.stream)
    if stream is None and state.was_opened(frame.stream):
        return  # over here, and the peer has not heard of that yet
    sending = _stream(state, frame).sending
    received, durable, limit = frame.fields()
    if stream is None or sending is None:
        raise Violation(f"ACK of stream {frame.stream}, which was not accepted")
    if stream.was_reset or not sending.acknowledge(received, durable, limit):
        return
    state.turns.add(stream)
    _tell_acknowledged(state, frame.stream, sending)


def _tell_acknowledged(state: State, number: int, sending: Sending) -> None:
    state.out.append(e.Acknowledged(number, sending.acknowledged, sending.durable))
    if sending.is_refused and sending.kept <= state.terms.send_buffer // 4 * 3:
        sending.is_refused = False
        state.out.append(e.Drained(number))


def _end(state: State, frame: Frame) -> None:
    stream = _stream(state, frame)
    if stream.was_reset:
        return
    stream.receiving.finish(frame.fields()[0])
    _ended(state, stream)


def _done(state: State, frame: Frame) -> None:
    stream = _stream(state, frame)
    received, durable = frame.fields()
    sending = stream.sending
    if sending is None or sending.is_done or sending.end != received:
        raise Violation(f"DONE of stream {frame.stream} at {received}, where it does not end")
    if not stream.was_reset:
        sending.acknowledge(received, durable, sending.limit)
        state.out.append(e.Acknowledged(frame.stream, sending.acknowledged, sending.durable))
    sending.is_done = True
    state.forget_if_over(stream)


def _reset(state: State, frame: Frame) -> None:
    stream = state.streams.get(frame.stream)
    if stream is None and state.was_opened(frame.stream):
        return  # over here in both directions; the peer hears that from our DONE
    stream = _stream(state, frame)
    final, code = frame.fields()
    words = frame.words()
    _give_back(state, stream.receiving, final)
    if not stream.was_reset:
        say_reset(state, stream, Code.CLOSED, "as the peer did")
        state.out.append(e.WasReset(frame.stream, code, words))
    state.forget(stream)


def _give_back(state: State, receiving: Receiving, final: int) -> None:
    """The peer sent so much of a stream that was reset; it takes no session credit any more."""
    if receiving.start is None:
        return
    if not receiving.received <= final <= receiving.told_limit:
        raise Violation(f"RESET at {final}, of a stream received to {receiving.received}")
    _take_credit(state, final - receiving.received)
    state.read_by_program(final - receiving.consumed)


def _credit(state: State, frame: Frame) -> None:
    allowed, controls = frame.fields()
    state.allowed = max(state.allowed, allowed)
    state.controls.acknowledge(controls)


_HEARD: Final[dict[Kind, Callable[[State, Frame], None]]] = {
    Kind.OPEN: _open,
    Kind.ACCEPT: _accept,
    Kind.DATA: _data,
    Kind.ACK: _ack,
    Kind.END: _end,
    Kind.DONE: _done,
    Kind.RESET: _reset,
    Kind.CREDIT: _credit,
}


Parts = list[bytes | memoryview]


def resume_frame(state: State, *, crc: bool) -> bytes:
    """The frame that says how far each stream has been received. All credit that was ever given is then told again."""
    places: list[tuple[int, int]] = []
    for stream in state.streams.values():
        receiving = stream.receiving
        places.append((stream.number, f.NOTHING if receiving.start is None else receiving.received))
        if receiving.start is not None and not receiving.sent_done:
            state.due[stream.number] = stream
    state.owes_credit = True
    state.told_controls = state.controls_came
    return f.resume(state.controls_came, places, crc=crc)


def next_frame(state: State, *, crc: bool) -> Parts:
    """The next frame in parts; without any, if there is none."""
    control = state.controls.take()
    if control is not None:
        return [f.frame(control.kind, control.stream, control.body, flags=control.flags, crc=crc)]
    if state.owes_credit:
        return [_credit_frame(state, crc)]
    if state.due:
        _, stream = state.due.popitem()
        state.news.pop(stream.number, None)
        return [f.frame(Kind.ACK, stream.number, f.ACK.pack(*stream.receiving.tell()), crc=crc)]
    return _next_chunk(state, crc)


def _credit_frame(state: State, crc: bool) -> bytes:
    state.owes_credit = False
    state.told_allowed = max(state.told_allowed, state.read + state.terms.session_credit)
    state.told_controls = state.controls_came
    return f.frame(Kind.CREDIT, 0, f.CREDIT.pack(state.told_allowed, state.controls_came), crc=crc)


def _next_chunk(state: State, crc: bool) -> Parts:
    """The next chunk. Without credit of the session, bytes go that were sent before a cut: they need none."""
    chunk: Parts = []
    blocked: list[Stream] = []
    while (stream := state.turns.next()) is not None:
        sending = stream.sending
        if sending is None or stream.was_reset or (ready := sending.sendable()) == 0:
            continue  # it stands in the turns again when there is credit or something to send
        size = min(f.CHUNK, ready, sending.reached - sending.sent + state.allowed - state.used)
        if size > 0:
            chunk = _chunk(state, stream, sending, size, crc)
            if ready > size:
                state.turns.add(stream)
            break
        blocked.append(stream)
    for stream in reversed(blocked):
        state.turns.put_back(stream)
    return chunk


def _chunk(state: State, stream: Stream, sending: Sending, size: int, crc: bool) -> Parts:
    position, reached = sending.sent, sending.reached
    body = sending.take(size)
    state.used += sending.reached - reached
    length = f.HEAD.size + f.DATA.size + size + (f.CRC.size if crc else 0)
    flags = stream.priority | (f.HAS_CRC if crc else 0)
    parts: Parts = [f.HEAD.pack(length, Kind.DATA, flags, stream.number) + f.DATA.pack(position), *body]
    if crc:
        check = 0
        for part in parts:
            check = crc32(part, check)
        parts.append(f.CRC.pack(check))
    return parts


class Connection:
    """Sends RESUME first; then, once the peer's has come, controls before acknowledgements before data."""

    def __init__(self, state: State, *, crc: bool) -> None:
        self.reader = FrameReader(crc=crc)
        self.room = 0
        """Bytes that the carrier takes now."""
        self.partial = 0
        """Bytes that have come since the peer was heard last."""
        self.is_resumed = False
        """The peer's RESUME has come."""
        self.ping: int | None = None
        self.pong: bytes | None = None
        self._state = state
        self._crc = crc
        self._has_said_resume = False

    def fill(self) -> bytes:
        """The next frames, as many as there is room for; the last one may be more than the room by its own size."""
        parts: Parts = []
        while self.room > 0 and (frame := self._next()):
            parts += frame
            self.room -= sum(map(len, frame))
        return b"".join(parts)

    def bye(self, code: int, words: str) -> bytes:
        return bye(code, words, crc=self._crc)

    def _next(self) -> Parts:
        if not self._has_said_resume:
            self._has_said_resume = True
            return [resume_frame(self._state, crc=self._crc)]
        if self.pong is not None:
            pong, self.pong = self.pong, None
            return [f.frame(Kind.PONG, 0, pong, crc=self._crc)]
        if self.ping is not None:
            ping, self.ping = self.ping, None
            return [f.frame(Kind.PING, 0, PING.pack(ping), crc=self._crc)]
        return next_frame(self._state, crc=self._crc) if self.is_resumed and self._state.has_frames else []


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
        effects = self._out[:]
        self._out.clear()
        return effects

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
