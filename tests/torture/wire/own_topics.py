"""Mutations of what nodes tell each other, sent by a program in their DDS domain: of samples that it has heard from
them, and of samples of its own that name the nodes, their topics and their participants.

Structure-aware: a member is changed, and the sample is encoded again; one time in three its bytes are changed as well.
What the DDS library does not take for a sample of the type is not sent: on the other side it would refuse it, too.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, cast

from rtmw.net.dds.discovery import describe_node
from rtmw.net.dds.library import (
    DataReader,
    DataWriter,
    DomainParticipant,
    Flow,
    Policy,
    Qos,
    Topic,
    matched,
    take_payloads,
)
from rtmw.net.dds.own_topics import Beacon, Echo, Roster
from rtmw.net.dds.reconciliation import Lanes, LaneSent, LaneStands
from rtmw.net.dds.routes import Lane, user_data
from rtmw.net.dds.succession import Kept, KeptTopic, Leaving
from rtmw.net.dds.wire import MARK, join
from rtmw.net.settings import Settings
from rtmw.qos import Reliability
from rtmw.types import resolve
from tests.net.hosts import wait_until
from tests.net.raw import OCTETS, NotTaken, write_bytes

KINDS: dict[str, Any] = {
    "rtmw/node": Beacon,
    "rtmw/members": Roster,
    "rtmw/roster": Roster,
    "rtmw/leaving": Leaving,
    "rtmw/kept": Kept,
    "rtmw/flow": Flow,
    "rtmw/lanes": Lanes,
}
NUMBERS = (
    0,
    1,
    2,
    5,
    127,
    255,
    1 << 15,
    1 << 31,
    (1 << 31) - 1,
    (1 << 32) - 1,
    (1 << 62) + 1,
    (1 << 63) - 1,
    (1 << 64) - 1,
)
TEXTS = (
    "",
    "[",
    "[" * 100_000,
    "{}",
    "null",
    "[[1]]",
    "\x1b[2J",
    "x" * 5000,
    "\N{PILE OF POO}" * 50,
    "1e999",
    '"\\ud800"',
)
MOST_ITEMS = 10_000
"""Of a list: what was sent is heard, and is changed again."""
HELD = 4
"""Announcements of a kind that stand at a time."""


class Attacker:
    """One that says it is a node, and one that does not."""

    def __init__(self, dds_domain: int, seed: int, told: Any) -> None:
        """`told`: the document of a node."""
        self._chance, self._told, self.sent = random.Random(seed), told, 0
        described = MARK + describe_node("mutant", 4711, 99, "00" * 8)
        self._kept, pretender = join(Settings(domain=dds_domain), described.removeprefix(MARK))
        self._participants = [DomainParticipant(dds_domain), pretender]
        self._dds_domain, self._described, self._announced = dds_domain, described, list[Any]()
        self._readers = dict[str, Any]()
        self._writers = [
            (name, kind, writer) for name, kind in KINDS.items() for writer in self._writers_of(name, kind)
        ]
        self._heard: dict[str, list[Any]] = {name: [] for name in KINDS}

    def _writers_of(self, name: str, kind: Any) -> Iterator[Any]:
        reliable = (Policy.Reliability.Reliable(0), Policy.Durability.TransientLocal)
        quality = Qos(*reliable) if name == "rtmw/members" else Qos(Policy.Reliability.BestEffort)
        topics = [Topic(participant, name, kind) for participant in self._participants]
        self._readers[name] = DataReader(self._participants[0], topics[0], qos=quality)
        for participant, topic in zip(self._participants, topics, strict=True):
            writer: Any = DataWriter(participant, topic, qos=quality)
            wait_until(lambda writer=writer: len(matched(writer._ref, True)) >= 2, f"the nodes do not read {name}")
            yield writer

    def step(self) -> None:
        """One more mutated sample; now and then an announcement."""
        for name, reader in self._readers.items():
            for payload, info in take_payloads(reader, 8):
                if info.valid_data and len(self._heard[name]) < 100:
                    with suppress(Exception):  # of the other participant here, and no sample
                        self._heard[name].append(KINDS[name].deserialize(payload))
        name, kind, writer = self._chance.choice(self._writers)
        heard = self._heard[name]
        sample = self._chance.choice(heard) if heard and self._chance.random() < 0.5 else self._own(kind)
        payload = self._encoded(sample)
        if payload is None:
            return
        try:
            write_bytes(writer, payload)
        except NotTaken:
            return
        self.sent += 1
        if self.sent % 100 == 0:
            self._announce()

    def _encoded(self, sample: Any) -> bytes | None:
        """With a change; None: no sample can say what it would."""
        try:
            changed = bytearray(self._mutated(sample).serialize())
        except Exception:  # whatever cyclonedds raises
            return None
        if self._chance.random() < 1 / 3:
            self._spoil(changed)
        return bytes(changed).ljust(-(-len(changed) // 4) * 4, b"\0")

    def _own(self, kind: Any) -> Any:
        now, chance, told = time.time_ns(), self._chance, self._told
        nodes = [peer["node"] for peer in told["peers"]] or [0]
        if kind is Beacon:
            echo = Echo(chance.choice(nodes), now - chance.randrange(1 << 31), now - chance.randrange(1 << 31))
            return Beacon(chance.choice((*nodes, 7)), told["host"], told["pid"], told["domain"], now, [echo] * 2)
        if kind is Roster:
            return Roster(told["host"], told["domain"], json.dumps([[5, "p", "whole", True, "bytes", "RELIABLE"]] * 3))
        if kind is Leaving:
            return Leaving(1 << 40, [chance.getrandbits(64) for _ in range(3)])
        if kind is Kept:
            return Kept(told["guid"], [KeptTopic(chance.getrandbits(64), 1 << 40, True)])
        if kind is Lanes:
            lanes = [(chance.getrandbits(64), 8 | chance.randrange(8), chance.getrandbits(40)) for _ in range(3)]
            return Lanes([LaneSent(*lane) for lane in lanes], [LaneStands(told["guid"], *lane) for lane in lanes])
        return Flow(chance.getrandbits(64), 1)

    def _mutated(self, sample: Any) -> Any:
        """A copy with one member changed."""
        members = cast("dict[str, Any]", {**vars(sample)})
        name = self._chance.choice([*members])
        members[name] = self._changed(members[name])
        return type(sample)(**members)

    def _changed(self, value: Any) -> Any:
        chance = self._chance
        if isinstance(value, str):
            at = chance.randrange(len(value) + 1)
            return chance.choice(
                (chance.choice(TEXTS), value[:at], value[:at] + chr(chance.randrange(1, 0xD800)) + value[at:])
            )
        if isinstance(value, bool):
            return not value
        if isinstance(value, int):
            return chance.choice(
                (chance.choice(NUMBERS), -chance.choice(NUMBERS), value ^ 1 << chance.randrange(64), value + 1)
            )
        items = list(value)
        match chance.randrange(3):
            case 0:
                times = chance.choice((0, 2, 500))
                return items[: MOST_ITEMS // max(times, 1)] * times
            case 1 if items:
                at = chance.randrange(len(items))
                one = items[at]
                items[at] = self._changed(one) if isinstance(one, int) else self._mutated(one)
                return items
            case _:
                return items[: len(items) // 2]

    def _spoil(self, sample: bytearray) -> None:
        for _ in range(self._chance.choice((1, 1, 3))):
            sample[self._chance.randrange(4, len(sample))] = self._chance.randrange(256)

    def _announce(self) -> None:
        """A participant, or a writer of a topic that is read, whose user data is nearly that of a node's."""
        says = bytearray(
            self._chance.choice((self._described, user_data(Lane(Reliability.RELIABLE, False), resolve(bytes))))
        )
        for _ in range(self._chance.choice((1, 2, 20))):
            says[self._chance.randrange(len(says))] = self._chance.randrange(256)
        quality = Qos(Policy.Userdata(bytes(says)))
        if self._chance.random() < 0.3:
            self._announced.append(DomainParticipant(self._dds_domain, quality))
        else:
            topic = Topic(self._participants[0], "fuzzed", OCTETS)
            self._announced.append((topic, DataWriter(self._participants[0], topic, qos=quality)))
        del self._announced[:-HELD]

    def close(self) -> None:
        self._announced.clear()
        self._writers.clear()
        self._readers.clear()
        self._participants.clear()
        del self._kept


def attack(attacker: Attacker, seconds: float, meanwhile: Callable[[], None]) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        for _ in range(20):
            attacker.step()
        meanwhile()
