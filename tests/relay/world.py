"""A world in which frames are lost, doubled and late, connections break, the server dies behind any row (R7 to R9), and
an operator acts in between (R11).

    python -m tests.relay.world 17        the world of a seed, with all that happened in it

Agents are as foreign ones are: a source sends again after T1, up to N1 times, and a recipient acts on an id once. The
disk brings rows in batches; a crash leaves any beginning of those that were not synced, and no effect of them.
"""

from __future__ import annotations

import heapq
import random
import sys
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Final

from rtmw.net.security.rules import Rule, RuleTable
from rtmw.relay import rows as r
from rtmw.relay.frame import Filter, Frame, Hello, Kind, Packet, address_of, frame_of
from rtmw.relay.machine import ACTS, Act, Machine
from rtmw.relay.policy import Policy
from rtmw.relay.rows import Row
from rtmw.relay.settings import Agent, Relay, Subject
from rtmw.relay.state import Leg, Order, Queue, State

T1, N1, T2, N2 = 10.0, 3, 2.0, 3
LIFETIME: Final = 30.0
HORIZON: Final = 2 * T1 * (N1 + 1)
END: Final = 400.0
SOURCES: Final = ("A1", "A2", "A3")
RECIPIENTS: Final = ("B1", "B2", "B3", "B4")
OWN: Final = ("A3", "B4")
"""They speak the second frame."""
FILTERS: Final = (Filter(), Filter("A1"), Filter("A3", "I"))
UID: Final = 1000


def as_sent(name: str, frame: Frame) -> Frame:
    """As it comes from this agent: with a sum, or with none."""
    return replace(frame, checksum=bytes(3)) if name in OWN else Frame.decode(frame.encode())


def relay() -> Relay:
    """B2 keeps its orders, B3 stops a stream behind a failure and takes few at a time, and follows FLTS unasked."""
    agents = [Agent(name, address_of(name), "127.0.0.1") for name in ("A1", "B1")]
    agents += [Agent("A2", address_of("A2"), "127.0.0.1", id="stamp", notices=True)]
    agents += [Agent("B2", address_of("B2"), "127.0.0.1", absent="keep")]
    agents += [Agent("B3", address_of("B3"), "127.0.0.1", window=2, on_failure="hold", follows=("FLTS",))]
    agents += [Agent(name, address_of(name), "127.0.0.1") for name in OWN]
    subjects = (Subject("GRP", address_of("GRP"), ("B1", "B3")), Subject("FLTS", address_of("FLTS")))
    orders = ("B1/*", "B2/*", "B3/*", "B4/*", "GRP/*", "FLTS/*")
    rules = (
        Rule(("agent:A1",), {"order": orders}, priority=2),
        Rule(("agent:A2",), {"order": orders}, ("B1/D",), priority=6, lifetime=LIFETIME),
        Rule(("agent:A3",), {"order": orders}, priority=2, max_priority=5),
        Rule(("agent:B?",), {"follow": ("FLTS",)}),
    )
    return Relay(t1=T1, n1=N1, t2=T2, n2=N2, max_waiting=12, agents=tuple(agents), subjects=subjects,
        rules=RuleTable(rules))  # fmt: skip


class Broken(AssertionError):
    """A promise was not kept."""


@dataclass
class Told:
    """An order as its source sees it."""

    frame: Frame
    to: str
    kind: Kind | None = None
    tries: int = 0
    turn: int = 0
    """Of its timers the last one counts."""
    noticed: int = 0
    """The connection on which a notice came."""
    outcome: str = ""
    """delivered, failed, refused, unanswered; empty: not known yet."""
    corrected: bool = False


@dataclass
class Server:
    """One life of it."""

    machine: Machine
    behind: list[partial[None]] = field(default_factory=list[partial[None]])
    """Calls behind rows that are not synced."""
    unsynced: list[Row] = field(default_factory=list[Row])


