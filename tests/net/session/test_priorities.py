"""Whose bytes go next: the highest priority first, within one in turn, chosen anew at each chunk and after each cut."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from uuid import uuid4

import pytest

from rtmw.errors import StreamError
from rtmw.net.session import Carrier, Session, Stream, Terms
from rtmw.net.session import events as e
from rtmw.net.session import meetings as m
from rtmw.net.session.core import Core
from rtmw.net.session.frames import CHUNK, Kind, resume
from rtmw.net.session.hello import Agreed
from tests.net.session.oracle import pattern
from tests.net.session.test_carrier import PATIENCE
from tests.net.session.wire import Node, World

LARGE = 1 << 23


class Sender:
    """A core whose peer has resumed, and whose connection takes a chunk at a time."""

    def __init__(self) -> None:
        terms = Terms(lease=8.0, send_buffer=LARGE, session_credit=LARGE)
        self.core = Core(Agreed(True, 8.0, LARGE, LARGE, 8), terms, 0.0)
        self.step(e.Attached(crc=False))
        self.step(e.Received(resume(0, [], crc=False)))

    def step(self, event: e.Event) -> list[e.Effect]:
        return self.core.step(event, 0.0)

    def open(self, priority: int, chunks: int) -> int:
        """A stream with so many chunks to send."""
        (number,) = (one.stream for one in self.step(e.Open("x", priority, 0)) if isinstance(one, e.Opened))
        self.step(e.Write(number, memoryview(bytes(chunks * CHUNK))))
        return number

    def chunk(self) -> tuple[int, int]:
        """The stream whose chunk goes next, with the priority that the frame names."""
        while True:
            sent = [one.data for one in self.step(e.Room(1)) if isinstance(one, e.Transmit)]
            assert sent, "nothing is sent"
            flags, stream = sent[0][3], int.from_bytes(sent[0][4:8], "little")
            if sent[0][2] == Kind.DATA:
                return stream, flags & 7

    def chunks(self, count: int) -> list[int]:
        return [self.chunk()[0] for _ in range(count)]


def test_the_highest_priority_goes_first_and_is_named_in_its_frames() -> None:
    sender = Sender()
    by_stream = {sender.open(priority, 2): priority for priority in (3, 7, 0, 5)}
    sent = [sender.chunk() for _ in range(8)]
    assert [priority for _, priority in sent] == [7, 7, 5, 5, 3, 3, 0, 0]
    assert all(by_stream[stream] == priority for stream, priority in sent)


def test_what_becomes_urgent_overtakes_at_the_next_chunk() -> None:
    sender = Sender()
    bulk = sender.open(0, 20)
    assert sender.chunks(2) == [bulk, bulk]
    alarm = sender.open(7, 1)
    assert sender.chunks(2) == [alarm, bulk]


def test_streams_of_one_priority_take_turns() -> None:
    sender = Sender()
    one, other = sender.open(4, 3), sender.open(4, 3)
    assert sender.chunks(6) == [one, other] * 3


def test_a_new_priority_holds_from_the_next_chunk_on() -> None:
    sender = Sender()
    one, other = sender.open(4, 5), sender.open(4, 5)
    assert sender.chunks(2) == [one, other]
    sender.step(e.Prioritize(other, 6))
    assert [sender.chunk() for _ in range(2)] == [(other, 6)] * 2
    sender.step(e.Prioritize(other, 1))
    assert sender.chunks(6) == [one] * 4 + [other] * 2


def test_a_stream_without_credit_does_not_hold_up_those_below_it() -> None:
    sender = Sender()
    sender.core._state.streams[blocked := sender.open(7, 2)].sending.limit = CHUNK  # type: ignore[union-attr]
    below = sender.open(0, 2)
    assert sender.chunks(3) == [blocked, below, below]


# ---- the wire ----


class Recording(World):
    """Keeps in which order bytes were delivered to the second node, by streams."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.order: list[int] = []

    def of_stream(self, node: Node, effect: e.Effect) -> None:
        super().of_stream(node, effect)
        if isinstance(effect, e.Delivered) and node is self.nodes[1]:
            self.order.append(effect.stream)

    def wait(self) -> None:
        """A second: no program acts, and all that is on its way arrives."""
        for _ in range(50):
            self.now += 0.02
            self.arrive()
            self.fire()

    def open(self, priority: int) -> int:
        node, before = self.nodes[0], set(self.nodes[0].halves)
        self.step(0, m.Ask(node.session, e.Open("stream at 0", priority, 0)))
        (number,) = node.halves.keys() - before
        return number

    def write(self, number: int, size: int) -> None:
        data = pattern(number, 0, self.nodes[0].halves[number].written, size)
        self.step(0, m.Ask(self.nodes[0].session, e.Write(number, memoryview(data))))


