"""Two nodes, and a wire between them that delays, splits at any byte, cuts at any byte and loses what lay in buffers.

Everything is drawn from one seed, and time is a number. Beside the nodes runs an oracle: it knows which byte belongs
at each position, and compares what is delivered, acknowledged and allowed.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from uuid import UUID

from rtmw.errors import SessionError
from rtmw.net.session import events as e
from rtmw.net.session import meetings as m
from rtmw.net.session.errors import Code
from rtmw.net.session.hello import Hello
from rtmw.net.session.meetings import Meetings
from tests.net.session.oracle import TERMS, Connection, Direction, Half, pattern


class Node:
    """A node and its program."""

    def __init__(self, world: World, index: int, incarnation: int) -> None:
        self.index = index
        self.incarnation = incarnation
        uuid = UUID(int=(index + 1) << 64)
        hello = Hello(uuid, incarnation, lease=TERMS.lease, **world.credit)
        self.meetings = Meetings(hello, TERMS, lambda: world.random.getrandbits(64) | 1)
        self.session = 0
        self.connection: int | None = None
        self.halves: dict[int, Half] = {}
        self.dialling: set[int] = set()
        self.ended: list[tuple[int, str]] = []

    def unread(self) -> int:
        return sum(half.delivered - half.read for half in self.halves.values() if not half.is_over)


class World:
    """Runs until its steps are used up; `run_to_rest` then lets all that is open come to an end without faults."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.credit = {
            "stream_credit": TERMS.stream_credit,
            "session_credit": TERMS.session_credit,
            "streams": TERMS.streams,
        }
        self.now = 1000.0
        self.connections: dict[int, Connection] = {}
        self.timers: dict[tuple[int, int], float] = {}
        self.deadlines: dict[tuple[int, int], float] = {}
        self.nodes = [Node(self, 0, 1), Node(self, 1, 1)]
        self.seen: Counter[str] = Counter()
        self.outage_until = 0.0
        self.effects: deque[tuple[Node, m.Effect]] = deque()
        self.is_busy = False

    # What the nodes answer.

    def step(self, index: int, event: m.Event) -> bool:
        """False: the node refused the event as misuse."""
        node = self.nodes[index]
        try:
            effects = node.meetings.step(event, self.now)
        except SessionError:
            self.seen["misuse"] += 1
            return False
        self.effects += [(node, effect) for effect in effects]
        if not self.is_busy:
            self.is_busy = True
            while self.effects:  # in order: what the programs do meanwhile has effects of its own, behind these
                self.effect(*self.effects.popleft())
            self.is_busy = False
        return True

    def effect(self, node: Node, effect: m.Effect) -> None:
        if isinstance(effect, m.Send):
            self.send(node, effect)
        elif isinstance(effect, m.Drop):
            self.seen[f"drop {effect.code}"] += 1
            self.hang_up(node.index, effect.connection)
        elif isinstance(effect, m.Deadline):
            self.deadlines[node.index, effect.connection] = effect.at
        elif isinstance(effect, m.Up):
            assert not node.session
            node.session, node.halves = effect.session, {}
            self.seen["up"] += 1
        elif isinstance(effect, m.Carried):
            node.connection = effect.connection
            self.seen["carried"] += 1
        elif effect.session == node.session:
            self.of_session(node, effect.effect)

    def send(self, node: Node, effect: m.Send) -> None:
        connection = self.connections[effect.connection]
        if not connection.open[node.index] or connection.is_cut:
            return
        direction = connection.directions[1 - node.index]
        data = effect.data
        while data:
            cut = self.random.choice((1, 3, 7, 40, 500, len(data)))
            direction.last = max(direction.last, self.now) + self.random.random() * 0.01
            direction.queue.append((direction.last, data[:cut]))
            data = data[cut:]

    def of_session(self, node: Node, effect: e.Effect) -> None:
        if isinstance(effect, e.SetTimer):
            self.timers[node.index, node.session] = effect.at
        elif isinstance(effect, e.Closed):
            node.ended.append((effect.code, effect.words))
            self.seen[f"closed {effect.code}"] += 1
            node.session, node.connection, node.halves = 0, None, {}
        elif isinstance(effect, e.Opened):
            node.halves[effect.stream] = Half(written=self.opening)
        elif isinstance(effect, e.Offered):
            assert effect.purpose == f"stream at {effect.position}"
            node.halves[effect.stream] = Half(start=effect.position, delivered=effect.position, read=effect.position)
            node.halves[effect.stream].durable = effect.position
            self.step(node.index, m.Ask(node.session, e.Accept(effect.stream, effect.stream * 1000)))
            node.halves[effect.stream].written = effect.stream * 1000
        else:
            self.of_stream(node, effect)

    def of_stream(self, node: Node, effect: e.Effect) -> None:
        half = node.halves[effect.stream]  # type: ignore[union-attr]
        self.seen[type(effect).__name__] += 1
        if isinstance(effect, e.Accepted):
            assert effect.position == effect.stream * 1000
            half.start = half.delivered = half.read = half.durable = effect.position
        elif isinstance(effect, e.Wrote):
            half.written += effect.size
        elif isinstance(effect, e.Delivered):
            assert effect.position == half.delivered, "each byte once, in order"
            size = len(effect.data)
            assert effect.data == pattern(effect.stream, 1 - node.index, effect.position, size)
            half.delivered += size
            assert half.delivered - half.read <= TERMS.stream_credit
            assert node.unread() <= TERMS.session_credit
        elif isinstance(effect, e.Acknowledged):
            self.acknowledged(node, half, effect)
        elif isinstance(effect, e.Ended):
            half.ended_by_peer = True
        elif isinstance(effect, e.Gone):
            half.is_over = "gone"
            assert half.read == half.delivered
            assert half.has_ended
            assert half.ended_by_peer
        elif isinstance(effect, e.WasReset):
            half.is_over = "reset"

    def acknowledged(self, node: Node, half: Half, effect: e.Acknowledged) -> None:
        assert effect.durable <= effect.received <= half.written
        other = self.nodes[1 - node.index]
        if other.session == node.session and effect.stream in other.halves:
            assert effect.received <= other.halves[effect.stream].delivered
            assert effect.durable <= other.halves[effect.stream].durable

    # The wire.

    def dial(self, index: int) -> None:
        number = len(self.connections) + 1
        connection = self.connections[number] = Connection(number)
        self.nodes[index].dialling.add(number)
        self.step(1 - index, m.Connected(number, False, "", True))
        self.step(index, m.Connected(number, True, "", True))
        for side in (0, 1):
            if connection.open[side]:
                self.step(side, m.RoomOn(number, 1 << 20))

    def hang_up(self, index: int, number: int) -> None:
        """One side has closed: what it sent still arrives, and then its peer sees the end."""
        self.connections[number].open[index] = False
        if self.nodes[index].connection == number:
            self.nodes[index].connection = None
        self.connections[number].directions[1 - index].queue.append((self.now + 0.02, b""))

    def cut(self, connection: Connection) -> None:
        """Both directions: what was on its way is lost, from any byte on."""
        connection.is_cut = True
        for direction in connection.directions:
            whole = b"".join(data for _, data in direction.queue)
            kept = whole[: self.random.randrange(len(whole) + 1)]
            direction.queue = [(self.now, kept)] if kept else []
            direction.queue.append((self.now + self.random.random() * 2, b""))

    def arrive(self) -> bool:
        """Whatever is due arrives. Was there anything?"""
        found = False
        for connection in list(self.connections.values()):
            for direction in connection.directions:
                while direction.queue and direction.queue[0][0] <= self.now:
                    _, data = direction.queue.pop(0)
                    found = True
                    if not connection.open[direction.to] or direction.is_deaf:
                        continue
                    if data:
                        self.step(direction.to, m.Arrived(connection.number, data))
                    else:
                        connection.open[direction.to] = False
                        if self.nodes[direction.to].connection == connection.number:
                            self.nodes[direction.to].connection = None
                        self.step(direction.to, m.Lost(connection.number))
        return found

    def fire(self) -> None:
        """Timers that are due."""
        for key in [key for key, at in self.timers.items() if at <= self.now]:
            del self.timers[key]
            if self.nodes[key[0]].session == key[1]:
                self.step(key[0], m.Ask(key[1], e.Timer()))
        for key in [key for key, at in self.deadlines.items() if at <= self.now]:
            del self.deadlines[key]
            if self.connections[key[1]].open[key[0]]:
                self.step(key[0], m.Overdue(key[1]))

    def restart(self, index: int) -> None:
        """The process is killed and begins again: its connections see the end."""
        for connection in self.connections.values():
            if connection.open[index]:
                self.hang_up(index, connection.number)
        self.nodes[index] = Node(self, index, self.nodes[index].incarnation + 1)
        self.seen["restart"] += 1

    # The programs.

    opening = 0

    def act(self, node: Node) -> None:
        """Something that a program does."""
        live = [number for number, half in node.halves.items() if not half.is_over]
        what = self.random.choice(("open", "write", "write", "write", "read", "read", "durable", "end", "odd"))
        if what == "open" or not live:
            self.opening = self.random.choice((0, 5, (1 << 63) + 11))
            purpose, priority = f"stream at {self.opening}", self.random.randrange(8)
            self.step(node.index, m.Ask(node.session, e.Open(purpose, priority, self.opening)))
        else:
            self.act_on(node, self.random.choice(live), what)

    def act_on(self, node: Node, number: int, what: str) -> None:
        half = node.halves[number]
        if what == "write" and not half.has_ended:
            data = pattern(number, node.index, half.written, self.random.choice((1, 30, 400, 2000)))
            self.step(node.index, m.Ask(node.session, e.Write(number, memoryview(data))))
        elif what == "read":
            self.read(node, number, self.random.randint(0, half.delivered - half.read))
        elif what == "durable" and half.start is not None:
            half.durable = self.random.randint(half.durable, half.delivered)
            self.step(node.index, m.Ask(node.session, e.Durable(number, half.durable)))
        elif what == "end" and self.random.random() < 0.3:
            self.end(node, number)
        elif what == "odd" and self.random.random() < 0.2:
            half.is_over = "reset"
            self.step(node.index, m.Ask(node.session, e.Reset(number, 300, "no more")))
        elif what == "odd":
            self.step(node.index, m.Ask(node.session, e.Prioritize(number, self.random.randrange(8))))

    def read(self, node: Node, number: int, size: int) -> None:
        half = node.halves[number]
        half.read += size
        self.step(node.index, m.Ask(node.session, e.Read(number, size)))
        if half.ended_by_peer and half.read == half.delivered and not half.is_over:
            half.durable = half.delivered
            self.step(node.index, m.Ask(node.session, e.Finish(number)))

    def end(self, node: Node, number: int) -> None:
        half = node.halves[number]
        if not half.has_ended:
            half.has_ended = True
            self.step(node.index, m.Ask(node.session, e.End(number)))

    # The run.

    def turn(self, faults: float) -> None:
        """A moment: time passes, bytes arrive, a program acts, and now and then something breaks."""
        is_out = self.now < self.outage_until
        self.now += 0.3 if is_out else self.random.choice((0.001, 0.01, 0.05))
        self.arrive()
        self.fire()
        for node in list(self.nodes):
            if node.connection is None and not is_out and self.random.random() < 0.1:
                self.dial(node.index)
            if node.session and self.random.random() < 0.7:
                self.act(node)
        if self.random.random() < faults:
            self.fault()

    def fault(self) -> None:
        live = [c for c in self.connections.values() if any(c.open) and not c.is_cut]
        what = self.random.random()
        if what < 0.06:
            self.restart(self.random.randrange(2))
        elif what < 0.12:
            self.now += self.random.choice((3.0, 5.0, 9.0))
            self.seen["both stood still"] += 1
        elif what < 0.2:
            self.outage(self.random.choice((3.0, 5.0, 20.0)))
        elif what < 0.3 and live:
            self.turn_a_bit(self.random.choice(self.random.choice(live).directions))
        elif what < 0.4 and live:
            self.random.choice(self.random.choice(live).directions).is_deaf = True
            self.seen["asymmetric cut"] += 1
        elif live:
            self.cut(self.random.choice(live))
            self.seen["cut"] += 1

    def outage(self, seconds: float) -> None:
        """Nothing arrives on any connection any more, and nobody can dial for so long."""
        for connection in self.connections.values():
            for direction in connection.directions:
                direction.is_deaf = True
        self.outage_until = self.now + seconds
        self.seen["outage"] += 1

    def turn_a_bit(self, direction: Direction) -> None:
        full = [index for index, (_, data) in enumerate(direction.queue) if data]
        if full:
            index = self.random.choice(full)
            at, data = direction.queue[index]
            number = self.random.randrange(8 * len(data))
            whole = int.from_bytes(data, "little") ^ (1 << number)
            direction.queue[index] = (at, whole.to_bytes(len(data), "little"))
            self.seen["turned bit"] += 1

    def run_to_rest(self) -> None:
        """No more faults: both hold one session, and each stream comes to its end at both sides."""
        for _ in range(20000):
            self.now += 0.02
            self.arrive()
            self.fire()
            for node in self.nodes:
                if node.connection is None and not self.is_dialled():
                    self.dial(node.index)
                for number in [n for n, half in node.halves.items() if not half.is_over]:
                    self.end(node, number)
                    half = node.halves[number]
                    self.read(node, number, half.delivered - half.read)
            if self.is_idle():
                return
        raise AssertionError(f"it does not come to rest: {[(n.session, n.connection, n.halves) for n in self.nodes]}")

    def is_dialled(self) -> bool:
        return any(all(c.open) and not any(d.is_deaf for d in c.directions) for c in self.connections.values())

    def is_idle(self) -> bool:
        first, second = self.nodes
        if not first.session or first.session != second.session or None in (first.connection, second.connection):
            return False
        if first.connection != second.connection or any(c.queue for c in self._directions()):
            return False
        return all(half.is_over for node in self.nodes for half in node.halves.values())

    def _directions(self) -> list[Direction]:
        assert self.nodes[0].connection is not None
        return list(self.connections[self.nodes[0].connection].directions)

    def check_ends(self) -> None:
        """At the end: both sides say the same of each stream, and what was finished came whole."""
        first, second = self.nodes
        for number in first.halves.keys() & second.halves.keys():
            one, other = first.halves[number], second.halves[number]
            if one.is_over == other.is_over == "gone":
                assert (one.delivered, other.delivered) == (other.written, one.written)
        for node in self.nodes:
            assert not [code for code, words in node.ended if code in (Code.PROTOCOL, Code.DAMAGED, Code.VERSION)], (
                node.ended
            )
            core = node.meetings._sessions[node.session].core
            assert core is not None
            assert not core._state.streams
            assert core._state.turns.next() is None


def run(seed: int, turns: int = 400, faults: float = 0.03) -> Counter[str]:
    """One seed, whole. Raises AssertionError. Returns what was met."""
    world = World(seed)
    for _ in range(turns):
        world.turn(faults)
    world.run_to_rest()
    world.check_ends()
    return world.seen
