"""What lies on the wire of a link, and what becomes of a bit that is turned there."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

import rtmw
from rtmw import Reliability
from tests.net.hosts import PATIENCE, Host, Place, wait_until
from tests.net.link.cable import Cabled
from tests.net.link.format import CHECKED, HEADER
from tests.net.namespaces import obstacle
from tests.net.test_restart import Load

RELIABLE = Reliability.RELIABLE
WHY_NOT = obstacle()
SAY, BEGIN = 1, 5
"""Kinds of frames."""
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


def on_another_kernel(host: Host, folder: Path) -> None:
    """As its programs see it: so this host and another one have a tunnel between them."""
    boot = folder / "boot_id"
    boot.write_text("8f1b1c1e-0000-4000-8000-5d0a6c1d9b77\n")
    hide = f'mount --bind {boot} /proc/sys/kernel/random/boot_id && exec "$@"'
    host.place = Place(enter=("unshare", "--mount", "sh", "-c", hide, "sh"))


@pytest.mark.parametrize(
    "has_keys", [True, pytest.param(False, marks=pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT)))]
)
# Proves G241.
def test_5_a_bit_turned_on_the_wire_ends_the_connection_and_no_reliable_message_is_lost(
    cabled: Cabled, tmp_path: Path, has_keys: bool
) -> None:
    linked, cable = cabled
    if has_keys:
        linked.with_keys()
    else:
        on_another_kernel(linked.press, tmp_path)
    linked.start().wait_up()
    assert [linked.peers(name)[0]["crc"] for name in linked.hosts] == [not has_keys] * 2
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


def test_frames_have_no_crc_where_they_do_not_leave_the_memory_of_the_host(cabled: Cabled) -> None:
    linked, cable = cabled
    linked.start().wait_up()
    load = Load(linked.press, linked.hub)
    try:
        load.come(100)
    finally:
        load.end()
    load.all_came_once()
    assert [linked.peers(name)[0]["crc"] for name in linked.hosts] == [False, False]
    frames = [one for recorded in cable.relay.recorded for one in frames_of(bytes(recorded))]
    assert {kind for kind, _ in frames} >= {SAY, BEGIN}
    assert all(bool(flags & CHECKED) == (kind == SAY) for kind, flags in frames)


def frames_of(data: bytes) -> Iterator[tuple[int, int]]:
    """Kind and flags of each."""
    while len(data) >= HEADER.size:
        length, kind, flags, _ = HEADER.unpack_from(data)
        yield kind, flags
        data = data[length:]


@pytest.mark.parametrize("directions", [(), (True,), (False,)], ids=["neither way", "not forth", "not back"])
# Proves G244.
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
# Proves G241.
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
