"""A seeded world of replicas: network, disks, store, clocks and processes do what they may, and promises are judged.

    python -m tests.replica.world 17        the world of a seed, with all that happened in it
    python -m tests.replica.world 0 300     a table of 300 worlds: which rule was applied under which fault

Messages are lost, late, doubled, or go one way only; disks lose what was not synced, are full, fail or rot; the store
is late, away, or its answers are lost, and a change may be applied long after its outcome was called unknown, until a
read of the same process settles it; clocks run at rates of their own; processes are killed, stopped and started;
members come and go. At END_S all heals.
"""

from __future__ import annotations

import heapq
import random
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Any, Final

from rtmw.replica import words as w
from rtmw.replica.control.store import Outcome
from rtmw.replica.protocol import Replica
from rtmw.replica.words import Control, Kind, Reply, Role, Settings
from tests.replica.disk import Disk, decode
from tests.replica.history import check

END_S: Final = 9.0
"""What fails is whole again."""
LAST_S: Final = 40.0
RECENT_S: Final = 3.0
"""A rule counts as applied under the faults of so many seconds before it."""
STORE_TIMEOUT_S: Final = 1.0
NAMES: Final = "abcdefgh"


TOLD: Final = {
    Reply.WRITTEN: "written", Reply.CACHED: "cached", Reply.PENDING: "pending", Reply.ABSENT: "absent",
    Reply.TAKEN: "absent", Reply.UNKNOWABLE: "unknown",
}  # fmt: skip
"""Answers in the words of a history."""
RULES: Final = range(1, 14)
FAULTS: Final = frozenset((
    "message lost", "message late", "message twice", "cut", "cut one way", "disk torn", "disk full", "disk fails",
    "disk slow", "tail lost", "rot", "store late", "store answer lost", "store away", "store tight", "clock drifts",
    "killed", "all killed", "stopped", "members changed", "moved",
))  # fmt: skip


class Broken(AssertionError):
    """A promise was not kept."""


@dataclass
class Node:
    name: str
    disk: Disk
    rate: float
    replica: Replica | None = None
    life: int = 0
    paused: float = 0.0
    """Stopped until then."""
    syncing: bool = False
    slow: float = 0.0
    """A crawling disk: so much longer a sync."""
    fails: bool = False
    role: Role = Role.SLAVE
    due: float = 0.0
    unsettled: int = 0
    """The version that a change of this life compares whose outcome was called unknown; 0: there is none."""


@dataclass
class Op:
    """An append of a client, with all its tries."""

    client: str
    id: bytes
    data: bytes
    since: int
    number: int = 0
    """Of the try that is waited for."""
    resolving: bool = False
    pending: bool = False
    outcome: str = ""
    asked: float = 0.0


