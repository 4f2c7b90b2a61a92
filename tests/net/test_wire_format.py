"""docs/formats/wire-format.md, the golden samples, what a node reads and what a node sends say the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import rtmw
from rtmw import Reliability
from rtmw.net.dds.discovery import describe_node
from rtmw.net.dds.library import DataReader, DdsSubscriber, DomainParticipant, Policy, Qos, Topic, take_payloads
from rtmw.net.dds.routes import Lane, user_data
from rtmw.net.dds.wire import NODES, join
from rtmw.net.settings import Settings
from rtmw.types import resolve
from tests.net.hosts import PATIENCE, Host, go_on, halt, wait_until
from tests.net.raw import OCTETS, octets_writer, write_bytes
from tests.net.wire_format import PAGE, Message, Sample, read

GOLDEN = Path(__file__).parent / "golden"
MINUTE = 60_000_000_000
ID = 0x1122334455667788
SAMPLES = {
    "single": Sample(1, 1, False, (Message(b"golden", 3, ID, 0),)),
    "single_checked": Sample(1, 2, True, (Message(b"checked", 5, ID, MINUTE),)),
    "old_checked": Sample(3, 3, True, (Message(b"", 0, ID, 0),)),
    "pack_checked": Sample(
        2, 6, True, (Message(b"one", 6, ID, 0), Message(b"", 6, ID + 1, MINUTE), Message(b"three", 6, ID, 0))
    ),
    "dated_checked": Sample(1, 7, True, (Message(b"dated", 7, ID, MINUTE),)),
}
"""By the name of the golden file: what it says. In the order of their sequences."""


def golden(name: str) -> bytes:
    return bytes.fromhex((GOLDEN / f"{name}.hex").read_text(encoding="ascii"))


@pytest.mark.parametrize("name", SAMPLES)
def test_the_page_reads_the_golden_samples(name: str) -> None:
    assert read(golden(name)) == SAMPLES[name]


@pytest.mark.parametrize("heading", ["Trailer", "Entry of a pack"])
def test_the_rows_of_a_table_follow_each_other_to_its_end(heading: str) -> None:
    at = 0
    for row in PAGE.table(heading):
        assert row.at == at
        at += row.size or 0
    assert at == 32


def test_a_node_publishes_what_the_golden_samples_say(hosts: tuple[Host, Host], participant: DomainParticipant) -> None:
    host, _ = hosts
    host.start()
    subscriber = rtmw.Subscriber("golden", domain=host.domain, reliability=Reliability.RELIABLE)
    writer = octets_writer(participant, "golden", is_node=True)
    publishers = dict[int, int]()
    for name, said in SAMPLES.items():
        write_bytes(writer, golden(name))
        for message in said.messages if said.version != 3 else ():  # nobody here wants what was before
            got = subscriber.receive(timeout=PATIENCE)
            assert (bytes(got.data), got.priority) == (message.payload, message.priority)
            assert publishers.setdefault(message.publisher, got.publisher) == got.publisher
            assert (got.expires_ns is None) is (message.left_ns == 0)
    assert len(set(publishers.values())) == len(publishers) == 2
    wait_until(lambda: host.crossed("in", "golden")["unchecked"] == 1, "the one without a CRC is not counted")
    counted = host.crossed("in", "golden")
    assert [counted[cause] for cause in ("lost", "malformed", "corrupt")] == [0, 0, 0]


def test_what_a_node_sends_is_what_the_page_says(hosts: tuple[Host, Host], dds_domain: int) -> None:
    host, _ = hosts
    host.start()
    kept, participant = join(Settings(domain=dds_domain), describe_node("elsewhere", 1, 99, "00"))
    qos = Qos(
        Policy.Reliability.Reliable(0), Policy.History.KeepAll,
        Policy.Userdata(user_data(Lane(Reliability.RELIABLE, keeps=False), resolve(bytes))),
    )  # fmt: skip
    place: Any = DdsSubscriber(participant, Qos(Policy.Partition([NODES])))
    reader: Any = DataReader(place, Topic(participant, "sent", OCTETS), qos=qos)
    first, second = (
        rtmw.Publisher("sent", domain=host.domain, reliability=Reliability.RELIABLE, priority=4) for _ in range(2)
    )
    assert first.wait_for_subscribers(1, timeout=PATIENCE)
    found = list[Sample]()

    def publish_some() -> bool:
        halt(host)
        first.publish(b"alone", lifetime=1000.0)
        for number in range(5):
            second.publish(b"x" * number)
        go_on(host)
        wait_until(lambda: take_all(reader, found) and found[-1].messages[-1].payload == b"xxxx", "it does not arrive")
        return any(sample.version == 2 for sample in found)

    wait_until(publish_some, "nothing is packed")
    messages = [message for sample in found for message in sample.messages]
    assert [len(message.payload) for message in messages] == [5, 0, 1, 2, 3, 4] * (len(messages) // 6)
    assert {message.priority for message in messages} == {4}
    assert len({message.publisher for message in messages}) == 2
    for message in messages:
        assert (message.payload == b"alone") is (900e9 < message.left_ns <= 1000e9)
    sequence = 0
    for sample in found:
        sequence += len(sample.messages)
        assert sample.sequence == sequence
    assert found[-1].is_checked
    del kept


def take_all(reader: Any, found: list[Sample]) -> list[Sample]:
    """Those that have come, too."""
    found.extend(read(payload) for payload, info in take_payloads(reader, 1000) if info.valid_data)
    return found