@pytest.mark.parametrize("seed", range(20))
def test_after_a_cut_the_most_urgent_bytes_come_first(seed: int) -> None:
    world = Recording(seed)
    world.dial(0)
    world.wait()
    streams = {world.open(priority): priority for priority in (2, 0, 7, 5)}
    world.wait()
    for connection in world.connections.values():
        world.cut(connection)
    for number in streams:
        world.write(number, 300)
    world.order.clear()
    world.wait()
    world.dial(0)
    world.wait()
    assert [streams[number] for number in dict.fromkeys(world.order)] == [7, 5, 2, 0]
    assert [streams[number] for number in world.order] == sorted((streams[n] for n in world.order), reverse=True)


# ---- real sessions ----


class Receiver:
    """Counts what comes on each stream of a session."""

    def __init__(self) -> None:
        self.came: dict[str, int] = {}
        self.came_before: dict[str, dict[str, int]] = {}
        """What had come of all of them when one had come whole."""
        self.priorities: dict[str, int] = {}

    async def run(self, carrier: Carrier) -> None:
        async with asyncio.TaskGroup() as tasks:
            async for session in carrier:
                tasks.create_task(self._session(session))

    async def _session(self, session: Session) -> None:
        async with asyncio.TaskGroup() as tasks:
            async for stream in session:
                tasks.create_task(self._stream(stream))

    async def _stream(self, stream: Stream) -> None:
        self.priorities[stream.purpose], self.came[stream.purpose] = stream.priority, 0
        with suppress(StreamError):
            while data := await stream.read():
                self.came[stream.purpose] += len(data)
                if self.came[stream.purpose] == LARGE:
                    self.came_before[stream.purpose] = dict(self.came)


async def race(first: int, second: int, then: int | None) -> Receiver:
    """Two streams with as much to send each, of which the second one becomes more urgent: what the receiver saw."""
    terms, receiver = Terms(send_buffer=LARGE, stream_credit=LARGE, session_credit=2 * LARGE), Receiver()
    async with asyncio.timeout(PATIENCE), Carrier(uuid4(), terms=terms) as there, Carrier(uuid4(), terms=terms) as here:
        port = await there.listen("127.0.0.1")
        task = asyncio.create_task(receiver.run(there))
        session = await here.connect("127.0.0.1", port)
        one, other = session.open("one", priority=first), session.open("other", priority=second)
        assert (one.priority, other.priority) == (first, second)
        await one.write(bytes(LARGE))
        await other.write(bytes(LARGE))
        if then is not None:
            other.priority = then
            assert other.priority == then
        await other.reached(LARGE)
        session.close()
        task.cancel()
        await asyncio.wait([task])
    return receiver


# Proves G208.
def test_of_two_streams_the_more_urgent_one_is_done_while_most_of_the_other_waits() -> None:
    receiver = asyncio.run(race(1, 6, None))
    assert receiver.priorities == {"one": 1, "other": 6}
    assert receiver.came_before["other"]["one"] < LARGE // 2


def test_a_program_may_make_a_stream_more_urgent_while_it_sends() -> None:
    receiver = asyncio.run(race(3, 3, 7))
    assert receiver.came_before["other"]["one"] < LARGE // 2


def test_a_priority_that_is_none_is_refused_and_changes_nothing() -> None:
    async def run() -> None:
        async with Carrier(uuid4()) as there, Carrier(uuid4()) as here:
            session = await here.connect("127.0.0.1", await there.listen("127.0.0.1"))
            stream = session.open("x", priority=5)
            with pytest.raises(ValueError, match="priority=8 must be from 0 to 7"):
                stream.priority = 8
            assert stream.priority == 5

    asyncio.run(run())