def picture(one: Any) -> Any:
    """A state, or a part of it, with all that it has: what is empty is as what is not there."""
    if isinstance(one, Order):
        legs = [(leg.recipient, leg.tries, leg.end, leg.cause) for leg in one.legs.values()]
        return [getattr(one, name) for name in one.__slots__ if name != "legs"], legs
    if isinstance(one, Leg):
        return one.recipient, picture(one.order)
    if isinstance(one, State | Queue):
        return picture(vars(one))
    if isinstance(one, OrderedDict):
        return [(key, picture(value)) for key, value in one.items()]
    if isinstance(one, dict):
        plain = {key: picture(value) for key, value in one.items()}
        return {key: value for key, value in plain.items() if value}
    if isinstance(one, list):
        return sorted(map(picture, one), key=repr)
    return [*map(picture, one)] if isinstance(one, deque) else one


class World:
    """`run` plays it to its end, or raises Broken."""

    def __init__(self, seed: int, show: Callable[[str], None] = lambda _: None) -> None:
        self.random, self.show = random.Random(seed), show
        self.now, self.serial = 0.0, count()
        self.queue: list[tuple[float, int, Callable[[], None]]] = []
        self.policy = Policy(relay())
        self.record: list[Row] = []
        self.stamps = count(1)
        self.faults: Counter[str] = Counter()
        self.loss = self.random.choice([0.0, 0.05, 0.3, 0.7])
        self.died, self.connections = 0, count(1)
        self.acted = False
        """An operator has: a receipt may be for an order that another has taken the place of."""
        self.wires: dict[str, int] = {}
        """Of each agent that is connected: its connection."""
        self.last: dict[str, float] = {}
        """When what was sent last arrives, by place."""
        self.orders: dict[str, dict[bytes, Told]] = {name: {} for name in (*SOURCES, *RECIPIENTS)}
        self.got: dict[str, list[Frame]] = {name: [] for name in RECIPIENTS}
        self.held = set[str]()
        """Agents and streams, as the rows say."""
        self.server = self._start()

    # ---- time ----

    def after(self, seconds: float, what: Callable[[], None]) -> None:
        heapq.heappush(self.queue, (self.now + seconds, next(self.serial), what))

    def run(self) -> None:
        for name in (*SOURCES, *RECIPIENTS):
            begins = self.random.choice([0.1, 0.5, 0.9, 40.0]) * self.random.random()
            self.after(begins, lambda name=name: self.connect(name))  # type: ignore[misc]
        for _ in range(self.random.randint(5, 40)):
            self.after(self.random.uniform(0, 60), self.order)
        for _ in range(self.random.randint(0, 8)):
            self.after(self.random.uniform(0, 60), self.follow)
        for _ in range(self.random.randint(0, 6)):
            self.after(self.random.uniform(0, 80), self.cut)
        for _ in range(self.random.choice([0, 0, 1, 4])):
            self.after(self.random.uniform(0, 80), self.crash)
        for _ in range(self.random.choice([0, 0, 3, 15])):
            self.after(self.random.uniform(0, 90), self.operate)
        self.after(END, self.release)
        while self.queue:
            self.now, _, what = heapq.heappop(self.queue)
            if self.now > END and self.loss:
                self.loss = 0.0  # whoever is away is back by then
                for name in (*SOURCES, *RECIPIENTS):
                    self.after(0, lambda name=name: self.connect(name))  # type: ignore[misc]
            what()
        self._judge_end()

    def at(self) -> int:
        return round(self.now * 1e9)

    # ---- the server ----

    def _start(self) -> Server:
        state, at = State(HORIZON), random.Random(self.died).randint(0, len(self.record))
        for position, row in enumerate(self.record[:at]):
            state.apply(row, position)
        other = State.of_lines(state.lines(), HORIZON)
        for position, row in enumerate(self.record[at:], at):
            state.apply(row, position)
            other.apply(row, position)
        if (found := picture(other)) != (wanted := picture(state)):
            raise Broken(f"a checkpoint behind {at} of {len(self.record)} rows is {found}, and not {wanted}")
        machine = Machine(self.policy, state, lambda: b"%022d" % next(self.stamps), self)
        machine.time(self.now, self.at())
        machine.begin()
        self.held.clear()
        self._note_holds(self.record)
        return Server(machine)

    def step(self, event: Callable[..., None], *given: Any) -> None:
        """An event of the machine."""
        server = self.server
        server.machine.time(self.now, self.at())
        event(*given)
        rows, calls = server.machine.done()
        for row in rows:
            whom = row.recipient or row.destination
            self.show(f"{self.now:8.3f} row {row.kind} {row.order or ''} {row.source}>{whom} {row.cause}")
        self._judge_step(given, rows, calls)
        self._note_holds(rows)
        was_empty = not server.unsynced and not server.behind
        server.unsynced += rows
        server.behind += calls
        if was_empty and (rows or calls):
            self.after(self.random.choice([0.001, 0.02, 0.3]), lambda: self.sync(server))
        self.wait_due()

    def wait_due(self) -> None:
        server, due = self.server, self.server.machine.due
        if due < 1e18:
            self.after(max(0.0, due - self.now), lambda: self.tick(server))

    def tick(self, server: Server) -> None:
        if server is self.server and server.machine.due <= self.now:
            self.step(server.machine.tick)

    def sync(self, server: Server) -> None:
        if server is not self.server:
            return
        self.record += server.unsynced
        calls, server.behind, server.unsynced = server.behind, [], []
        for call in calls:
            call()

    def crash(self) -> None:
        self.died += 1
        kept = self.random.randint(0, len(self.server.unsynced))
        self.show(f"{self.now:8.3f} CRASH, {kept} of {len(self.server.unsynced)} rows are there")
        self.record += self.server.unsynced[:kept]
        for name in list(self.wires):
            self.lose(name)
        self.server = self._start()
        self.wait_due()

    # ---- the network ----

    def connect(self, name: str) -> None:
        if name not in self.wires:
            self.wires[name] = next(self.connections)
            hello = Hello(address_of(name), T1, N1) if name in OWN else None
            self.step(self.server.machine.connected, self.wires[name], name, hello)
            for told in self.orders[name].values() if hello is not None else ():
                if told.tries:
                    self.try_again(name, told)

    def lose(self, name: str) -> int:
        number = self.wires.pop(name)
        self.after(self.random.choice([0.1, 1, 5, 15, 50]), lambda: self.connect(name))
        return number

    def cut(self, name: str = "", number: int = 0) -> None:
        """`number`: of a connection; 0: whichever it has now."""
        name = name or self.random.choice(sorted(self.wires) or [""])
        if name in self.wires and number in (0, self.wires[name]):
            self.step(self.server.machine.gone, self.lose(name))

    # ---- what the machine says ----

    def end(self, connection: int, words: str) -> None:
        pass

    def alarm(self, row: Row) -> None:
        pass

    def dial(self, name: str) -> None:
        if self.random.random() < 0.3:
            self.after(self.random.choice([0.1, 3]), lambda: self.connect(name))

    def _of(self, connection: int) -> str | None:
        return next((one for one, number in self.wires.items() if number == connection), None)

    def say(self, connection: int, frame: Frame, kind: Kind) -> None:
        if (name := self._of(connection)) is not None:
            self.carry(f"to {name}", lambda: self.arrive(name, connection, frame, kind))

    def forward(self, connection: int, order: int, recipient: str) -> None:
        name = self._of(connection)
        if name is None or not self.server.machine.is_wanted(order, recipient):
            return
        frame = self._frame(order, recipient)
        if name not in OWN and b"\n" in frame.data and frame.type == b"O":
            self.step(self.server.machine.unsent, order, name, "it has a line feed")
            return
        self.carry(f"to {name}", lambda: self.arrive(name, connection, frame, None))

    def _frame(self, number: int, recipient: str) -> Frame:
        order = self.server.machine.state.numbers[number]
        of = [row.kind for row in self.record if row.order == number and row.recipient == recipient]
        if r.SENT not in of:
            raise Broken(f"order {number} leaves, and no durable row says so")
        if not r.ENDS.isdisjoint(of):
            raise Broken(f"order {number} leaves behind its end")
        body = next(row.body for row in self.record if row.kind == r.STORED and row.order == number)
        return frame_of(order.head, body)

    # ---- the operator ----

    def operate(self) -> None:
        """Any act, on any order, agent or stream, whether that is of use or not."""
        verb = self.random.choice(sorted(ACTS))
        if verb in ("hold", "release"):
            whom = self.random.choice([*RECIPIENTS, "A1:B1", "A2:B2", "A2:B3", "A1:FLTS", "A1:GRP"])
            self.step(self.server.machine.act, Act(UID, verb, whom))
            return
        numbered = self.server.machine.state.numbered
        number = self.random.randint(max(1, numbered - 5), max(1, numbered))
        bodies = [row.body for row in self.record if row.kind == r.STORED and row.order == number]
        self.step(self.server.machine.act, Act(UID, verb, str(number), bodies[0] if bodies else None))

    def release(self) -> None:
        for whom in sorted(self.held):
            self.step(self.server.machine.act, Act(UID, "release", whom))

    def carry(self, place: str, what: Callable[[], None]) -> None:
        """Over a connection: lost, late, or twice; those of one place stay in their order."""
        if self.random.random() < self.loss:
            self.faults[f"lost {place}"] += 1
            name = place.split()[1]
            if name in OWN:  # its connection does not lose one frame alone
                self.after(0, lambda number=self.wires[name]: self.cut(name, number))  # type: ignore[misc]
            return
        late = 0.01 if self.random.random() > self.loss / 4 else self.random.choice([3.0, 9.0])
        self.last[place] = max(self.now + late, self.last.get(place, 0.0))
        for _ in range(1 + (self.random.random() < self.loss / 8)):
            self.after(self.last[place] - self.now, what)

    def send(self, name: str, frame: Frame, kind: Kind | None = None) -> None:
        number = self.wires.get(name)
        if number is not None:
            came = as_sent(name, frame)
            self.carry(f"from {name}", lambda: self._hear(name, number, came, kind))

    def _hear(self, name: str, number: int, frame: Frame, kind: Kind | None) -> None:
        if self.wires.get(name) == number:
            priority = self.random.choice((None, 0, 5)) if name in OWN else None
            self.step(self.server.machine.arrived, number, Packet(kind, frame, priority))

    # ---- agents ----

    def order(self) -> None:
        source = self.random.choice(SOURCES)
        to = self.random.choice((*RECIPIENTS, "GRP", "FLTS", "FLTS", "B1", "none"))
        stamp = b"%022d" % (self.random.randint(1, 3) if source == "A1" and self.random.random() < 0.2 else
                            10 + len(self.orders[source]) * 2 + (source == "A2"))  # fmt: skip
        command = "D" if to == "B1" and self.random.random() < 0.2 else "I"
        number = len(self.orders[source])
        body = b"%d of %s%s" % (number, source.encode(), b"!" * number)  # no two of one stamp have the same sum
        if source in OWN and self.random.random() < 0.3:
            body += b"\n"
        self._begin(source, Told(Frame(source, to, stamp, "O", command, body), to))

    def follow(self) -> None:
        name, filter = self.random.choice(("B1", "B4")), self.random.choice(FILTERS)
        is_end, stamp = self.random.random() < 0.4, b"%022d" % next(self.stamps)
        if name in OWN:
            kind, body = Kind.UNFOLLOW if is_end else Kind.FOLLOW, filter.encode()
        else:
            parts = "".join(f" :{what} {value}" for what, value in zip(("from", "command"), filter, strict=False)
                            if value != "*")  # fmt: skip
            kind, body = None, f"({'un' * is_end}subscribe{parts})".encode()
        self._begin(name, Told(Frame(name, "FLTS", stamp, "O", "I", body), "", kind))

    def _begin(self, source: str, told: Told) -> None:
        key = b"%d" % len(self.orders[source]) if source in OWN else told.frame.encode()
        told = self.orders[source].setdefault(key, told)
        self.try_again(source, told)

    def try_again(self, source: str, told: Told, turn: int | None = None) -> None:
        """`turn`: of the timer that has run out; None: there is another reason."""
        if told.outcome or turn not in (None, told.turn):
            return
        told.turn += 1
        turn = told.turn
        self.after(T1, lambda: self.try_again(source, told, turn))
        if told.noticed and told.noticed == self.wires.get(source):
            return
        if told.tries > N1:
            told.outcome = "unanswered"
            return
        told.tries += 1
        self.send(source, told.frame, told.kind)

    def arrive(self, name: str, number: int, frame: Frame, kind: Kind | None) -> None:
        if self.wires.get(name) != number:
            return
        if frame.type == b"A":
            self._answered(name, frame, kind)
            return
        self.got[name].append(frame)
        receipt = (frame if name in OWN else as_sent("", frame)).receipt(b"%022d" % next(self.stamps))
        if name == "B1" and self.random.random() < 0.1:  # it answers with content instead
            body = receipt.data + b"answer to %s" % frame.data
            receipt = Frame(receipt.source, receipt.destination, receipt.stamp, "A", "I", body)
        if name != frame.destination.decode().strip():  # of a group: from the agent itself
            receipt = Frame(name, receipt.destination, receipt.stamp, receipt.type, receipt.command, receipt.data)
        self.send(name, receipt)

    def _answered(self, source: str, frame: Frame, kind: Kind | None) -> None:
        if frame.body and frame.command == b"I":  # an answer with content comes as an order does
            came = frame if source in OWN else as_sent("", frame)
            self.send(source, came.receipt(b"%022d" % next(self.stamps)))
            return
        for told in self.orders[source].values():
            raw = as_sent(source, told.frame)
            if (raw.stamp, raw.checksum) == frame.answers:
                if kind is Kind.NOTICE and source in OWN:
                    told.noticed, told.tries = self.wires[source], 1
                    return
                cause = frame.body.decode()
                outcome = "delivered" if not cause else "kept" if cause.startswith("kept") else "failed"
                told.corrected |= told.outcome == "failed" and outcome == "delivered"
                if told.outcome == "delivered" and outcome == "failed":
                    raise Broken(f"{source} was told that {told.frame.data!r} has come, and then that it has not")
                told.outcome = cause if outcome == "failed" else outcome
                return
        if source in SOURCES:  # a recipient is told of its answer
            raise Broken(f"{source} is told of an order that it never sent: {frame}")

    # ---- promises ----

    def _judge_end(self) -> None:
        state = State()
        for row in self.record:
            state.apply(row)
        if state.open:
            raise Broken(f"orders {sorted(state.open)} have no end")
        self._judge_rows()
        self._judge_followers()
        for source, orders in self.orders.items():
            for told in orders.values():
                self._judge_told(source, told)
        for name in RECIPIENTS:
            self._judge_order(name)

    def _judge_rows(self) -> None:
        """Each stored order has one end for each recipient, in time, and nothing is sent but between those."""
        ends: Counter[tuple[int, str]] = Counter()
        stored = dict[int, Row]()
        for row in self.record:
            if row.kind == r.STORED:
                if row.order in stored:
                    raise Broken(f"order {row.order} is stored twice")
                stored[row.order] = row
            elif row.kind == r.SENT and (row.order not in stored or ends[row.order, row.recipient]):
                raise Broken(f"order {row.order} is sent at the wrong time")
            elif row.kind in r.ENDS:
                ends[row.order, row.recipient] += 1
                self._judge_time(stored[row.order], row)
            if row.kind == r.STORED and row.source == "A2" and row.destination == "B1" and row.head[-1:] == b"D":
                raise Broken("an order is stored that no rule allows")
        again = self._judge_acts(stored)
        wanted = {(number, name) for number, row in stored.items() for name in row.recipients}
        if ends.keys() != wanted or set(ends.values()) - {1}:
            raise Broken(f"not each order has one end: {ends}")
        ids = Counter((row.source, row.head, row.body) for row in stored.values() if row.order not in again)
        if max(ids.values(), default=0) > 1:
            raise Broken("an order that came again is stored twice")

    def _judge_acts(self, stored: dict[int, Row]) -> set[int]:
        """Each is on record before what comes of it. The orders that were made of others by them."""
        dropped, requeued, delivered, again = set[int](), set[int](), set[tuple[int, str]](), set[int]()
        for row in self.record:
            if row.kind == r.ACT and row.uid != UID:
                raise Broken(f"nobody knows who did {row.cause}")
            if row.kind == r.ACT and row.order:
                (dropped if row.cause.startswith("drop") else requeued).add(row.order)
            elif row.kind in (r.DELIVERED, r.LATE):
                delivered.add((row.order, row.recipient))
            elif row.kind in r.ENDS and "dropped" in row.cause and row.order not in dropped:
                raise Broken(f"nobody has dropped order {row.order}")
            elif row.kind == r.STORED and row.cause:
                again.add(row.order)
                before = stored[int(row.cause.split()[1])]
                was_delivered = delivered & {(before.order, name) for name in row.recipients}
                if before.order not in requeued or row.head != before.head or was_delivered:
                    raise Broken(f"order {row.order} is none that failed as order {before.order}")
        return again

    def _judge_followers(self) -> None:
        """What comes to FLTS goes to whoever was subscribed by then; a subscription that was told is on record."""
        wanted: dict[str, set[Filter]] = {}
        for row in self.record:
            filter = Filter.decode(row.body) if row.kind in (r.FOLLOWED, r.UNFOLLOWED) else Filter()
            if row.kind == r.FOLLOWED:
                wanted.setdefault(row.source, set()).add(filter)
            elif row.kind == r.UNFOLLOWED:
                wanted[row.source] = wanted.get(row.source, set()) - {filter} if filter != Filter() else set()
            elif row.kind == r.STORED and row.destination == "FLTS" and row.uid < 0:
                fit = {name for name, filters in wanted.items() for one in filters if one.source in ("*", row.source)}
                if fit | {"B3"} != set(row.recipients):
                    raise Broken(f"order {row.order} goes to {row.recipients}, and {sorted(fit)} are subscribed")
        heads = {row.head for row in self.record if row.kind in (r.FOLLOWED, r.UNFOLLOWED)}
        for name in RECIPIENTS:
            for told in self.orders[name].values():
                if told.outcome == "delivered" and as_sent(name, told.frame).head not in heads:
                    raise Broken(f"{name} was told that it is subscribed, and it is not")

    def _judge_time(self, stored: Row, end: Row) -> None:
        """After a crash the times run anew."""
        took = (end.at - stored.at) / 1e9
        most = min(stored.lifetime or END, END if end.recipient == "B2" else T2 * (N2 + 1))
        if not self.died and took > most + 0.001:
            raise Broken(f"order {end.order} ended after {took:g} s, and had {most:g}")

    def _judge_step(self, given: tuple[Any, ...], rows: list[Row], calls: list[partial[None]]) -> None:
        """What is known is answered, what was said wrongly is corrected, and what may leave does. `given`: with the
        event."""
        machine, state = self.server.machine, self.server.machine.state
        said = any(one.func == self.say for one in calls)
        for row in rows:
            self.acted |= row.kind == r.ACT
            if row.kind == r.DROPPED and not self.acted:
                raise Broken(f"a frame of {row.source} is dropped: {row.cause}")
        what = given[-1] if given else None
        if isinstance(what, Packet) and what.frame.type == b"O":
            came = what.frame.head
            known = [one for one in state.known.values() if one.head == came and one.digest == what.frame.digest]
            if known and not known[0].is_open and not said:
                raise Broken(f"an order that has ended came again, and its source hears nothing: {what.frame}")
            is_kept = known and known[0].source == "A3" and known[0].destination == "B2" and "B2" not in self.wires
            if is_kept and not said:
                raise Broken(f"A3 hears nothing of an order that is kept: {what.frame}")
        for row in rows:
            names = {row.recipient, f"{row.source}:{row.destination}"}
            is_asked = isinstance(what, Act) and what.verb == "release"
            if row.kind == r.SENT and not is_asked and not self.held.isdisjoint(names):
                raise Broken(f"order {row.order} is sent, and {self.held} are held")
            if row.kind == r.LATE and row.source in self.wires and not said and len(state.numbers[row.order].legs) == 1:
                raise Broken(f"order {row.order} has come late, and its source is not told")
        for name in RECIPIENTS:
            line, queue = machine.lines.get(name), state.queues[name]
            window = 2 if name == "B3" else 64
            free = [legs[0] for stream, legs in queue.streams.items() if stream not in queue.held]
            idle = [leg for leg in free if machine._may_begin(leg, leg.order.number)]
            if line and line.connection and idle and len(line.sent) < window:
                raise Broken(f"{name} is there, and orders for it wait")

    def _note_holds(self, rows: list[Row]) -> None:
        for row in rows:
            verb, _, whom = row.cause.partition(" ")
            if row.kind == r.ACT and verb in ("hold", "release"):
                (self.held.add if verb == "hold" else self.held.discard)(whom)

    def _is_again(self, frame: Frame) -> bool:
        """An operator has had it sent once more: whatever was said of it before is over."""
        heads = {row.head for row in self.record if row.kind == r.STORED and row.cause}
        return as_sent(frame.source.decode().strip(), frame).head in heads

    def _came(self, told: Told, name: str) -> bool:
        return any((one.source, one.stamp, one.data) == (told.frame.source, told.frame.stamp, told.frame.data)
                   for one in self.got[name])  # fmt: skip

    def _judge_told(self, source: str, told: Told) -> None:
        whom = {"GRP": ("B1", "B3"), "FLTS": (), "none": (), "": ()}.get(told.to, (told.to,))
        came = [name for name in whom if self._came(told, name)]
        if told.outcome == "delivered" and len(came) < len(whom):
            raise Broken(f"{source} was told that {told.frame.data!r} has come to {whom}; it came to {came}")
        for name in [] if self._is_again(told.frame) else came:
            if f"{name}: UNDELIVERED" in told.outcome or f"{name}: EXPIRED" in told.outcome:
                raise Broken(f"{source} was told that {told.frame.data!r} never came to {name}, and it did")
        if "rule" in told.outcome and came:
            raise Broken(f"{told.frame.data!r} was refused, and came to {came}")
        if not told.outcome:
            raise Broken(f"{source} has no outcome of {told.frame.data!r}")

    def _judge_order(self, name: str) -> None:
        """First comings of each stream, in the order in which they were stored."""
        numbers = {(row.head[:30], row.body): row.order for row in self.record if row.kind == r.STORED}
        last: dict[tuple[bytes, bytes], int] = {}
        seen = set[int]()
        for frame in self.got[name]:
            number = numbers[frame.source + frame.destination + frame.stamp, frame.data]
            if number in seen or self._is_again(frame):
                continue
            seen.add(number)
            stream = frame.source, frame.destination
            if last.get(stream, 0) > number:
                raise Broken(f"{name} got order {number} behind {last[stream]}")
            last[stream] = max(number, last.get(stream, 0))


def main() -> None:
    seed = int(sys.argv[1])
    world: Any = World(seed, print)
    world.run()
    print(dict(world.faults), Path(__file__).name)


if __name__ == "__main__":
    main()
