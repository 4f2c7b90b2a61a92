"""The next frame of a session: controls, then credit and acknowledgements, then data of the highest priority."""

from __future__ import annotations

from rtmw.checksum import crc32
from rtmw.net.session import frames as f
from rtmw.net.session.frames import Kind
from rtmw.net.session.state import Sending, State, Stream

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


def next_frame(state: State, parts: Parts, *, crc: bool) -> None:
    """Append the next frame, if there is one."""
    control = state.controls.take()
    if control is not None:
        parts.append(f.frame(control.kind, control.stream, control.body, flags=control.flags, crc=crc))
    elif state.owes_credit:
        parts.append(_credit_frame(state, crc))
    elif state.due:
        _, stream = state.due.popitem()
        state.news.pop(stream.number, None)
        parts.append(f.frame(Kind.ACK, stream.number, f.ACK.pack(*stream.receiving.tell()), crc=crc))
    else:
        _chunks(state, parts, crc)


def _credit_frame(state: State, crc: bool) -> bytes:
    state.owes_credit = False
    state.told_allowed = max(state.told_allowed, state.read + state.terms.session_credit)
    state.told_controls = state.controls_came
    return f.frame(Kind.CREDIT, 0, f.CREDIT.pack(state.told_allowed, state.controls_came), crc=crc)


def _chunks(state: State, parts: Parts, crc: bool) -> None:
    """The next chunk. Without credit of the session, bytes go that were sent before a cut: they need none."""
    blocked: list[Stream] = []
    while (stream := state.turns.next()) is not None:
        sending = stream.sending
        if sending is None or stream.was_reset or sending.sendable() == 0:
            continue  # it stands in the turns again when there is credit or something to send
        size = min(f.CHUNK, sending.sendable(), sending.reached - sending.sent + state.allowed - state.used)
        if size > 0:
            _chunk(state, stream, sending, size, parts, crc)
            if sending.sendable():
                state.turns.add(stream)
            break
        blocked.append(stream)
    for stream in reversed(blocked):
        state.turns.put_back(stream)


def _chunk(state: State, stream: Stream, sending: Sending, size: int, parts: Parts, crc: bool) -> None:
    position, reached = sending.sent, sending.reached
    body = sending.take(size)
    state.used += sending.reached - reached
    length = f.HEAD.size + f.DATA.size + size + (f.CRC.size if crc else 0)
    flags = stream.priority | (f.HAS_CRC if crc else 0)
    head = f.HEAD.pack(length, Kind.DATA, flags, stream.number) + f.DATA.pack(position)
    parts.append(head)
    parts.extend(body)
    if crc:
        check = crc32(head)
        for part in body:
            check = crc32(part, check)
        parts.append(f.CRC.pack(check))
