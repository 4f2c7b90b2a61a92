"""Two controls, and in place of everything else a world in which time and chance are drawn from one seed.

Controls arrive late and in order; messages arrive late, in order by route, and in any order between routes: so the end
of a route may come before its last messages. The bus of each node keeps what is published while the route of a lane
is closed to be opened again, as RELIABLE lanes are parked. Lines end, and others begin. Beside them an oracle knows
which lanes must cross, and that each of their messages must come.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from dataclasses import dataclass, field

from cyclonedds.idl import IdlStruct

from rtmw.net.link import lanes as do
from rtmw.net.link.control import Control
from rtmw.net.link.lanes import Lane, lanes_of
from rtmw.net.link.messages import Advertise, Allowed, pack, read
from rtmw.net.neighbours import LocalTopic, Publishing, Subscribing
from rtmw.net.security.rules import Rights, Rule, RuleTable
from rtmw.qos import Reliability
from rtmw.types import ANY, AnyType, MessageType, resolve


@dataclass
class Apple(IdlStruct, typename="test.Apple"):
    size: int


KINDS: tuple[MessageType, ...] = (resolve(bytes), resolve(Apple))
WISHES: tuple[MessageType | AnyType, ...] = (ANY, *KINDS)
TOPICS = ("a", "b", "b/secret")
NAMES = ("rtmw://plant/left", "rtmw://plant/right")


@dataclass(frozen=True)
class Message:
    number: int
    lane: Lane


@dataclass
class Sending:
    """The engine's side of an outgoing route."""

    lane: Lane
    line: int
    queue: deque[Message]
    sent: int = 0
    is_granted: bool = False
    is_leaving: bool = False
    is_parting: bool = False
    """The peer ends: what is in the queue is left to the next line."""


@dataclass(frozen=True)
class Settings:
    """Patterns that let all pass, or all but one topic."""

    no_way_out: str = ""
    no_way_in: str = ""

    def leaves(self, topic: str) -> bool:
        return topic != self.no_way_out

    def enters(self, topic: str) -> bool:
        return topic != self.no_way_in


@dataclass
class Node:
    index: int
    rights: Rights
    settings: Settings = field(default_factory=Settings)
    topics: dict[str, LocalTopic] = field(default_factory=dict)
    control: Control | None = None
    line: int = 0
    out: dict[int, Sending] = field(default_factory=dict)
    into: dict[int, do.OpenIn] = field(default_factory=dict)
    counts: Counter[int] = field(default_factory=Counter)
    """Messages that have come, by route."""
    draining: dict[int, int] = field(default_factory=dict)
    """Routes that the peer has closed, and how many messages it had sent by them."""
    parked: dict[Lane, deque[Message]] = field(default_factory=dict)
    came: list[Message] = field(default_factory=list)


def rules(topics: tuple[str, ...], deny: tuple[str, ...] = (), priority: int = 7) -> RuleTable:
    """The same for both verbs."""
    return RuleTable((Rule(("rtmw://plant/*",), {"publish": topics, "subscribe": topics}, deny, priority),))


