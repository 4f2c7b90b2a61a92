"""Plain DDS programs are peers: cyclonedds in a process of its own, with nothing of rtmw in it."""

from __future__ import annotations

import rtmw
from tests.child import Spawn
from tests.net.hosts import PATIENCE, Host
from topics.river import Quality, Reading

PLAIN = """
    import os
    os.environ["CYCLONEDDS_URI"] = (
        "<CycloneDDS><Domain><General><Interfaces><NetworkInterface name='lo' multicast='true'/></Interfaces>"
        "</General></Domain></CycloneDDS>"
    )
    import time
    from dataclasses import dataclass
    from cyclonedds.core import Policy, Qos
    from cyclonedds.domain import DomainParticipant
    from cyclonedds.idl import IdlEnum, IdlStruct
    from cyclonedds.idl.annotations import final, key
    from cyclonedds.idl.types import float64, int64
    from cyclonedds.pub import DataWriter
    from cyclonedds.sub import DataReader
    from cyclonedds.topic import Topic
    from cyclonedds.util import duration

    @final
    class Quality(IdlEnum, typename="river.Quality", default="GOOD"):
        GOOD = 0
        UNCERTAIN = 1
        BAD = 2

    @final
    @dataclass
    class Reading(IdlStruct, typename="river.Reading"):
        station: str
        key("station")
        parameter: str
        key("parameter")
        value: float64
        quality: Quality
        measured_ns: int64

    participant = DomainParticipant({dds_domain})
    topic = Topic(participant, "river/a", Reading)
    quality = Qos(Policy.Reliability.Reliable(duration(seconds=1)), Policy.History.KeepAll, *{policies})
"""

READS = """
    reader = DataReader(participant, topic, qos=quality)
    print("ready", flush=True)
    while True:
        for reading in reader.take_iter(timeout=duration(seconds=60)):
            print(reading.station, reading.value, reading.quality.name, flush=True)
"""

WRITES = """
    writer = DataWriter(participant, topic, qos=quality)
    while not writer.get_matched_subscriptions():
        time.sleep(0.02)
    for number in range(5):
        writer.write(Reading("B2", "pH", float(number), Quality.BAD, number))
    print("written", flush=True)
    input()
"""


def plain(dds_domain: int, what: str, policies: str = "()") -> str:
    return PLAIN.replace("{dds_domain}", str(dds_domain)).replace("{policies}", policies) + what


def test_a_plain_program_reads_what_is_published_here(hosts: tuple[Host, Host], domain_id: int, spawn: Spawn) -> None:
    host = hosts[0]
    host.start()
    publisher = rtmw.Publisher("river/a", Reading, domain=host.domain, reliability=rtmw.Reliability.RELIABLE)
    child = spawn(plain(host.dds_domain, READS))
    assert child.line() == "ready"
    assert publisher.wait_for_subscribers(1, timeout=PATIENCE)
    for number in range(5):
        publisher.publish(Reading("A1", "pH", float(number), Quality.UNCERTAIN, 1))
    assert [child.line(PATIENCE) for _ in range(5)] == [f"A1 {float(number)} UNCERTAIN" for number in range(5)]


def test_what_a_plain_program_writes_is_received_here(hosts: tuple[Host, Host], domain_id: int, spawn: Spawn) -> None:
    host = hosts[0]
    host.start()
    subscriber = rtmw.Subscriber("river/a", Reading, domain=host.domain, reliability=rtmw.Reliability.RELIABLE)
    spawn(plain(host.dds_domain, WRITES, "(Policy.TransportPriority(5),)"))
    samples = [subscriber.receive(timeout=PATIENCE) for _ in range(5)]
    assert [sample.value for sample in samples] == [Reading("B2", "pH", float(n), Quality.BAD, n) for n in range(5)]
    assert {sample.priority for sample in samples} == {5}


def test_a_plain_programs_type_is_looked_up_where_nobody_here_knows_it(
    hosts: tuple[Host, Host], domain_id: int, spawn: Spawn
) -> None:
    host = hosts[0]
    host.start()
    subscriber = rtmw.Subscriber("river/a", rtmw.ANY, domain=host.domain)
    spawn(plain(host.dds_domain, WRITES))
    values = [subscriber.receive(timeout=PATIENCE).value for _ in range(5)]
    assert [(value.station, value.value, value.quality.name) for value in values] == [
        ("B2", float(number), "BAD") for number in range(5)
    ]
