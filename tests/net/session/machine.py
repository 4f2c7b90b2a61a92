"""Two cores of one session as a state machine: hypothesis chooses what programs and the wire do, and finds the shortest
story in which a rule is broken.

Beside the cores stands a model that reads the bytes on the wire (reader.py): which of them may go now by credit and by
priority, and which are due. wire.py has the same with whole nodes, hellos and kills, by chance.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from rtmw.net.session import events as e
from rtmw.net.session.core import Core
from rtmw.net.session.frames import NOTHING
from rtmw.net.session.hello import Agreed
from tests.net.session.oracle import TERMS, Half, pattern
from tests.net.session.reader import frames

SIDES = st.integers(0, 1)
WHICH = st.integers(0, 9)
ROOM = 1 << 16
STORIES = settings(stateful_step_count=80, deadline=None, suppress_health_check=list(HealthCheck))


@dataclass
class Outgoing:
    """What one side has to send of a stream, by what went over the wire."""

    start: int
    priority: int
    sent: int
    reached: int
    limit: int
    is_over: bool = False

    def may_send(self, written: int, credit: int) -> int:
        """Bytes: those of before a cut need no credit of the session."""
        if self.is_over:
            return 0
        return min(min(written, self.limit) - self.sent, self.reached - self.sent + credit)


class Side:
    def __init__(self, index: int) -> None:
        self.index = index
        agreed = Agreed(index == 0, TERMS.lease, TERMS.stream_credit, TERMS.session_credit, TERMS.streams)
        self.core = Core(agreed, TERMS, 0.0)
        self.halves = dict[int, Half]()
        self.out = dict[int, Outgoing]()
        self.offered = list[tuple[int, int]]()
        """Streams of the peer that are not accepted, and their priorities."""
        self.timer: float | None = None
        self.used, self.allowed = 0, TERMS.session_credit
        self.coming = b""
        """Bytes on their way to it."""
        self.part = b""
        """What has come of a frame."""

    def open_streams(self) -> list[int]:
        return [number for number, half in self.halves.items() if not half.is_over]

    def begin(self, number: int, priority: int, position: int) -> None:
        limit = position + TERMS.stream_credit
        self.out[number] = Outgoing(position, priority, position, position, limit)
        self.halves[number].written = position


class SessionMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.sides = (Side(0), Side(1))
        self.is_attached = self.is_closed = False
        self.opening = (0, 0)

    # ---- what cores answer ----

    def step(self, side: Side, event: e.Event) -> None:
        for effect in side.core.step(event, self.now):
            self.effect(side, effect)

    def effect(self, side: Side, effect: e.Effect) -> None:
        other = self.sides[1 - side.index]
        if isinstance(effect, e.Transmit):
            for frame in frames(effect.data):
                self.goes(side, frame)
            other.coming += effect.data
        elif isinstance(effect, e.SetTimer):
            side.timer = effect.at
        elif isinstance(effect, e.Cut):
            self.is_attached = False
        elif isinstance(effect, e.Closed):
            assert "protocol" not in effect.words, effect.words
            self.is_closed = True
        elif isinstance(effect, e.Opened):
            side.halves[effect.stream] = Half()
            side.begin(effect.stream, *self.opening)
        elif isinstance(effect, e.Offered):
            side.halves[effect.stream] = Half(effect.position, 0, effect.position, effect.position, effect.position)
            side.offered.append((effect.stream, effect.priority))
            assert effect.purpose == f"at {effect.position}"
        else:
            self.of_stream(side, other, effect)

    def of_stream(self, side: Side, other: Side, effect: Any) -> None:
        half = side.halves[effect.stream]
        if isinstance(effect, e.Accepted):
            half.start = half.delivered = half.read = half.durable = effect.position
        elif isinstance(effect, e.Wrote):
            half.written += effect.size
        elif isinstance(effect, e.Delivered):
            assert effect.position == half.delivered, "each byte once, in order"
            half.delivered += len(effect.data)
            assert effect.data == pattern(effect.stream, other.index, effect.position, len(effect.data))
        elif isinstance(effect, e.Acknowledged):
            heard = other.halves.get(effect.stream, Half())
            assert effect.durable <= effect.received <= heard.delivered
            assert effect.durable <= heard.durable
        elif isinstance(effect, e.Ended):
            half.ended_by_peer = True
        elif isinstance(effect, (e.Gone, e.WasReset)):
            self.over(side, effect.stream, "gone" if isinstance(effect, e.Gone) else "reset")

    @staticmethod
    def over(side: Side, number: int, how: str) -> None:
        side.halves[number].is_over = how
        if number in side.out:
            side.out[number].is_over = True
        side.offered = [one for one in side.offered if one[0] != number]

    # ---- what the bytes say ----

    def goes(self, side: Side, frame: dict[str, Any]) -> None:
        """A side sends a frame."""
        if frame["kind"] != "DATA":
            return
        out, size = side.out[frame["stream"]], len(frame["rest"])
        assert frame["position"] == out.sent, "what is due"
        assert frame["rest"] == pattern(frame["stream"], side.index, out.sent, size)
        credit = side.allowed - side.used
        assert 0 < size <= out.may_send(side.halves[frame["stream"]].written, credit), "within its credit"
        assert frame["priority"] == out.priority
        for number, one in side.out.items():
            if one.priority > out.priority:
                assert one.may_send(side.halves[number].written, credit) <= 0, "what is more urgent goes first"
        side.used += max(0, out.sent + size - out.reached)
        out.sent += size
        out.reached = max(out.reached, out.sent)

    def comes(self, side: Side, frame: dict[str, Any]) -> None:
        """A side is about to hear a frame."""
        out = side.out.get(frame["stream"])
        if frame["kind"] == "ACK" and out is not None:
            out.limit = max(out.limit, frame["limit"])
        elif frame["kind"] == "CREDIT":
            side.allowed = max(side.allowed, frame["allowed"])
        elif frame["kind"] == "RESUME":
            self.resumes(side, dict(struct.iter_unpack("<IQ", frame["rest"])))

    def resumes(self, side: Side, places: dict[int, int]) -> None:
        for number, out in side.out.items():
            if number not in places and number in self.sides[1 - side.index].halves:
                continue  # the peer has had all of it
            place = places.get(number, NOTHING)
            out.sent = out.start if place == NOTHING else place

    def deliver(self, side: Side, size: int) -> None:
        data, side.coming = side.coming[:size], side.coming[size:]
        side.part += data
        whole = len(side.part) - len(unfinished(side.part))
        for frame in frames(side.part[:whole]):
            self.comes(side, frame)
        side.part = side.part[whole:]
        self.step(side, e.Received(data))

    # ---- the wire ----

    @precondition(lambda self: not self.is_attached and not self.is_closed)
    @rule(rooms=st.tuples(st.sampled_from((0, 50, ROOM)), st.sampled_from((0, 50, ROOM))))
    def connect(self, rooms: tuple[int, int]) -> None:
        self.is_attached = True
        for side in self.sides:
            side.coming = side.part = b""
            self.step(side, e.Detached())
        for side, room in zip(self.sides, rooms, strict=True):
            self.step(side, e.Attached(crc=True))
            self.step(side, e.Room(room))

    @precondition(lambda self: self.is_attached and not self.is_closed)
    @rule(index=SIDES, size=st.integers(1, 100) | st.just(ROOM))
    def arrive(self, index: int, size: int) -> None:
        self.deliver(self.sides[index], size)

    @precondition(lambda self: self.is_attached and not self.is_closed)
    @rule(index=SIDES, size=st.integers(1, 100) | st.just(ROOM))
    def make_room(self, index: int, size: int) -> None:
        self.step(self.sides[index], e.Room(size))

    @precondition(lambda self: self.is_attached and not self.is_closed)
    @rule(first=st.integers(0, 300), second=st.integers(0, 300))
    def cut(self, first: int, second: int) -> None:
        """So many bytes still arrive."""
        for side, size in zip(self.sides, (first, second), strict=True):
            if self.is_attached and not self.is_closed:
                self.deliver(side, size)
        for side in self.sides:
            self.step(side, e.Detached())
        self.is_attached = False

    @precondition(lambda self: not self.is_closed)
    @rule(seconds=st.sampled_from((0.001, 0.03, 0.03, 0.6)))
    def wait(self, seconds: float) -> None:
        self.now += seconds
        for side in self.sides:
            if side.timer is not None and side.timer <= self.now and not self.is_closed:
                side.timer = None
                self.step(side, e.Timer())

    # ---- the programs ----

    @precondition(lambda self: not self.is_closed)
    @rule(index=SIDES, priority=st.integers(0, 7), position=st.sampled_from((0, 5, (1 << 63) + 11)))
    def open(self, index: int, priority: int, position: int) -> None:
        side = self.sides[index]
        if sum(number % 2 != index for number in side.halves if number in side.core._state.streams) < TERMS.streams:
            self.opening = (priority, position)
            self.step(side, e.Open(f"at {position}", priority, position))

    @precondition(lambda self: not self.is_closed)
    @rule(index=SIDES, which=WHICH, position=st.sampled_from((0, 7000)))
    def accept(self, index: int, which: int, position: int) -> None:
        side = self.sides[index]
        if side.offered:
            number, priority = side.offered.pop(which % len(side.offered))
            side.begin(number, priority, position)
            self.step(side, e.Accept(number, position))

    def writable(self, side: Side) -> list[int]:
        return [number for number in side.open_streams() if number in side.out and not side.halves[number].has_ended]

    @precondition(lambda self: not self.is_closed)
    @rule(index=SIDES, which=WHICH, size=st.sampled_from((1, 30, 400, 2000)))
    def write(self, index: int, which: int, size: int) -> None:
        side = self.sides[index]
        for number in chosen(self.writable(side), which):
            data = pattern(number, index, side.halves[number].written, size)
            self.step(side, e.Write(number, memoryview(data)))

    @precondition(lambda self: not self.is_closed)
    @rule(index=SIDES, which=WHICH, priority=st.integers(0, 7))
    def prioritize(self, index: int, which: int, priority: int) -> None:
        side = self.sides[index]
        for number in chosen(self.writable(side), which):
            side.out[number].priority = priority
            self.step(side, e.Prioritize(number, priority))

    @precondition(lambda self: not self.is_closed)
    @rule(index=SIDES, which=WHICH)
    def end(self, index: int, which: int) -> None:
        side = self.sides[index]
        for number in chosen(self.writable(side), which):
            side.halves[number].has_ended = True
            self.step(side, e.End(number))

    @precondition(lambda self: not self.is_closed)
    @rule(index=SIDES, which=WHICH, most=st.integers(1, 700), is_durable=st.booleans())
    def read(self, index: int, which: int, most: int, is_durable: bool) -> None:
        side = self.sides[index]
        for number in chosen(side.open_streams(), which):
            self.read_one(side, number, most, is_durable)

    def read_one(self, side: Side, number: int, most: int, is_durable: bool) -> None:
        half = side.halves[number]
        size = min(most, half.delivered - half.read)
        half.read += size
        self.step(side, e.Read(number, size))
        if is_durable and half.start is not None and not half.is_over:
            half.durable = half.delivered
            self.step(side, e.Durable(number, half.durable))
        if half.ended_by_peer and half.read == half.delivered and not half.is_over:
            self.step(side, e.Finish(number))

    @precondition(lambda self: not self.is_closed)
    @rule(index=SIDES, which=WHICH)
    def reset(self, index: int, which: int) -> None:
        side = self.sides[index]
        for number in chosen(side.open_streams(), which):
            self.over(side, number, "reset")
            self.step(side, e.Reset(number, 300, "no more"))

    # ---- the end ----

    def teardown(self) -> None:
        """Without faults, and with programs that read: each stream comes to its end at both sides."""
        for _ in range(400):
            if self.is_closed or not any(side.open_streams() or side.coming for side in self.sides):
                break
            self.come_on()
        if not self.is_closed:
            assert not any(side.open_streams() for side in self.sides), [side.halves for side in self.sides]
            self.compare()

    def come_on(self) -> None:
        if not self.is_attached:
            self.connect((ROOM, ROOM))
        for side in self.sides:
            self.make_room(side.index, ROOM)
            self.deliver(side, ROOM)
            while side.offered:
                self.accept(side.index, 0, 0)
            for number in side.open_streams():
                if not side.halves[number].has_ended:
                    side.halves[number].has_ended = True
                    self.step(side, e.End(number))
                self.read_one(side, number, ROOM, False)
        self.wait(0.03)

    def compare(self) -> None:
        first, second = (side.halves for side in self.sides)
        for number in first.keys() & second.keys():
            one, other = first[number], second[number]
            if one.is_over == other.is_over == "gone":
                assert (one.delivered, other.delivered) == (other.written, one.written)


def chosen(numbers: list[int], which: int) -> Iterator[int]:
    """One of them, if there is any."""
    if numbers:
        yield numbers[which % len(numbers)]


def unfinished(data: bytes) -> bytes:
    """What lies behind the last whole frame."""
    while len(data) >= 2 and len(data) >= (length := int.from_bytes(data[:2], "little")):
        data = data[length:]
    return data


def tell(stories: settings) -> None:
    """Raises what a core or its model finds."""
    run_state_machine_as_test(SessionMachine, settings=stories)