class World:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.nodes = [Node(index, Rights(rules(("*",)))) for index in (0, 1)]
        self.controls: list[deque[bytes]] = [deque(), deque()]
        """To each node."""
        self.carried: list[dict[int, deque[Message]]] = [{}, {}]
        """To each node by route."""
        self.grants: list[deque[int]] = [deque(), deque()]
        """Routes that the engine of the peer has opened, to each node."""
        self.stuck = 0
        """The route, of whichever node, whose messages stay on their way until nothing else moves."""
        self.number = 0
        self.lines = 0
        self.seen: Counter[str] = Counter()

    # ---- what nodes do ----

    def act(self, node: Node, effects: list[do.Effect]) -> None:
        for effect in effects:
            self.seen[type(effect).__name__] += 1
            self.one(node, effect)

    def one(self, node: Node, effect: do.Effect) -> None:
        other = 1 - node.index
        match effect:
            case do.Say(data):
                assert len(data) <= 16000
                self.say(node, data)
            case do.OpenOut(route, lane):
                assert route not in node.out
                assert not any(one.lane == lane for one in node.out.values()), "a lane crosses twice"
                node.out[route] = Sending(lane, node.line, node.parked.pop(lane, deque()))
                self.say(node, pack(effect.asks(0)))
            case do.LeaveOut(route):
                node.out[route].is_leaving = True
            case do.StayOut(route):
                node.out[route].is_leaving = False
            case do.DropOut(route):
                self.end(node, route)
            case do.OpenIn(route):
                assert route not in node.into
                node.into[route] = effect
                self.say(node, pack(effect.agrees()))
                self.grants[other].append(route)
            case do.AdjustIn(route, verdict):
                node.into[route] = node.into[route]._replace(verdict=verdict)
            case do.DrainIn(route, sent):
                node.draining[route] = sent
            case do.CloseIn(route):
                del node.into[route]
                node.draining.pop(route, None)
            case do.Over(words):
                raise AssertionError(words)
            case do.BeginIn(route):
                node.into[route] = node.into[route]._replace(later=False)
            case do.PartOut(route):
                node.out[route].is_leaving = node.out[route].is_parting = True
            case do.AdjustOut() | do.Denial():
                pass

    def say(self, node: Node, data: bytes) -> None:
        message = read(data)
        if isinstance(message, Advertise | Allowed):
            self.seen[type(message).__name__] += 1
        if isinstance(message, Advertise) and message.is_published:
            peer = NAMES[1 - node.index]
            assert node.rights.may(peer, "subscribe", message.topic).allowed, "told of a topic that it may not have"
        self.controls[1 - node.index].append(data)

    def end(self, node: Node, route: int) -> None:
        sending = node.out.pop(route)
        assert node.control is not None
        self.act(node, node.control.left(route, sending.sent))

    # ---- what happens ----

    def connect(self) -> None:
        """A line, which both sides have from now on."""
        self.lines += 1
        for node in self.nodes:
            self.hang_up(node)
        for node in self.nodes:
            node.line = self.lines
            node.control = Control(NAMES[1 - node.index], node.rights, node.settings)
            self.act(node, node.control.see(node.topics, [*node.topics]))

    def part(self, node: Node) -> None:
        """A node ends, and is back: its peer sends nothing RELIABLE any more over the line that they have."""
        if node.control is not None:
            self.act(node, node.control.leave(10**9))
            self.run_to_rest()
            reliable = [
                one for one in self.nodes[1 - node.index].out.values() if one.lane.reliability is Reliability.RELIABLE
            ]
            assert not reliable, "it still sends to a node that has left"
            self.seen["parted"] += 1
            self.connect()

    def hang_up(self, node: Node) -> None:
        """Its line is over: what was on its way to the other one is lost, and what waits for a RELIABLE lane is not."""
        for sending in node.out.values():
            if sending.lane.reliability is Reliability.RELIABLE:
                node.parked.setdefault(sending.lane, deque()).extend(sending.queue)
        node.out.clear()
        for of in (node.into, node.counts, node.draining):
            of.clear()
        node.control, node.line = None, 0
        self.controls[0].clear()
        self.controls[1].clear()
        for index in (0, 1):
            self.carried[index].clear()
            self.grants[index].clear()

    def change(self, node: Node) -> None:
        """Programs come and go."""
        topic = self.random.choice(TOPICS)
        node.topics = {**node.topics, topic: self.local()}
        if self.random.random() < 0.2:
            del node.topics[topic]
        self.see(node, topic)

    def see(self, node: Node, topic: str) -> None:
        offered = lanes_of(topic, node.topics[topic].publishers) if topic in node.topics else {}
        node.parked = {of: left for of, left in node.parked.items() if of.topic != topic or of in offered}
        if node.control is not None:
            self.act(node, node.control.see(node.topics, {topic}))

    def local(self) -> LocalTopic:
        draw = self.random
        publishers = [self.publishing() for _ in range(draw.choice((0, 1, 1, 2)))]
        subscribers = [
            Subscribing(draw.choice(WISHES), draw.choice([*Reliability]), 8, draw.choice((0, 3)), 0, 0)
            for _ in range(draw.choice((0, 1, 1, 2)))
        ]
        return LocalTopic(tuple(publishers), tuple(subscribers))

    def publishing(self) -> Publishing:
        draw = self.random
        return Publishing(draw.choice(KINDS), draw.choice([*Reliability]), draw.randrange(8), 8, draw.choice((0, 2)), 0)

    def change_rules(self, node: Node) -> None:
        node.rights.swap(
            self.random.choice(
                (rules(("*",)), rules(("a",)), rules(("*",), ("*/secret",)), rules(("*",), priority=3), RuleTable())
            )
        )
        self.obey(node)

    def change_settings(self, node: Node) -> None:
        ways = ("", *TOPICS)
        node.settings = Settings(self.random.choice(ways), self.random.choice(ways))
        self.obey(node)

    def obey(self, node: Node) -> None:
        if node.control is not None:
            self.act(node, node.control.obey(node.settings))
            for one in node.into.values():
                assert node.rights.may(NAMES[1 - node.index], "publish", one.open.topic).allowed, (
                    "open against the rules"
                )
                assert node.settings.enters(one.open.topic)
                now = node.rights.may(NAMES[1 - node.index], "publish", one.open.topic)
                assert one.verdict.ceilings == now.ceilings, "other ceilings than the rules have now"

    def publish(self, node: Node, lane: Lane) -> Message:
        self.number += 1
        message = Message(self.number, lane)
        takers = [sending for sending in node.out.values() if sending.lane == lane]
        for sending in takers:
            sending.queue.append(message)
        if not takers and lane in node.parked:
            node.parked[lane].append(message)
        return message

    def publish_some(self, node: Node) -> None:
        for topic, local in node.topics.items():
            for lane in lanes_of(topic, local.publishers):
                self.publish(node, lane)

    # ---- what moves ----

    def move(self) -> bool:
        """One thing that can move does. False: nothing can."""
        moves = [(self.hear, node) for node in self.nodes if self.controls[node.index]]
        moves += [(self.grant, node) for node in self.nodes if self.grants[node.index]]
        moves += [(self.send, node) for node in self.nodes if self.sendable(node)]
        moves += [(self.arrive, node) for node in self.nodes if self.due(node)]
        moves += [(self.drain, node) for node in self.nodes if self.drainable(node)]
        moves += [(self.leave, node) for node in self.nodes if self.leavable(node)]
        if not moves:
            was_stuck, self.stuck = self.stuck, 0
            return bool(was_stuck)
        what, node = self.random.choice(moves)
        what(node)
        return True

    def hear(self, node: Node) -> None:
        data = self.controls[node.index].popleft()
        if node.control is not None:
            self.act(node, node.control.heard(data))

    def grant(self, node: Node) -> None:
        route = self.grants[node.index].popleft()
        if route in node.out:
            node.out[route].is_granted = True

    def sendable(self, node: Node) -> list[int]:
        return [number for number, sending in node.out.items() if sending.queue and sending.is_granted]

    def send(self, node: Node) -> None:
        number = self.random.choice(self.sendable(node))
        topic = node.out[number].lane.topic
        assert node.rights.may(NAMES[1 - node.index], "subscribe", topic).allowed, "sent against the rules"
        self.carried[1 - node.index].setdefault(number, deque()).append(node.out[number].queue.popleft())
        node.out[number].sent += 1

    def due(self, node: Node) -> list[int]:
        return [number for number, queue in self.carried[node.index].items() if queue and number != self.stuck]

    def arrive(self, node: Node) -> None:
        number = self.random.choice(self.due(node))
        message = self.carried[node.index][number].popleft()
        if number not in node.into:
            assert self.closed_before(node, number), "by a route that was not opened"
        else:
            asked = node.into[number]
            assert (asked.open.topic, asked.type.identity) == (message.lane.topic, message.lane.type)
            if asked.later:
                assert node.control is not None
                self.act(node, node.control.first(number))
                assert not node.into[number].later
            node.came.append(message)
            node.counts[number] += 1

    def drainable(self, node: Node) -> list[int]:
        return [number for number, sent in node.draining.items() if node.counts[number] >= sent]

    def drain(self, node: Node) -> None:
        assert node.control is not None
        self.act(node, node.control.drained(self.random.choice(self.drainable(node))))

    def closed_before(self, node: Node, number: int) -> bool:
        """Only a route that was opened by this side carries anything: it is one that has been closed again."""
        assert node.control is not None
        return number <= node.control.incoming.last

    def leavable(self, node: Node) -> list[int]:
        return [
            number
            for number, one in node.out.items()
            if one.is_leaving and (one.is_parting or not (one.queue and one.is_granted))
        ]

    def leave(self, node: Node) -> None:
        """All has left, or the lease is over."""
        number = self.random.choice(self.leavable(node))
        sending = node.out[number]
        topic = node.topics.get(sending.lane.topic)
        if topic is not None and sending.lane in lanes_of(sending.lane.topic, topic.publishers):
            node.parked[sending.lane] = sending.queue
        self.end(node, number)

    # ---- what must hold ----

    def run_to_rest(self) -> None:
        while self.move():
            pass

    def needed(self, sender: Node) -> set[Lane]:
        """Lanes that have to cross from this node now."""
        taker = self.nodes[1 - sender.index]
        found = set[Lane]()
        for topic, local in sender.topics.items():
            may_leave = sender.rights.may(NAMES[taker.index], "subscribe", topic).allowed
            may_come = taker.rights.may(NAMES[sender.index], "publish", topic).allowed
            if not (may_leave and may_come and sender.settings.leaves(topic) and taker.settings.enters(topic)):
                continue
            subscribers = taker.topics.get(topic, LocalTopic((), ())).subscribers
            for lane, offer in lanes_of(topic, local.publishers).items():
                if any(one.takes(offer.type) for one in subscribers):
                    found.add(lane)
        return found

    def check(self) -> None:
        """When nothing moves: just the lanes that are needed cross, and each of their messages comes once, in order."""
        self.run_to_rest()
        for sender in self.nodes:
            taker, needed = self.nodes[1 - sender.index], self.needed(sender)
            assert {one.lane for one in sender.out.values()} == needed
            assert len(sender.out) == len(taker.into) == len(needed)
            before = len(taker.came)
            sent = [self.publish(sender, lane) for lane in sorted(needed) for _ in range(2)]
            self.run_to_rest()
            assert Counter(taker.came[before:]) == Counter(sent)
        for node in self.nodes:
            numbers = Counter(message.number for message in node.came)
            assert not [number for number, times in numbers.items() if times > 1], "a message came twice"
            for lane in {message.lane for message in node.came}:
                came = [message.number for message in node.came if message.lane == lane]
                assert came == sorted(came), "out of order"
