"""Takes in the frames of the peer. Each function takes the frame of its name; raises Violation for a broken rule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from rtmw.net.session import events as e
from rtmw.net.session import frames as f
from rtmw.net.session.asking import say_reset
from rtmw.net.session.errors import Code, Violation
from rtmw.net.session.frames import Frame, Kind
from rtmw.net.session.state import Receiving, Sending, State, Stream

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
        sending.rewind(sending.start if received == f.NOTHING else received)
        state.turns.add(stream)
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
    state.out.append(e.Delivered(frame.stream, position, bytes(frame.rest())))
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
    state.out.append(e.Acknowledged(frame.stream, sending.acknowledged, sending.durable))
    if sending.is_refused and sending.kept <= state.terms.send_buffer // 4 * 3:
        sending.is_refused = False
        state.out.append(e.Drained(frame.stream))


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
