"""Whatever a hostile participant writes into the control region, the others get an answer or an error of rtmw.

Here some seconds of it, natively and from Python; `make torture-fuzz` goes on for minutes. See fuzz/fuzz.h.
"""

from __future__ import annotations

import mmap
import os
import random
import re
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

import rtmw
from rtmw import observe
from tests.child import Spawn
from tests.torture.makefile import Makefile

LONG = 120.0
RIG = Makefile(Path(__file__).parent / "fuzz")

pytestmark = pytest.mark.timeout(600)
"""The fuzzer is compiled first; and in a damaged region much is tried in vain, so that some calls take milliseconds."""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the fuzzer and of what it is made of."""
    return RIG.build(tmp_path_factory.mktemp("fuzz"), "build")


# Proves G94.
def test_no_overwritten_word_makes_the_core_leave_its_mappings_or_go_on_for_ever(built: Path) -> None:
    done = RIG.make(built, "fuzz", "SEED=1", "ROUNDS=100", "SECONDS=8")
    assert done.returncode == 0, done.stdout + done.stderr
    told = re.search(r"(\d+) rounds, (\d+) operations, (\d+) words overwritten", done.stdout)
    assert told is not None
    assert all(int(number) > 0 for number in told.groups())


@pytest.mark.parametrize("bound", ["a block may lie beyond the pool", "a link may lead anywhere"])
# Proves G98.
def test_the_fuzzer_sees_when_a_bound_is_missing(built: Path, bound: str) -> None:
    done = RIG.make(built, "mutants", f"ONLY={bound}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"mutant {bound}: found" in done.stdout


# ---- from Python ----

VICTIM = """
    import random, sys, threading, time
    import rtmw

    number = int(sys.stdin.readline())
    chance, told, turns, refused = random.Random(number), threading.Event(), 0, 0
    threading.Thread(target=lambda: (sys.stdin.readline(), told.set()), daemon=True).start()
    reliabilities = list(rtmw.Reliability)

    def open_all():
        reliability = chance.choice(reliabilities)
        publisher = rtmw.Publisher("hit", reliability=reliability, max_blocking=0.01, history=chance.randrange(4))
        lease = 0.05 if reliability is rtmw.Reliability.RELIABLE else None
        plain = rtmw.Subscriber("hit", reliability=reliability, history=chance.randrange(4), lease=lease)
        return publisher, plain, rtmw.Subscriber("hit", rtmw.ANY, deadline=0.05)

    def use(publisher, *subscribers):
        for _ in range(50):
            if told.is_set():
                return
            publisher.publish(bytes(chance.randrange(5000)), priority=chance.randrange(8))
            publisher.publish_many([b"a", b"b"])
            with publisher.loan(chance.randrange(9000)) as loan:
                if len(loan.data):
                    loan.data[0] = 1
                loan.publish()
            for subscriber in subscribers:
                for sample in subscriber.take_many(20):
                    sample.value, sample.type_name, bytes(sample.data)
                subscriber.receive(timeout=0.002)
                subscriber.stats(), publisher.stats()

    print("ready")
    while not told.is_set():
        ends = ()
        try:
            ends = open_all()
            use(*ends)
        except (rtmw.RtmwError, TimeoutError):
            refused += 1
        for end in ends:
            end.close()
        turns += 1
    print(turns, refused)
"""


def words_in_use(number: int, before: bytes) -> list[int]:
    """Where the control object is not any more what it was when it was made."""
    now = Path(f"/dev/shm/rtmw.{number}.control").read_bytes()
    return [at for at in range(0, len(now), 8) if now[at : at + 8] != before[at : at + 8]]


def spoil(number: int, places: list[int], chance: random.Random, seconds: float) -> int:
    """Overwrite words for so long; how many."""
    file = os.open(f"/dev/shm/rtmw.{number}.control", os.O_RDWR)
    count, until = 0, time.monotonic() + seconds
    with mmap.mmap(file, 0) as control:
        while time.monotonic() < until:
            at, other = chance.choice(places), chance.choice(places)
            any_word = chance.getrandbits(64).to_bytes(8, "little")
            control[at : at + 8] = chance.choice([any_word, bytes(8), b"\xff" * 8, control[other : other + 8]])
            count += 1
            time.sleep(0.002)
    os.close(file)
    return count


# Proves G95.
def test_python_programs_get_errors_of_rtmw_or_go_on_while_words_are_overwritten(domain_id: int, spawn: Spawn) -> None:
    rtmw.Domain(domain_id, pool="1M").close()
    fresh = Path(f"/dev/shm/rtmw.{domain_id}.control").read_bytes()
    victims = [spawn(VICTIM) for _ in range(2)]
    for number, victim in enumerate(victims):
        victim.send(str(number))
        assert victim.line(LONG) == "ready"
    with rtmw.Domain(domain_id) as domain:
        observe.examine(domain)
        assert spoil(domain_id, words_in_use(domain_id, fresh), random.Random(7), 3.0) > 0
    for victim in victims:
        victim.send()
    for victim in victims:
        turns, _ = map(int, victim.line(LONG).split())
        assert turns > 0
        assert victim.wait(LONG) == 0


LOOKS: dict[str, Callable[[rtmw.Domain], object]] = {
    "topics": observe.topics,
    "queue": lambda domain: observe.queue(domain, "hit"),
    "examine": observe.examine,
    "repair": lambda domain: observe.examine(domain, fix=True),
}


@pytest.mark.parametrize("look", LOOKS)
# Proves G96.
def test_who_looks_into_a_damaged_region_is_answered_or_told(look: str, domain_id: int) -> None:
    chance = random.Random(11)
    for turn in range(8):
        rtmw.Domain(domain_id, pool="64K").close()
        fresh = Path(f"/dev/shm/rtmw.{domain_id}.control").read_bytes()
        with rtmw.Domain(domain_id) as domain:
            publisher, subscriber = rtmw.Publisher("hit", domain=domain), rtmw.Subscriber("hit", domain=domain)
            publisher.publish_many([bytes(size) for size in (1, 200, 3000)] * 5)
            spoil_some(domain_id, words_in_use(domain_id, fresh), chance, 1 + turn * 8)
            with suppress(rtmw.RtmwError):
                LOOKS[look](domain)
            with suppress(rtmw.RtmwError):
                subscriber.take_many(100)
            publisher.close(), subscriber.close()
        rtmw.Domain.unlink(domain_id)


def spoil_some(number: int, places: list[int], chance: random.Random, count: int) -> None:
    with Path(f"/dev/shm/rtmw.{number}.control").open("r+b") as file:
        for _ in range(count):
            file.seek(chance.choice(places))
            file.write(chance.choice([chance.randbytes(8), bytes(8), b"\xff" * 8]))
