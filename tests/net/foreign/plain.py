"""A plain cyclonedds program that tests tell by lines what to do (peer.py says which lines). Nothing of rtmw is in it.

python plain.py DOMAIN, from the folder with the modules that cyclonedds' IDL compiler made. Values are written and read
in hexadecimal, as cyclonedds itself encodes them.
"""

from __future__ import annotations

import importlib
import os
import select
import sys
from typing import Any

os.environ["CYCLONEDDS_URI"] = (
    "<CycloneDDS><Domain><General><Interfaces><NetworkInterface name='lo' multicast='true'/></Interfaces></General>"
    "<Discovery><ParticipantIndex>auto</ParticipantIndex><MaxAutoParticipantIndex>119</MaxAutoParticipantIndex>"
    "</Discovery></Domain></CycloneDDS>"
)

from cyclonedds.core import DDSException, DDSStatus, Policy, Qos
from cyclonedds.domain import DomainParticipant
from cyclonedds.internal import InvalidSample
from cyclonedds.pub import DataWriter, Publisher
from cyclonedds.sub import DataReader, Subscriber
from cyclonedds.topic import Topic

LOOK_S = 0.01
OF_READERS = DDSStatus.RequestedIncompatibleQos | DDSStatus.RequestedDeadlineMissed
OF_WRITERS = DDSStatus.OfferedIncompatibleQos
FOR_EVER = (1 << 63) - 1
DURABILITIES = (
    Policy.Durability.Volatile,
    Policy.Durability.TransientLocal,
    Policy.Durability.Transient,
    Policy.Durability.Persistent,
)
LIVELINESSES = (Policy.Liveliness.Automatic, Policy.Liveliness.ManualByParticipant, Policy.Liveliness.ManualByTopic)
SCOPES = (
    Policy.PresentationAccessScope.Instance,
    Policy.PresentationAccessScope.Topic,
    Policy.PresentationAccessScope.Group,
)
sys.path.insert(0, os.getcwd())


def ns(seconds: str) -> int:
    return round(float(seconds) * 1e9)


def policies(given: dict[str, str], is_writer: bool) -> Qos:
    depth = int(given.get("depth", 0))
    history = Policy.History.KeepLast(depth) if depth else Policy.History.KeepAll
    best_effort = given.get("best_effort") == "1"
    made = [Policy.Reliability.BestEffort if best_effort else Policy.Reliability.Reliable(ns("1")), history]
    if "durable" in given:
        made.append(DURABILITIES[int(given["durable"])])
        if is_writer:
            made.append(Policy.DurabilityService(0, history, -1, -1, -1))
    if "deadline" in given:
        made.append(Policy.Deadline(ns(given["deadline"])))
    if "interval" in given:
        made.append(Policy.TimeBasedFilter(ns(given["interval"])))
    if "lifespan" in given:
        made.append(Policy.Lifespan(ns(given["lifespan"])))
    if "priority" in given:
        made.append(Policy.TransportPriority(int(given["priority"])))
    if is_writer:
        made.append(Policy.WriterDataLifecycle(autodispose=False))
    if "exclusive" in given:
        made.append(Policy.Ownership.Exclusive)
    if "liveliness" in given or "lease" in given:
        kind = LIVELINESSES[int(given.get("liveliness", 0))]
        made.append(kind(ns(given["lease"]) if "lease" in given else FOR_EVER))
    if given.get("order") == "1":
        made.append(Policy.DestinationOrder.BySourceTimestamp)
    if "xcdr" in given:
        made.append(Policy.DataRepresentation(given["xcdr"] == "1", given["xcdr"] == "2"))
    if "latency" in given:
        made.append(Policy.LatencyBudget(ns(given["latency"])))
    return Qos(*made)


def place(participant: DomainParticipant, given: dict[str, str], is_writer: bool) -> Any:
    """A publisher, or a subscriber."""
    made: list[Any] = [Policy.Partition([given["partition"]])] if "partition" in given else []
    if {"scope", "coherent", "ordered"} & given.keys():
        scope = SCOPES[int(given.get("scope", 0))]
        made.append(scope(given.get("coherent") == "1", given.get("ordered") == "1"))
    return (Publisher if is_writer else Subscriber)(participant, Qos(*made))


class Program:
    def __init__(self, domain: int) -> None:
        self.participant = DomainParticipant(domain)
        self.entities: dict[str, Any] = {}
        self.matched: dict[str, int] = {}
        self.types: dict[str, Any] = {}
        self.waiting: set[str] = set()
        """Readers that take when they are told."""

    def obey(self, line: str) -> None:
        command, name, *rest = line.split()
        if command in ("write", "dispose", "unregister"):
            self.write(command, name, rest[0])
            return
        if command == "close":
            del self.entities[name]
            return
        if command == "take":
            self.take(name)
            return
        module, _, short = rest[0].replace("::", ".").rpartition(".")
        self.types[name] = getattr(importlib.import_module(module), short)
        topic: Any = Topic(self.participant, name, self.types[name])
        given = dict(item.split("=") for item in rest[1:])
        is_writer = command == "writer"
        make: Any = DataWriter if is_writer else DataReader
        where = place(self.participant, given, is_writer)
        self.waiting |= {name} if given.get("waits") == "1" else set()
        self.entities[name] = make(where, topic, qos=policies(given, is_writer))
        self.matched[name] = 0

    def write(self, command: str, name: str, data: str) -> None:
        writer, value = self.entities[name], self.types[name].deserialize(bytes.fromhex(data))
        act = {"write": writer.write, "dispose": writer.dispose, "unregister": writer.unregister_instance}[command]
        try:
            act(value)
            print(name, "wrote", flush=True)
        except DDSException:
            print(name, "failed", flush=True)

    def look(self) -> None:
        for name, entity in self.entities.items():
            is_reader = isinstance(entity, DataReader)
            matches = entity.get_matched_publications() if is_reader else entity.get_matched_subscriptions()
            if len(matches) != self.matched[name]:
                self.matched[name] = len(matches)
                print(name, "matched", len(matches), flush=True)
            status = entity.take_status(OF_READERS if is_reader else OF_WRITERS)
            if status & (DDSStatus.RequestedIncompatibleQos | DDSStatus.OfferedIncompatibleQos):
                print(name, "incompatible", flush=True)
            if status & DDSStatus.RequestedDeadlineMissed:
                print(name, "deadline", flush=True)
            if is_reader and name not in self.waiting:
                self.take(name)

    def take(self, name: str) -> None:
        for sample in self.entities[name].take(1000):
            if not isinstance(sample, InvalidSample):
                print(name, "sample", sample.serialize().hex(), flush=True)


if __name__ == "__main__":
    program = Program(int(sys.argv[1]))
    print("program ready", flush=True)
    pending = b""
    while True:
        if select.select([0], [], [], LOOK_S)[0]:
            chunk = os.read(0, 1 << 16)
            if not chunk:
                break
            *lines, pending = (pending + chunk).split(b"\n")
            for line in lines:
                program.obey(line.decode())
        program.look()