class World:
    """`run` plays it to its end, or raises Broken."""

    def __init__(self, seed: int, say: Callable[[str], None] | None = None) -> None:
        self.random, self.say = random.Random(seed), say
        chance = self.random
        self.now, self.serial = 0.0, count()
        self.queue: list[tuple[float, int, Callable[[], None]]] = []
        size = chance.choice([1, 2, 2, 3, 3, 3, 3, 3, 3, 5])
        self.window = chance.choice([8, 1000, 1000])
        self.loss = chance.choice([0.0, 0.0, 0.02, 0.2])
        self.nodes = {name: self._node(name) for name in NAMES[: size + 1]}  # the last is a spare
        least = min(chance.choice([1, 2, 2, 2]), size)
        settings = Settings(min_insync=least, slice=chance.choice([60, 200]), cache=chance.choice([60, 150, 600]))
        first = frozenset(NAMES[:size])
        self.control = Control(0, "", first, dict.fromkeys(first, 1), settings=settings)
        self.version, self.slices = 1, dict[tuple[int, int], bytes]()
        self.gone = ""
        """A node that does not come back."""
        self.away = 0.0
        """The store is away until then."""
        self.tight = 0.0
        """The store should get no more slices until then."""
        self.cuts = dict[tuple[str, str], float]()
        self.ghost, self.ghost_base = bytearray(), 0
        """All that any master ever called committed."""
        self.faults, self.table = Counter[str](), Counter[tuple[int, str]]()
        self.recent = dict[str, float]()
        self.asks = dict[int, Callable[[w.Answer], None]]()
        self.tickets, self.ops, self.history = count(1), list[Op](), list[dict[str, Any]]()
        self.known = dict[str, int]()
        """Of each client, the largest commit point that it was told."""
        self.hint = ""
        self.answers = Counter[str]()

    def _node(self, name: str) -> Node:
        return Node(name, Disk(self.window), self.random.choice([1.0, 1.0, 0.9, 1.15]))

    # ---- time ----

    def after(self, seconds: float, what: Callable[[], None]) -> None:
        heapq.heappush(self.queue, (self.now + seconds, next(self.serial), what))

    def tell(self, words: str) -> None:
        if self.say is not None:
            self.say(f"{self.now:8.3f} {words}")

    def fault(self, kind: str, words: str = "") -> None:
        self.faults[kind] += 1
        self.recent[kind] = self.now
        self.tell(f"FAULT {kind} {words}")

    def run(self) -> World:
        chance = self.random
        for node in self.nodes.values():
            if node.rate != 1.0:
                self.fault("clock drifts", node.name)
            self.start(node)
        for number in range(chance.choice([1, 2, 3])):
            client = f"c{number}"
            self.after(chance.uniform(0, 2), lambda client=client: self.greet(client))  # type: ignore[misc]
        for _ in range(chance.choice([0, 1, 3, 6, 10])):
            self.after(chance.uniform(1.2, END_S), self.harm)
        for _ in range(chance.choice([0, 0, 1, 2])):
            self.after(chance.uniform(2, END_S), self.operate)
        self.after(3.0, self.trim)
        self.after(1.0, self.read_fresh)
        self.after(END_S, self.heal)
        while self.queue and self.now < LAST_S:
            self.now, _, what = heapq.heappop(self.queue)
            what()
            if self.now > END_S + 1 and self.is_over():
                break
        self.judge_end()
        return self

    def is_over(self) -> bool:
        if any(not op.outcome for op in self.ops):
            return False
        control = self.control
        members = control.members - {self.gone}
        at_rest = frozenset(control.in_sync) == members and not control.slices
        masters = [node for node in self.nodes.values() if node.role is Role.MASTER and node.replica]
        if not at_rest or len(masters) != 1:
            return False
        end = masters[0].disk.end
        return all(self.nodes[name].disk.durable == end for name in members) and len(self.ghost) == end

    # ---- processes ----

    def start(self, node: Node) -> None:
        if node.replica is not None or node.name == self.gone:
            return
        node.life += 1
        node.paused, node.due, node.syncing, node.role, node.fails = 0.0, 0.0, False, Role.SLAVE, False
        node.unsettled = 0
        others = self.control.members
        node.replica = Replica(node.name, node.disk, node.disk.marks, node.life, others)
        self.tell(f"{node.name} starts, {node.disk.base}..{node.disk.end}, {node.disk.marks}")
        lost, node.disk.is_lost = node.disk.is_lost, False
        self.carry_out(node, node.replica.begin(self.clock(node), lost))
        self.wait_due(node)

    def kill(self, node: Node) -> None:
        if node.replica is None:
            return
        node.replica = None
        node.role = Role.SLAVE
        if node.disk.crash(self.random):
            self.fault("disk torn", node.name)

    def clock(self, node: Node) -> float:
        return 1000.0 + self.now * node.rate

    def alive(self, node: Node, life: int, what: Callable[[], None]) -> None:
        """Carries out `what` in this life of the node, behind its pause."""
        if node.replica is None or node.life != life:
            return
        if node.paused > self.now:
            self.after(node.paused - self.now + 0.0001, lambda: self.alive(node, life, what))
        else:
            what()

    def later(self, node: Node, seconds: float, what: Callable[[], None]) -> None:
        life = node.life
        self.after(seconds, lambda: self.alive(node, life, what))

    def step(self, node: Node, event: w.Event) -> None:
        replica = node.replica
        if replica is None:
            return
        before = node.role
        effects = replica.step(event, self.clock(node))
        node.role = replica.role
        if node.role is not before:
            self.tell(f"{node.name} is {node.role.value}, epoch {replica.epoch}")
            if node.role is Role.MASTER:
                self.hint = node.name
                self.judge_master(node)
        self.carry_out(node, effects)
        if node.replica is replica:
            self.wait_due(node)
            if node.disk.durable < node.disk.end and not node.syncing:
                node.syncing = True
                end = node.disk.end
                late = self.random.choice([0.0005, 0.002, 0.02]) + node.slow
                self.later(node, late, lambda: self.synced(node, end))

    def wait_due(self, node: Node) -> None:
        assert node.replica is not None
        due = max(self.now, (node.replica.due - 1000.0) / node.rate) + 1e-6
        if node.due > self.now and node.due <= due:
            return
        node.due = due
        self.later(node, due - self.now, lambda: self.tick(node))

    def tick(self, node: Node) -> None:
        node.due = 0.0
        if node.replica is not None:
            self.step(node, w.Tick())

    def synced(self, node: Node, end: int) -> None:
        node.syncing = False
        if node.fails:
            node.fails = False
            self.fault("disk fails", node.name)
            self.step(node, w.Failed("sync: Input/output error"))
            self.later(node, 0.5, lambda: self.die(node))
            return
        if end <= node.disk.end:
            node.disk.durable = max(node.disk.durable, end)
        self.step(node, w.Synced())

    def die(self, node: Node, down: float = 0.5) -> None:
        """As the node's parent does, it is started again."""
        self.kill(node)
        self.after(down, lambda: self.start(node))

    # ---- effects ----

    def carry_out(self, node: Node, effects: list[w.Effect]) -> None:
        for effect in effects:
            _CARRIED[type(effect)](self, node, effect)

    def _send(self, node: Node, effect: w.Send) -> None:
        self.wire(node.name, effect.peer, effect.message)

    def _ship(self, node: Node, effect: w.Ship) -> None:
        assert node.replica is not None
        at = effect.start
        while at < effect.end:
            end = node.disk.whole(at, min(self.random.choice([40, 400]), effect.end - at))
            if end == at:
                end = node.disk.whole(at, effect.end - at)
            part = w.Batches(effect.epoch, at, node.disk.part(at, end), node.replica.commit)
            self.wire(node.name, effect.peer, part)
            at = end

    def _keep(self, node: Node, effect: w.Keep) -> None:
        def kept() -> None:
            node.disk.marks = effect.marks
            self.step(node, w.Done(effect))

        self.later(node, self.random.choice([0.0005, 0.01]), kept)

    def _truncate(self, node: Node, effect: w.Truncate) -> None:
        def truncated() -> None:
            node.disk.truncate(effect.end)
            self.step(node, w.Done(effect))

        self.tell(f"{node.name} truncates {node.disk.end} to {effect.end}")
        self.later(node, self.random.choice([0.002, 0.1]), truncated)

    def _refetch(self, node: Node, effect: w.Refetch) -> None:
        def refetched() -> None:
            other = self.nodes[effect.peer]
            is_done = other.replica is not None and other.role is Role.MASTER
            if is_done:
                assert other.replica is not None
                node.disk.copy(other.disk, other.disk.whole(other.disk.base, other.replica.commit - other.disk.base))
            self.step(node, w.Refetched(is_done))

        node.disk.copy(Disk(self.window), 0)
        self.later(node, self.random.choice([0.05, 0.5]), refetched)

    def _commit(self, node: Node, effect: w.Commit) -> None:
        self.judge_commit(node, effect.position)

    def _trim(self, node: Node, effect: w.Trim) -> None:
        node.disk.trim(effect.position)

    def _note(self, node: Node, effect: w.Note) -> None:
        self.tell(f"{node.name} rule {effect.rule}: {effect.words}")
        self.table[effect.rule, ""] += 1
        for kind, at in self.recent.items():
            if self.now - at <= RECENT_S:
                self.table[effect.rule, kind] += 1

    def _answer(self, node: Node, effect: w.Answer) -> None:
        self.answers[effect.reply.value] += 1
        told = self.asks.pop(effect.ticket, None)
        if told is not None:
            self.carry(node.name, "client", lambda: told(effect))

    # ---- network ----

    def wire(self, source: str, to: str, message: w.Message) -> None:
        def arrive() -> None:
            node = self.nodes[to]
            self.alive(node, node.life, lambda: self.step(node, w.Received(source, message)))

        self.carry(source, to, arrive)

    def carry(self, source: str, to: str, what: Callable[[], None]) -> None:
        """Lost, late or twice."""
        chance = self.random
        if self.cuts.get((source, to), 0.0) > self.now:
            return
        if self.loss and chance.random() < self.loss:
            self.faults["message lost"] += 1
            self.recent["message lost"] = self.now
            return
        late = chance.choice([0.0003, 0.001, 0.005])
        if self.loss and chance.random() < self.loss:
            late = chance.choice([0.1, 0.8, 4.0])
            self.faults["message late"] += 1
            self.recent["message late"] = self.now
        self.after(late, what)
        if self.loss and chance.random() < self.loss / 2:
            self.faults["message twice"] += 1
            self.recent["message twice"] = self.now
            self.after(late + chance.choice([0.0, 0.3, 3.0, 9.0]), what)

    # ---- the store ----

    def _store_late(self) -> float:
        chance = self.random
        if self.away > self.now:
            return 99.0
        if self.loss and chance.random() < self.loss:
            self.fault("store late")
            return chance.choice([0.3, 0.9, 3.0])
        return chance.choice([0.002, 0.01])

    def _read_store(self, node: Node, effect: w.ReadStore) -> None:
        def read() -> None:
            if node.life == life and node.unsettled == self.version:
                self.version += 1  # so the change is refused from now on, as the store promises
            slices = tuple(self.slices[one] for one in self.control.slices)
            answer = w.Read(effect.number, self.version, self.control, slices, self.tight > self.now)
            self.after(0.001, lambda: self.alive(node, life, lambda: self.step(node, answer)))

        life, late = node.life, self._store_late()
        if late < STORE_TIMEOUT_S:
            self.after(late, read)
        self.later(node, STORE_TIMEOUT_S, lambda: self.step(node, w.Read(effect.number, 0, None)))

    def _change_store(self, node: Node, effect: w.ChangeStore) -> None:
        put = node.disk.part(*effect.put) if effect.put else b""
        life, is_answered = node.life, list[bool]()

        def change() -> None:
            outcome = self.apply(effect, put)
            self.tell(f"store: {node.name} {outcome.name} {self.version} {_brief(self.control)}")
            if self.loss and self.random.random() < self.loss:
                self.fault("store answer lost", node.name)
                return
            told = w.Changed(effect.number, outcome, self.version, self.tight > self.now)
            self.after(0.001, lambda: self.alive(node, life, lambda: answer(told)))

        def answer(told: w.Changed) -> None:
            is_answered.append(True)
            self.step(node, told)

        late = self._store_late()
        if late < 90:
            self.after(late, change)

        def give_up() -> None:
            if not is_answered:
                node.unsettled = max(node.unsettled, effect.version)
            self.step(node, w.Changed(effect.number, Outcome.UNKNOWN, 0))

        self.later(node, STORE_TIMEOUT_S, give_up)

    def apply(self, effect: w.ChangeStore, put: bytes) -> Outcome:
        if effect.version != self.version:
            return Outcome.REFUSED
        self.version += 1
        self.control = effect.control
        if effect.put is not None:
            self.slices[effect.put] = put
        self.slices = {one: self.slices[one] for one in effect.control.slices}
        used = sum(one.end - one.start for one in effect.control.slices)
        if used > effect.control.settings.cache:
            raise Broken(f"{used} bytes in a cache of {effect.control.settings.cache}")
        if len(effect.control.in_sync) < effect.control.settings.min_insync:
            raise Broken("I is below min_insync")
        return Outcome.APPLIED

    # ---- harm ----

    def harm(self) -> None:
        node = self.random.choice([*self.nodes.values()])
        master = next((one for one in self.nodes.values() if one.role is Role.MASTER), node)
        node = self.random.choice([node, master])
        self.random.choice(_HARM)(self, node)

    def killed(self, node: Node) -> None:
        self.fault("killed", node.name)
        self.die(node, self.random.choice([0.05, 0.5, 4.0]))

    def all_killed(self, _: Node) -> None:
        self.fault("all killed")
        for node in self.nodes.values():
            self.die(node, self.random.choice([0.05, 0.5, 4.0]))

    def stopped(self, node: Node) -> None:
        self.fault("stopped", node.name)
        node.paused = self.now + self.random.choice([0.3, 1.5, 6.0])

    def cut(self, node: Node) -> None:
        other, until = self.random.choice([*self.nodes]), self.now + self.random.choice([0.5, 2.0, 8.0])
        self.cuts[node.name, other] = until
        if self.random.random() < 0.5:
            self.fault("cut one way", f"{node.name} {other}")
        else:
            self.fault("cut", f"{node.name} {other}")
            self.cuts[other, node.name] = until

    def isolate(self, node: Node) -> None:
        until = self.now + self.random.choice([0.5, 2.0, 8.0])
        self.fault("cut", f"{node.name} from all")
        for other in self.nodes:
            self.cuts[other, node.name] = self.cuts[node.name, other] = until

    def isolate_with_store(self, node: Node) -> None:
        """Only the slaves are out of reach: the cache is what is left."""
        self.isolate(node)
        for pair in ((node.name, "client"), ("client", node.name)):
            self.cuts.pop(pair, None)

    def full(self, node: Node) -> None:
        self.fault("disk full", node.name)
        node.disk.is_full = True
        self.after(self.random.choice([1.0, 5.0]), lambda: self.room(node))

    def room(self, node: Node) -> None:
        node.disk.is_full = False
        self.later(node, 0.0, lambda: self.step(node, w.Room()))

    def fail(self, node: Node) -> None:
        node.fails = True

    def crawl(self, node: Node) -> None:
        self.fault("disk slow", node.name)
        node.slow = self.random.choice([0.3, 1.0, 3.0])
        self.after(self.random.choice([2.0, 8.0]), lambda: setattr(node, "slow", 0.0))
        if self.random.random() < 0.5:  # with much that is not synced
            self.after(self.random.choice([0.2, 0.6, 1.5]), lambda: self.killed(node))

    def may_lose(self, node: Node) -> bool:
        """Durable data may go where all other members of I have theirs, and none of these lost some. With a min_insync
        of 1 the node may just be leaving the set to itself."""
        in_sync = self.control.in_sync if self.control.settings.min_insync > 1 else {}
        whole = [name for name, one in in_sync.items() if self.nodes[name].disk.marks.incarnation == one
                 and not self.nodes[name].disk.is_lost]  # fmt: skip
        return len(in_sync) == len(whole) > 1 and node.name in in_sync

    def lose_tail(self, node: Node) -> None:
        if self.may_lose(node):
            self.kill(node)
            self.fault("tail lost", node.name)
            node.disk.lose_tail(self.random)
            self.after(self.random.choice([0.05, 2.0]), lambda: self.start(node))

    def rot(self, node: Node) -> None:
        if self.may_lose(node) and node.replica is not None and node.paused <= self.now:
            self.fault("rot", node.name)
            node.disk.is_lost = True
            self.step(node, w.Rotten("a record is not as it was"))

    def store_away(self, _: Node) -> None:
        self.fault("store away")
        self.away = self.now + self.random.choice([0.5, 3.0, 8.0])

    def store_tight(self, node: Node) -> None:
        self.fault("store tight")
        self.tight = self.now + 8.0
        self.isolate(node)

    def slow_and_killed_with_master(self, node: Node) -> None:
        """What the slave has not synced is gone, and it may be the first that stands."""
        self.fault("disk slow", node.name)
        node.slow = 1.0
        self.after(3.0, lambda: setattr(node, "slow", 0.0))
        self.after(0.5, lambda: self.die(node, 0.05))
        self.after(0.5, self.kill_master)

    def kill_master(self) -> None:
        for node in self.nodes.values():
            if node.role is Role.MASTER:
                self.fault("killed", node.name)
                self.die(node, 4.0)

    def back_among_others_that_start(self, node: Node) -> None:
        """A master that was deposed unheard is the first that the others hear when they start."""
        self.isolate(node)
        until = self.now + 2.5
        for other in self.nodes.values():
            self.cuts[other.name, node.name] = self.cuts[node.name, other.name] = until
            if other is not node:
                self.after(2.45, lambda other=other: self.die(other, 0.1))  # type: ignore[misc]

    def back_and_master_killed(self, node: Node) -> None:
        """A node that left the set comes back, slowly, and the master dies."""
        self.fault("killed", node.name)
        self.die(node, 3.0)
        node.slow = 0.4
        self.after(6.0, lambda: setattr(node, "slow", 0.0))
        self.after(3.0 + self.random.uniform(0.1, 1.0), self.kill_master)

    def isolated_master_and_store(self, node: Node) -> None:
        self.isolate(node)
        self.store_away(node)

    # ---- operators ----

    def operate(self) -> None:
        node = next((one for one in self.nodes.values() if one.role is Role.MASTER and one.paused <= self.now), None)
        if node is None:
            return
        members, others = self.control.members, frozenset(self.nodes) - self.control.members
        add, remove = min(others, default=""), self.random.choice(sorted(members))
        what = self.random.choice(["move", "add", "remove", "replace"])
        self.faults["moved" if what == "move" else "members changed"] += 1
        self.recent["moved" if what == "move" else "members changed"] = self.now
        self.tell(f"OPERATOR {what} +{add} -{remove}")
        ticket = next(self.tickets)
        self.asks[ticket] = lambda answer: self.tell(f"operator is told {answer}")
        if what == "move":
            self.step(node, w.Move(ticket, self.random.choice(["", remove])))
        else:
            self.step(node, w.Members(ticket, "" if what == "remove" else add, "" if what == "add" else remove))

    def trim(self) -> None:
        for node in self.nodes.values():
            if node.role is Role.MASTER and node.paused <= self.now and self.random.random() < 0.5:
                self.step(node, w.TrimTo(node.disk.end - self.random.choice([0, 200, 1000])))
                self.faults["trimmed"] += 1
        self.after(3.0, self.trim)

    def heal(self) -> None:
        self.tell("HEAL")
        self.loss, self.away, self.tight, self.cuts = 0.0, 0.0, 0.0, {}
        is_known = not self.faults["members changed"]  # else a change may be on its way that leaves only the one gone
        able = [node for node in self.nodes.values() if is_known and self.may_lose(node)]
        if able and len(self.control.members) > self.control.settings.min_insync and self.random.random() < 0.2:
            self.gone = self.random.choice(able).name
            self.kill(self.nodes[self.gone])
            self.tell(f"{self.gone} is gone for good")
        for node in self.nodes.values():
            node.paused, node.slow, node.fails = 0.0, 0.0, False
            self.start(node)
            self.room(node)

    # ---- clients ----

    def ask(self, to: str, event: Callable[[int], w.Event], told: Callable[[w.Answer], None]) -> None:
        ticket = next(self.tickets)
        self.asks[ticket] = told

        def arrive() -> None:
            node = self.nodes[to]
            self.alive(node, node.life, lambda: self.step(node, event(ticket)))

        self.carry("client", to, arrive)

    def whom(self) -> str:
        if self.hint and self.random.random() < 0.8:
            return self.hint
        return self.random.choice([*self.nodes])

    def greet(self, client: str) -> None:
        """A client learns a commit point before it sends an id: `since`."""

        def told(answer: w.Answer) -> None:
            if client not in self.known:
                if answer.reply is Reply.DONE:
                    self.known[client] = answer.commit
                    self.begin_op(client, 0)
                else:
                    self.after(0.2, lambda: self.greet(client))

        self.ask(self.whom(), w.Fresh, told)
        self.after(3.0, lambda: None if client in self.known else self.greet(client))

    def begin_op(self, client: str, number: int) -> None:
        if self.now > END_S - 1:
            return
        id = f"{client}.{number}".encode()
        op = Op(client, id, id + b"." * self.random.choice([0, 10, 30, 100]), self.known[client], asked=self.now)
        self.ops.append(op)
        self.try_op(op)

    def try_op(self, op: Op) -> None:
        """The same id and the same `since` at every try. Who was told PENDING, or waited for long, may resolve."""
        if op.outcome:
            return
        op.number += 1
        number = op.number
        if not op.resolving and (op.pending or number > 2) and self.random.random() < 0.5:
            op.resolving = True  # from here on the program wants to know, and will not send it again
        if op.resolving:
            self.ask(self.whom(), lambda ticket: w.Resolve(ticket, op.id, op.since), lambda one: self.told(op, one))
        else:
            self.ask(
                self.whom(), lambda ticket: w.Append(ticket, op.id, op.since, op.data), lambda one: self.told(op, one)
            )
        self.after(1.6, lambda: self.try_elsewhere(op) if op.number == number else None)

    def try_elsewhere(self, op: Op) -> None:
        self.hint = ""
        self.try_op(op)

    def told(self, op: Op, answer: w.Answer) -> None:
        self.known[op.client] = max(self.known[op.client], answer.commit)
        reply = answer.reply
        if reply in TOLD:
            self.history.append({
                "op": "append", "client": op.client, "id": op.id.decode(), "asked": op.asked, "answered": self.now,
                "answer": TOLD[reply], "position": answer.position,
            })  # fmt: skip
        if reply in (Reply.WRITTEN, Reply.CACHED):
            self.end_op(op, "written")
        elif reply in (Reply.ABSENT, Reply.TAKEN):
            self.end_op(op, "absent")
        elif reply is Reply.UNKNOWABLE:
            self.end_op(op, "unknowable")
        elif reply is Reply.PENDING:
            op.pending = True
            self.recent["pending"] = self.now
        elif not op.outcome:
            if answer.words in self.nodes:
                self.hint = answer.words
            number = op.number
            self.after(0.1, lambda: self.try_op(op) if op.number == number else None)

    def end_op(self, op: Op, outcome: str) -> None:
        if op.outcome:
            return
        self.tell(f"client {op.client}: {op.id!r} {outcome}")
        op.outcome = outcome
        number = int(op.id.rsplit(b".", 1)[1]) + 1
        self.after(self.random.choice([0.01, 0.1, 0.6]), lambda: self.begin_op(op.client, number))

    def read_fresh(self) -> None:
        least = len(self.ghost)

        def told(answer: w.Answer) -> None:
            if answer.reply is Reply.DONE and answer.commit < least:
                raise Broken(f"a fresh reader is told {answer.commit}, and {least} was committed when it asked")

        self.ask(self.random.choice([*self.nodes]), w.Fresh, told)
        if self.now < END_S:
            self.after(self.random.choice([0.1, 0.5]), self.read_fresh)

    # ---- promises ----

    def judge_commit(self, node: Node, position: int) -> None:
        """What readers of this node see is what was committed, and nothing else ever was."""
        disk = node.disk
        self.tell(f"{node.name} shows {position}")
        if position > disk.durable:
            raise Broken(f"{node.name} shows {position}, and has synced {disk.durable}")
        known = min(position, len(self.ghost))
        if disk.base < known and disk.part(disk.base, known) != bytes(self.ghost[disk.base : known]):
            raise Broken(f"{node.name} shows other records than were committed below {known}")
        if position <= len(self.ghost):
            return
        if node.role is not Role.MASTER:
            raise Broken(f"{node.name} is {node.role.value} and shows {position}; {len(self.ghost)} is committed")
        if disk.base > len(self.ghost):
            raise Broken(f"{node.name} has trimmed what was not committed")
        self.ghost += disk.part(len(self.ghost), position)
        assert node.replica is not None
        for other in self.nodes.values():
            if other.replica is not None and other.role is Role.MASTER and other.replica.epoch > node.replica.epoch:
                self.judge_master(other)

    def judge_master(self, node: Node) -> None:
        """A master of an old epoch may lack what was committed since: it commits nothing."""
        disk, length = node.disk, len(self.ghost)
        assert node.replica is not None
        if node.replica.epoch < self.control.epoch:
            return
        if disk.end < length or disk.base > length or disk.part(disk.base, length) != bytes(self.ghost[disk.base :]):
            raise Broken(f"{node.name} is master, and has lost what was committed")

    def judge_end(self) -> None:
        if not self.is_over():
            open_ops = [op for op in self.ops if not op.outcome]
            raise Broken(f"nothing goes on any more: {open_ops[:3]}, {self.control}")
        records = [(one.start, one.id.decode()) for one in decode(0, bytes(self.ghost)) if one.kind is Kind.DATA]
        read = {"op": "read", "client": "last", "asked": self.now, "answered": self.now, "is_final": True}
        found = check([*self.history, {**read, "from": 0, "to": len(self.ghost), "records": records}])
        if found:
            raise Broken(f"{found[0].kind}: {found[0].words}")


