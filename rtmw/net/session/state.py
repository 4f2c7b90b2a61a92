"""The state of a session apart from its connection and its times, and how a program's requests change it.

A stream has two halves, as positions and bytes: what is sent and kept, and what is received.

    start <= acknowledged <= sent <= written          of a sending half; sent <= limit
    start <= durable <= received <= limit             of a receiving half; consumed <= received

A position is a 64-bit offset in the stream and may begin anywhere. `Turns` knows what is open, and whose turn it is to
send. Control frames are counted, kept until the peer has them, and sent again after a cut; each takes effect once.

`ASKED` has a function for each event of a program. Misuse raises and changes nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from rtmw.errors import SessionError, StreamError
from rtmw.net.session import events as e
from rtmw.net.session import frames as f
from rtmw.net.session.errors import Code, Violation
from rtmw.net.session.events import Effect, Gone, WasReset
from rtmw.net.session.frames import Kind
from rtmw.net.session.hello import Agreed, Terms


class Control(NamedTuple):
    kind: Kind
    stream: int
    body: bytes
    flags: int


class Controls:
    """Controls of this side, in order. The position in this order is the count that the peer acknowledges."""

    def __init__(self) -> None:
        self._kept: deque[Control] = deque()
        self._first = 0
        """Number of the first one kept."""
        self._sent = 0
        """Number of the next one to send."""

    def __len__(self) -> int:
        """How many the peer is not known to have."""
        return len(self._kept)

    def add(self, kind: Kind, stream: int, body: bytes, flags: int = 0) -> int:
        """Say this. Returns its number."""
        self._kept.append(Control(kind, stream, body, flags))
        return self._first + len(self._kept) - 1

    @property
    def are_due(self) -> bool:
        return self._sent - self._first < len(self._kept)

    def take(self) -> Control | None:
        """The next one to send, or None."""
        index = self._sent - self._first
        if index == len(self._kept):
            return None
        self._sent += 1
        return self._kept[index]

    def acknowledge(self, count: int) -> None:
        """The peer has received so many. Raises Violation, if that is more than were sent."""
        if count > self._sent:
            raise Violation(f"{count} control frames acknowledged, {self._sent} were sent")
        while self._first < count:
            self._kept.popleft()
            self._first += 1

    def rewind(self, count: int) -> None:
        """After a cut: the peer has received so many; the others go again. Raises Violation."""
        if count < self._first:
            raise Violation(f"RESUME at control frame {count}; {self._first} were acknowledged")
        self.acknowledge(count)
        self._sent = count


LAST: Final = (1 << 64) - 1
JOINED: Final = 4096
"""Small pieces are joined up to this size: each piece costs more than its bytes."""


class Sending:
    """Bytes from the first that is not acknowledged on, in the pieces in which they were written."""

    def __init__(self, start: int, limit: int) -> None:
        self.start = start
        self.acknowledged = self.durable = self.sent = self.written = start
        self.reached = start
        """The highest `sent` ever: bytes below it go again after a cut, and take no credit again."""
        self.limit = limit
        self.end: int | None = None
        """Position behind the last byte, once that is written."""
        self.is_done = False
        """The peer has said for good that it has all."""
        self.is_refused = False
        """The last write found no room; the writer is told when there is some."""
        self._pieces: deque[memoryview] = deque()
        self._at = start
        """Position of the first piece."""
        self._next = 0
        """Index of the piece that holds position `sent`."""
        self._next_at = start
        """Position of that piece."""

    def write(self, data: memoryview) -> None:
        """Keep these bytes. They must not change any more."""
        if self.written + len(data) > LAST:
            raise ValueError(f"a stream ends before position 2^64; {self.written} and {len(data)} bytes are more")
        self.written += len(data)
        if self._next < len(self._pieces) and len(self._pieces[-1]) + len(data) <= JOINED:
            self._pieces[-1] = memoryview(bytes(self._pieces[-1]) + data)
        elif len(data):
            self._pieces.append(data)

    @property
    def kept(self) -> int:
        """Bytes kept: those not acknowledged."""
        return self.written - self.acknowledged

    def sendable(self) -> int:
        """Bytes that the credit of the stream lets go now."""
        return min(self.written, self.limit) - self.sent

    def take(self, most: int) -> list[memoryview]:
        """The next bytes to send, at most so many, in pieces; they count as sent."""
        parts: list[memoryview] = []
        most = min(most, self.sendable())
        while most > 0:
            piece = self._pieces[self._next]
            begin = self.sent - self._next_at
            part = piece[begin : begin + most]
            parts.append(part)
            self.sent += len(part)
            most -= len(part)
            if begin + len(part) == len(piece):
                self._next += 1
                self._next_at += len(piece)
        self.reached = max(self.reached, self.sent)
        return parts

    def acknowledge(self, received: int, durable: int, limit: int) -> bool:
        """Take in an ACK: an older one says less and changes nothing. Is anything new? Raises Violation."""
        if not self.start <= durable <= received <= self.sent:
            raise Violation(
                f"ACK of {received}, durable {durable}, of a stream that was sent from {self.start} to {self.sent}"
            )
        changed = received > self.acknowledged or durable > self.durable or limit > self.limit
        self.durable, self.limit = max(durable, self.durable), max(limit, self.limit)
        if received > self.acknowledged:
            self.acknowledged = received
            self._let_go()
        return changed

    def _let_go(self) -> None:
        while self._pieces and self._at + len(self._pieces[0]) <= self.acknowledged:
            self._at += len(self._pieces.popleft())
            self._next -= 1

    def rewind(self, received: int) -> None:
        """After a cut: the next byte is the first that the peer has not received. Raises Violation."""
        if not self.acknowledged <= received <= self.sent:
            raise Violation(f"RESUME at {received}; acknowledged up to {self.acknowledged}, sent up to {self.sent}")
        self.acknowledged = self.sent = received
        self._let_go()
        self._next, self._next_at = 0, self._at

    def drop(self) -> None:
        """Keep no byte any more: the stream was reset."""
        self._pieces.clear()
        self.written = self.sent


class Receiving:
    """The bytes of a stream that have come, and how many more may come."""

    def __init__(self, window: int) -> None:
        self.window = window
        self.start: int | None = None
        """Position of the first byte; None before the peer has said it."""
        self.received = self.durable = self.consumed = 0
        self.end: int | None = None
        self.told = self.told_durable = self.told_limit = 0
        """The values of the last ACK."""
        self.sent_done = False

    def begin(self, start: int) -> None:
        self.start = self.received = self.durable = self.consumed = self.told = self.told_durable = start
        self.told_limit = min(start + self.window, LAST)
        """The first window is the one of the hello: no ACK says it."""

    @property
    def limit(self) -> int:
        """Up to where the peer may send."""
        return min(max(self.told_limit, self.consumed + self.window), LAST)

    def take(self, position: int, size: int) -> None:
        """Bytes have come. Raises Violation, if others are due, or more than was allowed."""
        if self.start is None:
            raise Violation("DATA before the position of its first byte was said")
        if position != self.received:
            raise Violation(f"DATA at {position}; the next byte of the stream is {self.received}")
        if position + size > self.told_limit:
            raise Violation(f"DATA up to {position + size}; {self.told_limit} was allowed")
        if self.end is not None and position + size > self.end:
            raise Violation(f"DATA up to {position + size}, behind the end of the stream at {self.end}")
        self.received += size

    def finish(self, end: int) -> None:
        """The peer says where its bytes end. Raises Violation."""
        if self.start is None or self.end is not None:
            raise Violation("END of a stream that has not begun, or a second one")
        if not self.received <= end:
            raise Violation(f"END at {end}, of a stream received up to {self.received}")
        self.end = end

    @property
    def is_whole(self) -> bool:
        """All has come and was read."""
        return self.end is not None and self.consumed == self.end

    def owes(self, share: int) -> bool:
        """Is an ACK due at once: something new is durable, or that share of the window was received or read?"""
        if self.start is None or self.sent_done:
            return False
        step = self.window // share or 1
        is_grown = self.received - self.told >= step or self.limit - self.told_limit >= step
        return is_grown or self.durable > self.told_durable

    @property
    def has_news(self) -> bool:
        """Would an ACK say anything new?"""
        if self.start is None or self.sent_done:
            return False
        is_known = self.received == self.told and self.durable == self.told_durable
        return not is_known or self.limit != self.told_limit

    def tell(self) -> tuple[int, int, int]:
        """The numbers of an ACK, which is then sent."""
        self.told, self.told_durable, self.told_limit = self.received, self.durable, self.limit
        return self.told, self.told_durable, self.told_limit


PRIORITIES: Final = 8


class Stream:
    """Both halves of one stream."""

    def __init__(self, number: int, priority: int, sending: Sending | None, receiving: Receiving) -> None:
        self.number = number
        self.priority = priority
        self.sending = sending
        """None until this side has accepted the peer's stream."""
        self.receiving = receiving
        self.was_reset = False
        """This side has sent RESET, and waits for the peer's: what comes meanwhile is passed over."""
        self.opened_as: int | None = None
        """Number of the control frame OPEN, if this side sent it."""
        self.queued: int | None = None
        """The priority in whose turns it stands."""

    @property
    def is_over(self) -> bool:
        """Each side has said END and DONE."""
        return self.sending is not None and self.sending.is_done and self.receiving.sent_done


