"""What lies on the wire of a link, and what becomes of a bit that is turned there."""

from __future__ import annotations

import random

import pytest

import rtmw
from rtmw import Reliability
from tests.net.hosts import PATIENCE, Place, wait_until
from tests.net.link.cable import Cabled
from tests.net.namespaces import obstacle
from tests.net.test_restart import Load

RELIABLE = Reliability.RELIABLE
WHY_NOT = obstacle()
LEAST = 200
"""Bytes: so long is what carries messages, and no ping."""


class TurnsABit:
    """Of one piece of what the dialler sends, somewhere in it."""

    def __init__(self, seed: int) -> None:
        self._chance, self.has_turned = random.Random(seed), False

    def __call__(self, data: bytes) -> bytes:
        if self.has_turned or len(data) < LEAST:
            return data
        self.has_turned = True
        turned = bytearray(data)
        turned[self._chance.randrange(len(turned))] ^= 1 << self._chance.randrange(8)
        return bytes(turned)


def test_5_a_bit_turned_on_the_wire_ends_the_connection_and_no_reliable_message_is_lost(
    cabled: Cabled,
) -> None:
    linked, cable = cabled
    linked.with_keys().start().wait_up()
    load = Load(linked.press, linked.hub)
    try:
        for seed in range(4):
            load.come(100)
            before, turns = linked.peers("hub")[0]["resumes"], TurnsABit(seed)
            cable.relay.change = turns
            wait_until(
                lambda: bool(load.take()) and linked.peers("hub")[0]["resumes"] > before,  # noqa: B023
                "it connects again",
            )
            assert turns.has_turned
        load.come(100)
    finally:
        load.end()
    load.all_came_once()
    assert "is over" not in linked.hub.said + linked.press.said


@pytest.mark.parametrize("directions", [(), (True,), (False,)], ids=["neither way", "not forth", "not back"])
def test_a_way_that_passes_nothing_on_any_more_and_says_nothing_is_left_and_no_reliable_message_is_lost(
    cabled: Cabled, directions: tuple[bool, ...]
) -> None:
    """As a NAT does that has forgotten the connection, or a cut in one direction."""
    linked, cable = cabled
    linked.with_keys()
    for name in linked.hosts:
        linked.link[name] += "lease = 3.0\n"
    linked.start().wait_up()
    load = Load(linked.press, linked.hub)
    try:
        load.come(100)
        before = linked.peers("hub")[0]["resumes"]
        cable.relay.silence(*directions)
        wait_until(lambda: bool(load.take()) and linked.peers("hub")[0]["resumes"] > before, "it connects again")
        load.come(100)
    finally:
        load.end()
    load.all_came_once()


@pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT))
@pytest.mark.parametrize("has_keys", [True, False])
def test_16_no_payload_topic_or_host_name_is_on_the_wire_in_clear(cabled: Cabled, has_keys: bool) -> None:
    """Without keys all of them are: so what this looks for would be found."""
    linked, cable = cabled
    secrets = {name: f"host-of-{name}-8c1f" for name in linked.hosts}
    for name, host in linked.hosts.items():
        host.place = Place(enter=("unshare", "--uts", "sh", "-c", f'hostname {secrets[name]} && exec "$@"', "sh"))
    if has_keys:
        linked.with_keys()
    linked.start().wait_up()
    topic, payload = "topic/5b7e01d9", b"payload-77a2c4e6" * 3
    for sender, taker in (("press", "hub"), ("hub", "press")):
        name = f"{topic}/{sender}"
        with (
            rtmw.Subscriber(name, reliability=RELIABLE, domain=linked.hosts[taker].domain) as into,
            rtmw.Publisher(name, reliability=RELIABLE, domain=linked.hosts[sender].domain) as out,
        ):
            assert out.wait_for_subscribers(1, timeout=PATIENCE)
            assert out.publish(payload)
            assert into.receive(timeout=PATIENCE).value == payload
    wire = b"".join(map(bytes, cable.relay.recorded)) + bytes(cable.relay.back)
    assert len(wire) > 1000
    sought = [topic.encode(), payload, *(host.encode() for host in secrets.values())]
    assert [one in wire for one in sought] == [not has_keys] * len(sought)