_CARRIED: Final = w.methods(World, "_", w.Effect)
_HARM: Final = (
    World.killed, World.killed, World.all_killed, World.stopped, World.stopped, World.cut, World.cut, World.isolate,
    World.isolate_with_store, World.full, World.fail, World.crawl, World.crawl, World.lose_tail, World.rot,
    World.slow_and_killed_with_master, World.back_among_others_that_start, World.back_and_master_killed,
    World.store_away, World.store_tight, World.isolated_master_and_store,
)  # fmt: skip


def _brief(control: Control) -> str:
    slices = [tuple(one) for one in control.slices]
    sets = f"I {sorted(control.in_sync.items())} P {sorted(control.pending)} of {sorted(control.members)}"
    return f"epoch {control.epoch} of {control.master or 'nobody'}, {sets}, {control.checkpoint} {slices}"


def show_table(worlds: range) -> None:
    """How often each rule was applied within RECENT_S of each fault."""
    table = Counter[tuple[int, str]]()
    for seed in worlds:
        table += World(seed).run().table
    print(" " * 18, *(f"{rule:6}" for rule in RULES))
    for kind in sorted(FAULTS):
        print(f"{kind:18}", *(f"{table[rule, kind]:6}" for rule in RULES))


def main() -> None:
    if len(sys.argv) == 3:
        show_table(range(int(sys.argv[1]), int(sys.argv[2])))
        return
    world = World(int(sys.argv[1]), print)
    world.run()
    print(dict(world.faults), dict(world.answers))


if __name__ == "__main__":
    main()