class Turns:
    """Streams that may have something to send: the highest priority first, within one in turn."""

    def __init__(self) -> None:
        self._queues: list[deque[Stream]] = [deque() for _ in range(PRIORITIES)]
        self._urgent_first = self._queues[::-1]

    def add(self, stream: Stream) -> None:
        """The stream stands in the turns of its priority, behind the others; once at most in those of all."""
        if stream.queued == stream.priority:
            return
        if stream.queued is not None:
            self._queues[stream.queued].remove(stream)
        stream.queued = stream.priority
        self._queues[stream.priority].append(stream)

    @property
    def are_due(self) -> bool:
        return any(self._queues)

    def next(self) -> Stream | None:
        """The stream whose turn it is, taken out."""
        for queue in self._urgent_first:
            if queue:
                stream = queue.popleft()
                stream.queued = None
                return stream
        return None

    def put_back(self, stream: Stream) -> None:
        """Gives a stream that could not send now the first turn when it can."""
        stream.queued = stream.priority
        self._queues[stream.priority].appendleft(stream)

    def discard(self, stream: Stream) -> None:
        if stream.queued is not None:
            self._queues[stream.queued].remove(stream)
            stream.queued = None


class State:
    """Shared by the requests of the program here, and core.py (the peer, and what goes out)."""

    def __init__(self, agreed: Agreed, terms: Terms, out: list[Effect]) -> None:
        self.agreed = agreed
        self.terms = terms
        self.out = out
        self.streams: dict[int, Stream] = {}
        self.controls = Controls()
        self.turns = Turns()
        self.next_mine = 1 if agreed.is_first else 2
        self.next_peer = 2 if agreed.is_first else 1
        self.used = 0
        """Payload bytes sent, each once. used <= allowed."""
        self.allowed = agreed.peer_session_credit
        self.came = 0
        """Payload bytes received, each once. read <= came <= told_allowed."""
        self.read = 0
        self.told_allowed = terms.session_credit
        self.controls_came = 0
        self.told_controls = 0
        self.owes_credit = False
        """A CREDIT is due."""
        self.due: dict[int, Stream] = {}
        """Streams of which an ACK is due."""
        self.news: dict[int, Stream] = {}
        """Streams of which an ACK would say something new, when its delay is over."""

    def mine_open(self) -> int:
        """How many streams this side has opened that are not over."""
        return sum(1 for number in self.streams if self.is_mine(number))

    def is_mine(self, number: int) -> bool:
        return number % 2 == self.next_mine % 2

    def was_opened(self, number: int) -> bool:
        """Has there been a stream of this number?"""
        return 0 < number < (self.next_mine if self.is_mine(number) else self.next_peer)

    def stream(self, number: int) -> Stream:
        """A stream that the program names. Raises StreamError."""
        stream = self.streams.get(number)
        if stream is None or stream.was_reset:
            raise StreamError(f"stream {number} is over or was never open", Code.CLOSED)
        return stream

    def read_by_program(self, size: int) -> None:
        """The program has read `size` bytes. They take no session credit any more."""
        self.read += size
        if self.read + self.terms.session_credit - self.told_allowed >= max(1, self.terms.session_credit // 4):
            self.owes_credit = True

    def may_acknowledge(self, stream: Stream) -> None:
        """Something of the receiving half has changed: an ACK is due, now or when its delay is over."""
        if stream.receiving.owes(4):
            self.due[stream.number] = stream
        elif stream.receiving.has_news:
            self.news[stream.number] = stream

    @property
    def has_frames(self) -> bool:
        """Is there something that may be sent now?"""
        return self.owes_credit or bool(self.due) or self.controls.are_due or self.turns.are_due

    @property
    def has_news(self) -> bool:
        """Is there something to acknowledge when the delay is over?"""
        return bool(self.news) or self.controls_came != self.told_controls or self.read != self._told_read

    @property
    def _told_read(self) -> int:
        return self.told_allowed - self.terms.session_credit

    def acknowledge_all(self) -> None:
        """The delay is over."""
        self.due.update(self.news)
        self.news.clear()
        self.owes_credit |= self.controls_came != self.told_controls or self.read != self._told_read

    def forget(self, stream: Stream) -> None:
        """Nothing more is said or heard of it."""
        del self.streams[stream.number]
        self.turns.discard(stream)
        self.due.pop(stream.number, None)
        self.news.pop(stream.number, None)

    def forget_if_over(self, stream: Stream) -> None:
        if stream.is_over:
            self.forget(stream)
            if not stream.was_reset:
                self.out.append(Gone(stream.number))

    def close(self, code: int, words: str) -> None:
        """The session is over: each stream ends with this reason."""
        for stream in self.streams.values():
            if not stream.was_reset:
                self.out.append(WasReset(stream.number, code, words))
        self.streams.clear()


def _check_priority(priority: int) -> None:
    if not 0 <= priority < PRIORITIES:
        raise ValueError(f"priority={priority!r} must be from 0 to {PRIORITIES - 1}")


def _check_position(position: int) -> None:
    if not 0 <= position <= LAST:
        raise ValueError(f"position={position!r} must be from 0 to 2^64 - 1")


def _open(state: State, event: e.Open) -> None:
    purpose, most = event.purpose.encode(), f.BODIES[Kind.OPEN][1]
    _check_priority(event.priority)
    _check_position(event.position)
    if not purpose or len(purpose) > most:
        raise ValueError(f"a purpose of {len(purpose)} bytes; it has 1 to {most} in UTF-8")
    if state.mine_open() >= state.agreed.peer_streams:
        raise SessionError(f"{state.agreed.peer_streams} streams are open, as many as the peer allows", Code.REFUSED)
    number, state.next_mine = state.next_mine, state.next_mine + 2
    sending = Sending(event.position, min(event.position + state.agreed.peer_stream_credit, LAST))
    stream = Stream(number, event.priority, sending, Receiving(state.terms.stream_credit))
    stream.opened_as = state.controls.add(Kind.OPEN, number, f.OPEN.pack(event.position) + purpose, event.priority)
    state.streams[number] = stream
    state.out.append(e.Opened(number))


def _accept(state: State, event: e.Accept) -> None:
    stream = state.stream(event.stream)
    _check_position(event.position)
    if stream.sending is not None:
        raise StreamError(f"stream {event.stream} is accepted already", Code.REFUSED)
    stream.sending = Sending(event.position, min(event.position + state.agreed.peer_stream_credit, LAST))
    state.controls.add(Kind.ACCEPT, event.stream, f.ACCEPT.pack(event.position))


def _writable(state: State, number: int) -> tuple[Stream, Sending]:
    stream = state.stream(number)
    if stream.sending is None:
        raise StreamError(f"stream {number} has to be accepted before it is written to", Code.REFUSED)
    if stream.sending.end is not None:
        raise StreamError(f"this side has ended stream {number}, and writes no more", Code.CLOSED)
    return stream, stream.sending


def _write(state: State, event: e.Write) -> None:
    stream, sending = _writable(state, event.stream)
    taken = event.data[: max(0, state.terms.send_buffer - sending.kept)]
    sending.write(taken)
    sending.is_refused = len(taken) < len(event.data)
    state.turns.add(stream)
    state.out.append(e.Wrote(event.stream, len(taken)))


def _prioritize(state: State, event: e.Prioritize) -> None:
    _check_priority(event.priority)
    stream = state.stream(event.stream)
    stream.priority = event.priority
    if stream.queued is not None:
        state.turns.add(stream)


def _end(state: State, event: e.End) -> None:
    _, sending = _writable(state, event.stream)
    sending.end = sending.written
    state.controls.add(Kind.END, event.stream, f.END.pack(sending.end))


def _read(state: State, event: e.Read) -> None:
    stream = state.streams.get(event.stream)
    if stream is None or stream.was_reset:
        return  # the credit of a stream that was reset is given back with its last position
    receiving = stream.receiving
    if not 0 <= event.size <= receiving.received - receiving.consumed:
        raise ValueError(f"{event.size} bytes read, {receiving.received - receiving.consumed} were delivered")
    receiving.consumed += event.size
    state.read_by_program(event.size)
    state.may_acknowledge(stream)


def _durable(state: State, event: e.Durable) -> None:
    stream = state.stream(event.stream)
    receiving = stream.receiving
    if receiving.start is None or not receiving.durable <= event.position <= receiving.received:
        raise ValueError(
            f"durable up to {event.position}: it only grows, from {receiving.durable}, and not beyond "
            f"{receiving.received}, up to where bytes have come"
        )
    receiving.durable = event.position
    state.may_acknowledge(stream)


def _finish(state: State, event: e.Finish) -> None:
    stream = state.stream(event.stream)
    receiving = stream.receiving
    if receiving.sent_done:
        return
    if not receiving.is_whole:
        raise StreamError(f"stream {event.stream} is not read to its end; reset it instead", Code.REFUSED)
    receiving.sent_done = True
    state.controls.add(Kind.DONE, event.stream, f.DONE.pack(receiving.received, receiving.durable))
    state.forget_if_over(stream)


def _reset(state: State, event: e.Reset) -> None:
    stream = state.streams.get(event.stream)
    if stream is not None and not stream.was_reset:
        if not 0 <= event.code < 1 << 16:
            raise ValueError(f"code={event.code} must be from 0 to 65535")
        say_reset(state, stream, event.code, event.words)
        stream.was_reset = True


def say_reset(state: State, stream: Stream, code: int, words: str) -> None:
    """Say RESET, with the position behind the last byte that was ever sent: the peer gives credit back by it."""
    final = 0
    if stream.sending is not None:
        final = stream.sending.reached
        stream.sending.drop()
    body = f.RESET.pack(final, code) + f.clipped(words, f.BODIES[Kind.RESET][1])
    state.controls.add(Kind.RESET, stream.number, body)


ASKED: Final[dict[type, Callable[[State, Any], None]]] = {
    e.Open: _open,
    e.Accept: _accept,
    e.Write: _write,
    e.Prioritize: _prioritize,
    e.End: _end,
    e.Read: _read,
    e.Durable: _durable,
    e.Finish: _finish,
    e.Reset: _reset,
}
