"""Random trees of transactions and savepoints beside dictionaries, with a crash behind every record; see world.py."""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.transfer.world import SERVICES, World, random_life
from tests.whole import sample

NAMES = st.sampled_from("abc")
SERVICE = st.sampled_from(SERVICES)


class Trees(RuleBasedStateMachine):
    """What a shrunk counterexample is made of."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.checked = len(self.world.core.log.batches)

    def one_of(self, number: int) -> int:
        open = [0, *self.world.works]
        return open[number % len(open)]

    def an_open_one(self, number: int) -> int:
        return list(self.world.works)[number % len(self.world.works)]

    @rule()
    def begin(self) -> None:
        self.world.begin()

    @rule(number=st.integers(0, 9), service=SERVICE, priority=st.integers(0, 2))
    def send(self, number: int, service: str, priority: int) -> None:
        self.world.send(self.one_of(number), service, priority)

    @rule(number=st.integers(0, 9), service=SERVICE)
    def take(self, number: int, service: str) -> None:
        self.world.take(self.one_of(number), service)

    @precondition(lambda self: any(parcel.state == "out" for parcel in self.world.parcels.values()))
    @rule(number=st.integers(0, 9), consumed=st.booleans())
    def settle(self, number: int, consumed: bool) -> None:
        outs = [body for body, parcel in self.world.parcels.items() if parcel.state == "out"]
        self.world.settle(outs[number % len(outs)], consumed)

    @precondition(lambda self: self.world.works)
    @rule(number=st.integers(0, 9), name=NAMES)
    def savepoint(self, number: int, name: str) -> None:
        self.world.savepoint(self.an_open_one(number), name)

    @precondition(lambda self: self.world.works)
    @rule(number=st.integers(0, 9), name=NAMES)
    def rollback(self, number: int, name: str) -> None:
        self.world.rollback(self.an_open_one(number), name)

    @precondition(lambda self: self.world.works)
    @rule(number=st.integers(0, 9), name=NAMES)
    def release(self, number: int, name: str) -> None:
        self.world.release(self.an_open_one(number), name)

    @precondition(lambda self: self.world.works)
    @rule(number=st.integers(0, 9), whole=st.booleans())
    def end(self, number: int, whole: bool) -> None:
        txn = self.an_open_one(number)
        self.world.commit(txn) if whole else self.world.abort(txn)

    @rule()
    def checkpoint(self) -> None:
        self.world.checkpoint()

    @rule()
    def crash(self) -> None:
        self.world.crash()

    @invariant()
    def the_core_and_the_dictionaries_are_the_same(self) -> None:
        self.world.check_now()

    @invariant()
    def whenever_it_crashes_what_was_committed_is_there_and_nothing_else(self) -> None:
        self.world.check_crashes(self.checked)
        self.checked = len(self.world.core.log.batches)


EXAMPLES = len(sample(range(100), 40))

TestTrees = Trees.TestCase
TestTrees.settings = settings(
    max_examples=EXAMPLES,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    derandomize=True,
)


@pytest.mark.parametrize("seed", range(6))
# Proves G175.
def test_a_crash_behind_any_record_and_in_any_undo_leaves_what_was_committed(seed: int) -> None:
    world = random_life(random.Random(seed), 80)
    assert world.check_crashes() > 100
