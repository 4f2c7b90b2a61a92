"""Transactions beside a dictionary: the same is done to a core on a log, and to plain dictionaries that are copied.

The dictionaries know nothing of logs: a savepoint is a copy of lists, and a rollback puts the copy back. For each
batch of the log, the world keeps what a crash behind it has to leave; `check_crashes` cuts the power there, in the
undo that follows, and in the undo of the restart after that.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from typing import Any

from rtmw.transfer.events import (
    AbortTransaction,
    BeginTransaction,
    CommitTransaction,
    DestroySavepoint,
    ReceiverJoined,
    RollBack,
    SendTransfers,
    SetSavepoint,
)
from rtmw.transfer.limits import Limits
from rtmw.transfer.queues import Item
from rtmw.transfer.records import TransferState
from rtmw.transfer.recovery import pack_state, redo
from rtmw.transfer.state import State
from tests.transfer.memory import ME, Core, MemoryLog, header, recovered
from tests.transfer.steps import first_of, settle

DELIVERIES = 2
SERVICES = ("ingest", "archive")


class Wrong(AssertionError):
    """The core and the dictionaries differ."""


@dataclass(frozen=True)
class Parcel:
    """A transfer in the dictionaries."""

    service: str
    priority: int
    deliveries: int = 0
    state: str = "in"
    """in, out (taken without a transaction), dead."""
    holder: int = 0
    """The open transaction that has taken it."""


@dataclass
class Work:
    """What an open transaction has done."""

    sends: dict[bytes, Parcel] = field(default_factory=dict[bytes, Parcel])
    takes: list[bytes] = field(default_factory=list[bytes])
    saves: list[tuple[str, dict[bytes, Parcel], list[bytes]]] = field(
        default_factory=list[tuple[str, dict[bytes, Parcel], list[bytes]]]
    )


View = dict[bytes, tuple[str, int, int, str]]
"""Service, priority, deliveries and state of what is not held in an open transaction, by body."""


class World:
    def __init__(self) -> None:
        self.core = Core(limits=Limits(deliveries=DELIVERIES, transaction_records=10_000))
        self._join()
        self.parcels: dict[bytes, Parcel] = {}
        self.works: dict[int, Work] = {}
        self.sent = 0
        self.expected: list[View] = []
        """After a crash behind each batch."""
        self._expect_view()

    def _join(self) -> None:
        for service in SERVICES:
            self.core.step(ReceiverJoined(service, ME))

    # ---- what is done to both ----

    def begin(self) -> int:
        txn = self.core.step(BeginTransaction())
        assert isinstance(txn, int)
        self.works[txn] = Work()
        return txn

    def send(self, txn: int, service: str, priority: int) -> None:
        self.sent += 1
        body = f"{self.sent:06}".encode()
        self.core.step(SendTransfers(header(body, service, priority), (body,), txn=txn))
        place = self.works[txn].sends if txn else self.parcels
        place[body] = Parcel(service, priority)
        self._expect_view()

    def take(self, txn: int, service: str) -> None:
        there = [(-p.priority, body) for body, p in self.parcels.items() if self._is_free(p, service)]
        wanted = min(there)[1] if there else None
        found: Any = first_of(self.core, service, ME, txn)
        if (found.record.body if found is not None else None) != wanted:
            raise Wrong(f"taken from {service}: {found}, and not {wanted!r}")
        if wanted is not None:
            parcel = self.parcels[wanted]
            state = parcel.state if txn else "out"
            self.parcels[wanted] = replace(parcel, deliveries=parcel.deliveries + 1, holder=txn, state=state)
            if txn:
                self.works[txn].takes.append(wanted)
        self._expect_view()

    @staticmethod
    def _is_free(parcel: Parcel, service: str) -> bool:
        return parcel.service == service and parcel.state == "in" and not parcel.holder

    def settle(self, body: bytes, consumed: bool) -> None:
        """Of a parcel that is out."""
        state = TransferState.CONSUMED if consumed else TransferState.ACCEPTED
        settle(self.core, self._number(body), state, by=ME)
        parcel = self.parcels.pop(body)
        if not consumed:
            dead = parcel.deliveries >= DELIVERIES
            self.parcels[body] = replace(parcel, state="dead" if dead else "in")
        self._expect_view()

    def _number(self, body: bytes) -> int:
        (found,) = (lsn for lsn, item in self.core.state.items.items() if item.record.body == body)
        return found

    def savepoint(self, txn: int, name: str) -> None:
        self.core.step(SetSavepoint(txn, name))
        work = self.works[txn]
        work.saves.append((name, dict(work.sends), list(work.takes)))
        self._expect_view()

    def rollback(self, txn: int, name: str) -> None:
        work = self.works[txn]
        at = self._newest(work, name)
        if at is None:
            self._refused(RollBack(txn, name))
            return
        self.core.step(RollBack(txn, name))
        self._put_back(work.takes[len(work.saves[at][2]) :])
        work.sends, work.takes = dict(work.saves[at][1]), list(work.saves[at][2])
        del work.saves[at + 1 :]
        self._expect_view()

    def release(self, txn: int, name: str) -> None:
        work = self.works[txn]
        at = self._newest(work, name)
        if at is None:
            self._refused(DestroySavepoint(txn, name))
            return
        self.core.step(DestroySavepoint(txn, name))
        del work.saves[at:]
        self._expect_view()

    @staticmethod
    def _newest(work: Work, name: str) -> int | None:
        return max((at for at, save in enumerate(work.saves) if save[0] == name), default=None)

    def _refused(self, event: RollBack | DestroySavepoint) -> None:
        try:
            self.core.step(event)
        except ValueError:
            return
        raise Wrong(f"{event} was not refused")

    def _put_back(self, bodies: list[bytes]) -> None:
        for body in bodies:
            parcel = self.parcels[body]
            dead = parcel.deliveries >= DELIVERIES
            self.parcels[body] = replace(parcel, holder=0, state="dead" if dead else "in")

    def commit(self, txn: int) -> None:
        self.core.step(CommitTransaction(txn))
        work = self.works.pop(txn)
        for body in work.takes:
            del self.parcels[body]
        self.parcels.update(work.sends)
        self._expect_view()

    def abort(self, txn: int) -> None:
        self.core.step(AbortTransaction(txn))
        self._put_back(self.works.pop(txn).takes)
        self._expect_view()

    def checkpoint(self) -> None:
        self.core.log.checkpoint(self.core.state)
        self._expect_view()

    def crash(self) -> None:
        """The core ends, and another one begins."""
        for txn in list(self.works):
            self._put_back(self.works.pop(txn).takes)
        self.core = Core(self.core.log, self.core.limits)
        self._join()
        self._expect_view()

    # ---- what has to hold ----

    def _expect_view(self) -> None:
        """What a crash leaves from now on. A step changes it, if at all, with its first batch."""
        view: View = {}
        for body, parcel in self.parcels.items():
            dead = parcel.holder and parcel.deliveries >= DELIVERIES
            view[body] = parcel.service, parcel.priority, parcel.deliveries, "dead" if dead else parcel.state
        self.expected += [view] * (len(self.core.log.batches) - len(self.expected))

    def check_now(self) -> None:
        """What can be taken, and what cannot."""
        state = self.core.state
        if view_of(state, with_held=True) != self._present():
            raise Wrong(f"the core has {view_of(state, with_held=True)}, and not {self._present()}")
        if sorted(state.table) != sorted(txn for txn in self.works if txn in state.table):
            raise Wrong(f"transactions {sorted(state.table)} are in the table")
        for log in (self.core.log, self.core.log.trimmed()):
            again = redo(log.records()).state
            if again is None or pack_state(again) != pack_state(state):
                raise Wrong("the records say something else than the state that wrote them")

    def _present(self) -> View:
        found = {
            b: (p.service, p.priority, p.deliveries, "held" if p.holder else p.state) for b, p in self.parcels.items()
        }
        for work in self.works.values():
            found |= {body: (p.service, p.priority, 0, "unseen") for body, p in work.sends.items()}
        return found

    def check_crashes(self, begin: int = 0) -> int:
        """Behind each batch from `begin` on; gives how many crashes there were."""
        crashes = 0
        for batches in range(begin, len(self.core.log.batches) + 1):
            log = self.core.log.cut(batches)
            wanted = self.expected[batches - 1] if batches else {}
            end = check_recovered(log, wanted)
            crashes += 1
            for again in range(batches, len(log.batches)):  # in the undo
                once = log.cut(again)
                if check_recovered(once, wanted) != end:
                    raise Wrong(f"a crash in the undo of batch {again} leaves another state")
                crashes += 1
                for twice in range(again, len(once.batches), 2):  # in the undo of the restart
                    check_recovered(once.cut(twice), wanted)
                    crashes += 1
        return crashes


def check_recovered(log: MemoryLog, wanted: View) -> bytes:
    state = recovered(log, DELIVERIES)
    if state.table or view_of(state) != wanted:
        raise Wrong(f"after a crash there is {view_of(state)} and {state.table}, and not {wanted}")
    undone = [record.undone for _, record in log.shown() if type(record).__name__ == "Clr"]  # type: ignore[union-attr]
    if len(undone) != len(set(undone)):
        raise Wrong(f"undone twice: {undone}")
    return pack_state(state)


_NAMES = {TransferState.ACCEPTED: "in", TransferState.DELIVERED: "out", TransferState.DEAD: "dead"}


def view_of(state: State, with_held: bool = False) -> View:
    found: View = {}
    for item in state.items.values():
        assert isinstance(item.record.body, bytes)
        name = _held(item) if item.txn else _NAMES[item.state]
        if not item.txn or with_held:
            to = item.record.header.to.service
            found[item.record.body] = to, item.record.header.priority, item.deliveries, name
    return found


def _held(item: Item) -> str:
    return "unseen" if item.state is TransferState.HELD else "held"


def random_life(chance: random.Random, steps: int) -> World:
    """A world in which so many things have happened."""
    world = World()
    for _ in range(steps):
        random_step(world, chance)
        world.check_now()
    return world


WEIGHTS = {
    "begin": 2, "send": 8, "take": 10, "save": 8, "rollback": 8, "release": 4, "commit": 1, "abort": 0.4, "settle": 4,
    "checkpoint": 3, "crash": 0.4,
}  # fmt: skip
"""Many savepoints and rollbacks in few transactions: there the rules of the paper meet."""


def random_step(world: World, chance: random.Random) -> None:
    txn = chance.choice([0, *world.works, *world.works, *world.works])
    outs = [body for body, parcel in world.parcels.items() if parcel.state == "out"]
    what = chance.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
    name = chance.choice("abc")
    match what:
        case "begin" if len(world.works) < 2:
            world.begin()
        case "send":
            world.send(txn, chance.choice(SERVICES), chance.randrange(3))
        case "take":
            world.take(txn, chance.choice(SERVICES))
        case "settle" if outs:
            world.settle(chance.choice(outs), chance.random() < 0.5)
        case "checkpoint":
            world.checkpoint()
        case "crash":
            world.crash()
        case _ if not txn:
            pass
        case "save":
            world.savepoint(txn, name)
        case "rollback":
            world.rollback(txn, name)
        case "release":
            world.release(txn, name)
        case "commit":
            world.commit(txn)
        case "abort":
            world.abort(txn)
        case _:
            pass
