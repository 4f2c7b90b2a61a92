"""Whatever arrives from other nodes, a node lives, publishes what was sent and nothing else, and counts the rest.

Here some seconds of it. `make torture-net` damages a link for minutes; `python -m tests.torture.wire.engine_fuzz` goes
on fuzzing.
"""

from __future__ import annotations

import os
import random
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import rtmw
from rtmw import Reliability
from tests.conftest import free_number
from tests.net.cable import Cable, Faults, obstacle
from tests.net.hosts import PATIENCE, Host, wait_until
from tests.torture.makefile import Makefile
from tests.torture.wire.engine_damage import MARK, Damage
from tests.whole import IS_WHOLE

SECONDS = 120.0 if IS_WHOLE else 2.0
RIG = Makefile(Path(__file__).parent / "wire", "engine.mk")

pytestmark = pytest.mark.timeout(900)
"""The fuzzer is compiled first."""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the fuzzer and of what it is made of."""
    return RIG.build(tmp_path_factory.mktemp("fuzz"), "build")


# Proves G312.
def test_no_sample_of_another_node_is_published_but_as_it_was_sent(built: Path) -> None:
    done = RIG.make(built, "fuzz", "SEED=1", "SECONDS=2")
    assert done.returncode == 0, done.stdout + done.stderr
    told = re.search(r"(\d+) rounds", done.stdout)
    assert told is not None
    assert int(told[1]) > 0


# Proves G313.
def test_what_waits_and_what_is_paused_is_bounded_for_one_and_for_all(built: Path) -> None:
    done = RIG.make(built, "limits")
    assert (done.returncode, done.stdout) == (0, "limits hold\n"), done.stderr


# Proves G279.
def test_each_gap_of_sequence_numbers_is_told_once_and_none_that_is_not_there(built: Path) -> None:
    done = RIG.make(built, "gaps")
    assert (done.returncode, done.stdout) == (0, "gaps are counted as they are\n"), done.stderr


@pytest.mark.parametrize(
    "check",
    [
        "a sum is not compared",
        "the CRC of what is received into a loan is not compared",
        "anybody pauses a topic",
        "a gap before what is dropped is counted twice",
    ],
)
def test_the_fuzzer_sees_when_a_check_is_missing(built: Path, check: str) -> None:
    done = RIG.make(built, "mutants", f"ONLY={check}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"mutant {check}: found" in done.stdout


# ---- a link that damages ----


@pytest.fixture
def damaged(dds_domain: int, tmp_path: Path) -> Iterator[tuple[Host, Host, Damage]]:
    """Two hosts whose nodes are ready, at a cable that damages."""
    if obstacle() is not None:
        pytest.skip(str(obstacle()))
    damage = Damage(0.7)  # of the datagrams that IP does not divide
    cable = Cable(Faults(twice=0.05, damage=damage))
    hosts = list[Host]()
    try:
        for end in range(2):
            hosts.append(Host(free_number(), dds_domain, tmp_path, cable.place(end), pool="32M"))
            hosts[-1].start()
        yield hosts[0], hosts[1], damage
    finally:
        for host in hosts:
            host.end()
        cable.close()


@pytest.fixture
def dds_domain() -> int:
    return free_number()


def rss(host: Host) -> int:
    """Bytes of memory that its node uses."""
    return int(Path(f"/proc/{host.node.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


def payload(number: int) -> bytes:
    chance = random.Random(number)
    size = chance.choice((10, 40, 200, 3000, 40_000, 200_000) if number % 50 == 0 else (0, 10, 40, 200))
    return MARK + number.to_bytes(8, "little") + chance.randbytes(size)


def number_in(message: bytes) -> int:
    return int.from_bytes(message[len(MARK) : len(MARK) + 8], "little")


def cross_whole(publisher: rtmw.Publisher[bytes], subscriber: rtmw.Subscriber[bytes]) -> None:
    """A message that is not damaged: what is lost is counted between such."""
    assert publisher.publish(b"whole")
    while bytes(subscriber.receive(timeout=PATIENCE).data) != b"whole":
        continue


# Proves G309.
def test_a_link_that_damages_samples_brings_none_that_is_damaged_and_harms_no_other(
    damaged: tuple[Host, Host, Damage],
) -> None:
    here, there, damage = damaged
    reliable = Reliability.RELIABLE
    subscribers = {
        t: rtmw.Subscriber(t, domain=there.domain, reliability=reliable, depth=4000) for t in ("hit", "whole")
    }
    hit, whole = (rtmw.Publisher(t, domain=here.domain, reliability=reliable, depth=4000) for t in subscribers)
    for publisher in (hit, whole):
        assert publisher.wait_for_subscribers(1, timeout=PATIENCE)
    cross_whole(hit, subscribers["hit"])
    sent = {"hit": 0, "whole": 0}
    got = dict[str, list[int]](hit=[], whole=[])
    before, until = 0, time.monotonic() + SECONDS

    def take() -> bool:
        for sample in subscribers["hit"].take_many(1000):
            message = bytes(sample.data)
            assert message == payload(number_in(message)), "a damaged message was delivered"
            got["hit"].append(number_in(message))
        got["whole"] += [
            int.from_bytes(bytes(sample.data)[:8], "little") for sample in subscribers["whole"].take_many(1000)
        ]
        return len(got["whole"]) == sent["whole"]

    while time.monotonic() < until or damage.spoiled < 20:
        sent["hit"] += hit.publish_many([payload(sent["hit"] + n) for n in range(20)])
        sent["whole"] += whole.publish_many([(sent["whole"] + n).to_bytes(300, "little") for n in range(5)])
        wait_until(take, "the other topic does not arrive")
        before = before or (rss(there) if damage.spoiled > 10 else 0)
    assert got["whole"] == list(range(sent["whole"]))
    assert got["hit"] == sorted(set(got["hit"]))

    cross_whole(hit, subscribers["hit"])

    def is_told() -> bool:
        counted = there.crossed("in", "hit")
        return counted["received"] + counted["lost"] == sent["hit"] + 2

    wait_until(is_told, "what did not arrive is not counted")
    counted = there.crossed("in", "hit")
    assert counted["corrupt"] > 0
    assert (counted["implausible"], counted["unchecked"]) == (0, 0)
    assert there.crossed("in", "whole")["lost"] == 0
    assert rss(there) - before < 32 << 20
    assert here.node.poll() is None
    assert there.node.poll() is None
