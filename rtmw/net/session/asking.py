"""Requests of a program to a session. Each function takes the event of its name; misuse raises and changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from rtmw.errors import SessionError, StreamError
from rtmw.net.session import events as e
from rtmw.net.session import frames as f
from rtmw.net.session.errors import Code
from rtmw.net.session.frames import Kind
from rtmw.net.session.state import LAST, PRIORITIES, Receiving, Sending, State, Stream


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
