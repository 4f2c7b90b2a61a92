"""The node's janitor, alone."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial

import pytest

import rtmw
from rtmw import shm
from rtmw.net.node import Janitor
from rtmw.observe import EventKind, events
from tests.books import examine
from tests.child import Spawn
from tests.net.hosts import PATIENCE, Host, wait_until


@pytest.fixture
def janitor(domain: rtmw.Domain) -> Iterator[Janitor]:
    made = Janitor(domain)
    yield made
    made.close()


# Proves G284.
def test_what_the_dead_held_is_free_again_whatever_else_the_node_does(
    janitor: Janitor, domain: rtmw.Domain, spawn: Spawn, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing runs here that would look for the dead."""
    caplog.set_level("INFO")
    child = spawn(f"""
        import rtmw
        loan = rtmw.Publisher("t", domain={domain.id}).loan(100)
        print("holds", flush=True)
        input()
    """)
    assert child.line(PATIENCE) == "holds"
    assert child.pid in domain.region.names()
    child.kill()
    wait_until(lambda: child.pid not in domain.region.names(), "it is not swept")
    wait_until(lambda: janitor.swept == 1, "it is not counted")
    wait_until(lambda: f"({child.pid}) ended without closing" in caplog.text, "the log does not name it")
    examine(domain)


@pytest.mark.usefixtures("janitor")
# Proves G26.
def test_who_looks_on_is_told_of_each_death_though_the_janitor_cleans_up(domain: rtmw.Domain, spawn: Spawn) -> None:
    def gone(pid: int) -> bool:
        return pid not in domain.region.names()

    async def kinds() -> list[str]:
        found: list[str] = []
        with events(domain) as told:
            for number in range(3):
                child = spawn(f"import rtmw; publisher = rtmw.Publisher('t', domain={domain.id}); print(); input()")
                child.line(PATIENCE)
                for _ in range(2):
                    event = await asyncio.wait_for(anext(told), PATIENCE)
                    found.append(event.kind)
                    if event.kind is EventKind.CAME:
                        child.kill()
                wait_until(partial(gone, child.pid), f"death {number} is not swept")
        return found

    assert asyncio.run(kinds()) == [EventKind.CAME, EventKind.DIED] * 3


def test_who_ends_in_order_is_no_death(janitor: Janitor, domain: rtmw.Domain, spawn: Spawn) -> None:
    child = spawn(f"""
        import rtmw
        with rtmw.Publisher("t", domain={domain.id}):
            print("here", flush=True)
            input()
    """)
    assert child.line(PATIENCE) == "here"
    child.send("go")
    wait_until(lambda: not child.alive, "it does not end")
    assert child.pid not in domain.region.names()
    assert janitor.swept == 0


# Proves G29.
def test_what_a_node_has_parked_ends_when_its_time_is_over_and_no_node_has_come_for_it(
    hosts: tuple[Host, Host],
) -> None:
    here, there = hosts
    reliable = rtmw.Reliability.RELIABLE
    here.start("--handover", "1")
    there.start()
    with (
        rtmw.Publisher("t", reliability=reliable, domain=here.domain) as publisher,
        rtmw.Subscriber("t", reliability=reliable, domain=there.domain),
    ):
        assert publisher.wait_for_subscribers(1, timeout=PATIENCE)
        here.stop()
        (parked,) = shm.subscribers(here.domain.region)
        assert parked.is_parked
        janitor = Janitor(here.domain)
        wait_until(lambda: not shm.subscribers(here.domain.region), "it is parked for ever")
        janitor.close()
