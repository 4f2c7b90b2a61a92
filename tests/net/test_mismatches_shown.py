"""`rtmw node info` says of each topic that does not cross why it does not."""

from dataclasses import dataclass

import pytest
from cyclonedds.idl import IdlStruct
from cyclonedds.idl.annotations import final
from cyclonedds.idl.types import int32

import rtmw
from rtmw import shm
from rtmw.cli.node_status import node_status
from tests.child import Spawn
from tests.net.hosts import PATIENCE, Host, wait_until
from topics.river import Reading

PLAIN = """
    import os
    os.environ["CYCLONEDDS_URI"] = (
        "<CycloneDDS><Domain><General><Interfaces><NetworkInterface name='lo' multicast='true'/></Interfaces>"
        "</General></Domain></CycloneDDS>"
    )
    from dataclasses import dataclass
    from cyclonedds.core import Policy, Qos
    from cyclonedds.domain import DomainParticipant
    from cyclonedds.idl import IdlStruct
    from cyclonedds.idl.annotations import final
    from cyclonedds.idl.types import float64, int32
    from cyclonedds.pub import DataWriter
    from cyclonedds.sub import DataReader
    from cyclonedds.topic import Topic

    @final
    @dataclass
    class Level(IdlStruct, typename="plain::Level"):
        value: {kind}

    participant = DomainParticipant({dds_domain})
    quality = Qos(Policy.Reliability.Reliable(0))
    endpoint = {endpoint}(participant, Topic(participant, "level", Level), qos=quality)
    print("ready", flush=True)
    input()
"""


@final
@dataclass
class Level(IdlStruct, typename="plain::Level"):
    value: int32


def reasons(host: Host) -> dict[tuple[str, str, str], str]:
    """By topic, direction and cause."""
    return {(one.topic, one.direction, one.cause): one.reason for one in node_status(host.number).apart}


def wait_for(host: Host, key: tuple[str, str, str], words: str) -> None:
    wait_until(lambda: words in reasons(host).get(key, ""), f"{key} is not explained by {words!r}")


def test_a_topic_that_nobody_elsewhere_uses_says_so(hosts: tuple[Host, Host]) -> None:
    host = hosts[0]
    host.start()
    with rtmw.Publisher("sent", domain=host.domain), rtmw.Subscriber("wanted", domain=host.domain):
        wait_for(host, ("sent", "out", "nobody"), "nobody elsewhere reads it")
        wait_for(host, ("wanted", "in", "nobody"), "nobody elsewhere publishes it")
    wait_until(lambda: not reasons(host), "closed endpoints are still shown")


def test_a_topic_that_no_pattern_allows_names_the_patterns(hosts: tuple[Host, Host]) -> None:
    host = hosts[0]
    host.start("--topics-out", "river/*", "--topics-in", "airport/*")
    with rtmw.Publisher("sent", domain=host.domain), rtmw.Subscriber("wanted", domain=host.domain):
        wait_for(host, ("sent", "out", "pattern"), "topics_out allows river/*")
        wait_for(host, ("wanted", "in", "pattern"), "topics_in allows airport/*")


def test_types_that_do_not_fit_are_named_on_both_sides(pair: tuple[Host, Host]) -> None:
    here, there = pair
    with (
        rtmw.Publisher("mixed", Reading, domain=here.domain),
        rtmw.Publisher("mixed", domain=there.domain),
        rtmw.Subscriber("mixed", domain=there.domain),
    ):
        words = f"the node of domain {here.number}"
        wait_for(there, ("mixed", "in", "type"), words)
        wait_for(there, ("mixed", "in", "type"), "Reading; rtmw::Octets is wanted here")


# Proves G285.
def test_a_type_that_cannot_be_read_is_named_and_stops_no_other_topic(pair: tuple[Host, Host]) -> None:
    """Such as that of a C program, which describes its types as it likes."""
    here, there = pair
    unreadable = ("its::Own", 5, b"no description of rtmw")
    odd = shm.Publisher(here.domain.region, "odd", unreadable, bytes, None, 0, 0, 1, 0, None, None)
    asking = shm.Subscriber(here.domain.region, "odder", unreadable, None, 0, 1, 0, 0.0, None, None, None)
    with rtmw.Publisher("t", domain=here.domain) as publisher, rtmw.Subscriber("t", domain=there.domain) as subscriber:
        assert publisher.wait_for_subscribers(1, timeout=PATIENCE)
        publisher.publish(b"crosses")
        assert subscriber.receive(timeout=PATIENCE).value == b"crosses"
        wait_for(here, ("odd", "out", "type"), "its::Own")
        wait_for(here, ("odder", "in", "type"), "its::Own")
    odd.close()
    asking.close()
    wait_until(lambda: not reasons(here), "what has gone is still shown")


def test_a_plain_reader_that_asks_for_more_than_is_offered_is_named(
    hosts: tuple[Host, Host], domain_id: int, spawn: Spawn
) -> None:
    host = hosts[0]
    host.start()
    with rtmw.Publisher("level", Level, domain=host.domain, reliability=rtmw.Reliability.TIMELY):
        child = spawn(PLAIN.format(dds_domain=host.dds_domain, kind="int32", endpoint="DataReader"))
        assert child.line() == "ready"
        wait_for(host, ("level", "out", "qos"), "asks for RELIABLE; what is published here is TIMELY")
        wait_for(host, ("level", "out", "qos"), f"({child.pid})")


@pytest.mark.parametrize(("endpoint", "direction"), [("DataReader", "out"), ("DataWriter", "in")])
def test_a_plain_program_with_another_definition_of_the_type_is_named(
    endpoint: str, direction: str, hosts: tuple[Host, Host], domain_id: int, spawn: Spawn
) -> None:
    host = hosts[0]
    host.start()
    reliable = rtmw.Reliability.RELIABLE
    with (
        rtmw.Publisher("level", Level, domain=host.domain, reliability=reliable),
        rtmw.Subscriber("level", Level, domain=host.domain),
    ):
        child = spawn(PLAIN.format(dds_domain=host.dds_domain, kind="float64", endpoint=endpoint))
        assert child.line() == "ready"
        key = ("level", direction, "unmatched")
        wait_for(host, key, "is not matched yet; its definition of plain::Level may be another")
        assert f"({child.pid})" in reasons(host)[key]
