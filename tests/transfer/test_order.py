"""Letters and files of one sender, of one priority and class, are taken in the order of sending; see queues.py."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

import pytest

from rtmw.transfer.events import (
    BeginTransaction,
    CommitTransaction,
    PassOver,
    ReceiverJoined,
    SendTransfers,
)
from rtmw.transfer.queues import Item
from rtmw.transfer.records import TransferId, TransferState, arriving_id
from tests.transfer.memory import ME, Core, header
from tests.transfer.steps import first_of, ids_of, settle
from tests.whole import sample


def send(core: Core, body: bytes, *, is_file: bool = False, txn: int = 0, sender: str = "gauge", **more: int) -> Item:
    """A file is carried by the node to itself."""
    event = SendTransfers(header(body, **more), (body,), sender, txn, is_carried=is_file)
    (id,) = ids_of(core, event)
    item = core.state.find(id)
    assert item is not None
    return item


def arrive(core: Core, item: Item) -> None:
    """The file is in the folder of its receiver."""
    body, to = bytes(item.record.body), replace(item.record.header.to, node="")  # type: ignore[arg-type]
    id = arriving_id(item.record.id)
    core.step(SendTransfers(replace(item.record.header, to=to), (body,), item.record.sender, ids=(id,)))
    settle(core, item.lsn, TransferState.SENT)


def take(core: Core) -> Item | None:
    item = first_of(core, "ingest", ME)
    assert item is None or isinstance(item, Item)
    return item


def taken(core: Core) -> list[bytes]:
    """The bodies of all that can be taken now."""
    bodies: list[bytes] = []
    while (item := take(core)) is not None:
        assert isinstance(item.record.body, bytes)
        bodies.append(item.record.body)
    return bodies


def again(core: Core) -> Core:
    """The core is started anew."""
    core = Core(core.log)
    core.step(ReceiverJoined("ingest", ME))
    return core


@pytest.mark.parametrize("restart", ["none", "from the records", "from a checkpoint"])
def test_a_letter_is_held_behind_the_file_that_was_sent_before_it(core: Core, restart: str) -> None:
    send(core, b"1")
    file = send(core, b"2", is_file=True)
    third = send(core, b"3")
    if restart == "from a checkpoint":
        core.log.checkpoint(core.state)
    if restart != "none":
        core = again(core)
        file, third = core.state.items[file.lsn], core.state.items[third.lsn]
    assert core.state.held_for(third) is file
    assert taken(core) == [b"1"]
    arrive(core, file)
    assert core.state.held_for(third) is None
    assert taken(core) == [b"2", b"3"]


def test_a_file_that_has_come_keeps_the_place_of_its_sending_over_a_checkpoint(core: Core) -> None:
    file = send(core, b"1", is_file=True)
    send(core, b"2")
    arrive(core, file)
    core.log.checkpoint(core.state)
    assert taken(again(core)) == [b"1", b"2"]


def test_nobody_else_waits_for_a_file(core: Core) -> None:
    send(core, b"file", is_file=True, priority=3)
    send(core, b"of another sender", sender="other", priority=3)
    send(core, b"of another priority", priority=2)
    core.step(
        SendTransfers(
            header(b"of another node", priority=3), (b"of another node",), "gauge", ids=(TransferId("b", 1, 1),)
        )
    )
    assert taken(core) == [b"of another sender", b"of another node", b"of another priority"]


def test_what_no_receiver_can_take_now_is_passed_over_until_one_comes_that_may(core: Core) -> None:
    file = send(core, b"1", is_file=True)
    send(core, b"2")
    core.step(PassOver(file.lsn))
    assert taken(core) == [b"2"]
    send(core, b"3")
    core.step(ReceiverJoined("ingest", ME, takes_files=True))
    assert taken(core) == []
    arrive(core, file)
    assert taken(core) == [b"1", b"3"]


@pytest.mark.parametrize("end", [TransferState.CANCELLED, TransferState.REFUSED, TransferState.EXPIRED])
def test_a_file_that_will_not_come_holds_nothing(core: Core, end: TransferState) -> None:
    file = send(core, b"1", is_file=True)
    send(core, b"2")
    settle(core, file.lsn, end)
    assert taken(core) == [b"2"]


def test_a_transaction_keeps_the_order_of_its_sends_and_holds_nothing_before_its_commit(core: Core) -> None:
    txn = core.step(BeginTransaction())
    assert isinstance(txn, int)
    file = send(core, b"1", is_file=True, txn=txn)
    send(core, b"2", txn=txn)
    send(core, b"beside it")
    assert taken(core) == [b"beside it"]
    core.step(CommitTransaction(txn))
    assert taken(core) == []
    arrive(core, file)
    assert taken(core) == [b"1", b"2"]


@dataclass
class Sent:
    """A letter or a file, as the oracle knows it."""

    number: int
    sender: str
    priority: int
    is_file: bool
    state: str = "there"
    """on the way, passed, there, out, over."""


class World:
    """A machine beside a list."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.core = again(Core())
        self.all: list[Sent] = []
        self.items: list[Item] = []

    def turn(self) -> None:
        what = self.dice.choice(
            [
                self.send,
                self.send,
                self.send,
                self.arrive,
                self.pass_over,
                self.take,
                self.take,
                self.settle,
                self.cancel,
                self.receiver_comes,
                self.restart,
            ]
        )
        what()

    def send(self) -> None:
        sender, priority, is_file = self.dice.choice("ab"), self.dice.randrange(2), self.dice.random() < 0.4
        number = len(self.all)
        self.items.append(send(self.core, b"%d" % number, is_file=is_file, sender=sender, priority=priority))
        self.all.append(Sent(number, sender, priority, is_file, "on the way" if is_file else "there"))

    def one(self, *states: str) -> Sent | None:
        able = [sent for sent in self.all if sent.state in states]
        return self.dice.choice(able) if able else None

    def item(self, sent: Sent) -> Item:
        return self.core.state.items[self.items[sent.number].lsn]

    def arrive(self) -> None:
        """In any order: lanes of the protocol keep that of the files."""
        if (sent := self.one("on the way", "passed")) is not None:
            arrive(self.core, self.item(sent))
            sent.state = "there"

    def pass_over(self) -> None:
        if (sent := self.one("on the way")) is not None:
            self.core.step(PassOver(self.item(sent).lsn))
            sent.state = "passed"

    def cancel(self) -> None:
        if (sent := self.one("on the way", "passed")) is not None:
            settle(self.core, self.item(sent).lsn, TransferState.CANCELLED)
            sent.state = "over"

    def receiver_comes(self) -> None:
        self.core.step(ReceiverJoined("ingest", ME, takes_files=True))
        for sent in self.all:
            sent.state = "on the way" if sent.state == "passed" else sent.state

    def restart(self) -> None:
        if self.dice.random() < 0.5:
            self.core.log.checkpoint(self.core.state)
        self.core = again(self.core)
        for sent in self.all:
            sent.state = "on the way" if sent.state == "passed" else sent.state

    def is_held(self, sent: Sent) -> bool:
        line = [one for one in self.all[: sent.number] if (one.sender, one.priority) == (sent.sender, sent.priority)]
        return any(one.state == "on the way" for one in line)

    def take(self) -> None:
        free = [sent for sent in self.all if sent.state == "there" and not self.is_held(sent)]
        wanted = min(free, key=lambda sent: (-sent.priority, sent.number)) if free else None
        item = take(self.core)
        found = None if item is None else int(item.record.body)  # type: ignore[arg-type]
        assert found == (None if wanted is None else wanted.number)
        if wanted is not None:
            wanted.state = "out"

    def settle(self) -> None:
        """Consumed, or given back into its place."""
        if (sent := self.one("out")) is None:
            return
        own = self.items[sent.number].record.id
        item = self.core.state.find(arriving_id(own) if sent.is_file else own)
        assert item is not None
        sent.state = self.dice.choice(("there", "over"))
        after = TransferState.ACCEPTED if sent.state == "there" and item.deliveries < 16 else TransferState.CONSUMED
        sent.state = "there" if after is TransferState.ACCEPTED else "over"
        settle(self.core, item.lsn, after, by=ME)
        if sent.is_file and after is TransferState.CONSUMED:
            settle(self.core, self.item(sent).lsn, after)


@pytest.mark.parametrize("seed", sample(range(60), 12))
# Proves G196.
def test_whatever_comes_is_passed_over_or_is_given_back_the_next_one_is_the_first_that_was_sent(seed: int) -> None:
    world = World(seed)
    for _ in range(300):
        world.turn()
