"""The engine by itself: it ends, whatever is open, and what rings is told one by one."""

from __future__ import annotations

import select
import time

import pytest

import rtmw
from rtmw import Reliability
from rtmw.net.dds.library import (
    DataEvent,
    DataReader,
    DataWriter,
    DomainParticipant,
    Engine,
    Policy,
    Qos,
    Route,
    Topic,
    matched,
)
from rtmw.publisher import wire_type
from rtmw.types import resolve
from tests.books import examine
from tests.child import Spawn
from tests.net.hosts import PATIENCE, wait_until
from tests.net.raw import OCTETS

KEPT = Qos(Policy.Reliability.Reliable(0), Policy.History.KeepAll)


def outbound(engine: Engine, topic: str, writer: int, reliability: Reliability = Reliability.ADAPTIVE) -> Route:
    return engine.outbound(
        topic=topic, type=wire_type(resolve(bytes)), writer=writer, octets=True, reliability=reliability, depth=8,
        history=0, min_interval_ns=0, lease_ns=0, may_zero_copy=False, is_plain=False, sent=0,
    )  # fmt: skip


def inbound(engine: Engine, topic: str, reader: int) -> Route:
    return engine.inbound(
        topic=topic, type=wire_type(resolve(bytes)), reader=reader, octets=True, reliability=Reliability.ADAPTIVE,
        priority=3, depth=8, history=0, lane=9, wants_old=False, may_receive_in_loan=True, is_keyed=False,
        newest=b"", on_bus={},
    )  # fmt: skip


CLOSE = """
    import faulthandler
    import rtmw
    from rtmw.net.dds.library import Engine
    from rtmw.net.dds.wire import join
    from rtmw.net.settings import Settings
    from tests.net.test_engine import close_with_open_routes

    faulthandler.dump_traceback_later({patience}, exit=True)
    domain = rtmw.Domain({domain})
    kept, participant = join(Settings(domain={dds_domain}), b"")
    close_with_open_routes({domain}, participant)
    print("closed")
"""


def close_with_open_routes(number: int, participant: DomainParticipant) -> None:
    engine, topic = Engine(number, 0, 1 << 20), Topic(participant, "t", OCTETS)
    writer, reader = DataWriter(participant, topic, qos=KEPT), DataReader(participant, topic, qos=KEPT)
    routes = [outbound(engine, "t", writer._ref), inbound(engine, "t", reader._ref)]
    with rtmw.Domain(number) as domain, rtmw.Publisher("t", domain=domain) as publisher:
        for _ in range(100):
            publisher.publish(b"waits to be taken")
    engine.close()
    engine.close()
    with pytest.raises(rtmw.RtmwError, match="the engine is closed"):
        outbound(engine, "t", writer._ref)
    for route in routes:
        assert route.counters()
        route.close()
        assert route.counters() == {}


# Proves G315.
def test_an_engine_ends_though_routes_are_open_and_they_close_later(
    domain_id: int, dds_domain: int, spawn: Spawn
) -> None:
    with rtmw.Domain(domain_id) as domain:
        child = spawn(CLOSE.format(domain=domain_id, dds_domain=dds_domain, patience=PATIENCE / 2))
        assert child.line(PATIENCE) == "closed"
        assert child.wait(PATIENCE) == 0
        assert examine(domain).descriptors_held == 0


def test_what_an_engine_held_is_given_back_when_its_last_route_closes(
    domain_id: int, participant: DomainParticipant
) -> None:
    with rtmw.Domain(domain_id) as domain:
        close_with_open_routes(domain_id, participant)
        assert examine(domain).descriptors_held == 0


def test_a_data_event_tells_of_each_sample_when_it_came(participant: DomainParticipant) -> None:
    topic = Topic(participant, "t", OCTETS)
    reader = DataReader(participant, topic, qos=KEPT)
    event = DataEvent(reader._ref)
    writer = DataWriter(participant, topic, qos=KEPT)
    wait_until(lambda: len(matched(writer._ref, True)) == 1, "nobody reads")
    for _ in range(3):
        writer.write(OCTETS(b"first"))
    assert select.select([event.fileno()], [], [], PATIENCE)[0]
    began = time.monotonic()
    wait_until(lambda: time.monotonic() - began > 0.05, "time stands still")
    for _ in range(2):
        writer.write(OCTETS(b"second"))
    ages = event.take()
    assert len(reader.take(len(ages))) == len(ages) == 5
    assert all(age > 0.05e9 for age in ages[:3])
    assert all(age < ages[2] - 0.04e9 for age in ages[3:])
    assert ages == sorted(ages, reverse=True)
    assert not select.select([event.fileno()], [], [], 0)[0]
    assert event.take() == []
    event.close()
