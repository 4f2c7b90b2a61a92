"""Appends that begin no sync: they go to the disk with what somebody waits for, when asked, and by themselves."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import rtmw
from rtmw import Durability
from tests.bus import eventually

ROUNDS = 40


@pytest.fixture
def log(tmp_path: Path) -> rtmw.Log[bytes]:
    made = rtmw.Log(tmp_path / "log", sync=False)
    made._hold()
    return made


def test_records_of_which_the_last_one_is_waited_for_take_one_sync(log: rtmw.Log[bytes]) -> None:
    with log:
        for _ in range(ROUNDS):
            answers = [log.append(b"held") for _ in range(4)] + log.append_many([b"a", b"batch"])
            assert answers[-1].resolve() is Durability.WRITTEN
            assert {answer.state for answer in answers} == {Durability.WRITTEN}
        assert (
            log.stats().batches < ROUNDS * 3 / 2
        )  # a machine that stands still for a tenth of a second makes one more


def test_tasks_that_wait_for_what_was_held_are_answered(log: rtmw.Log[bytes]) -> None:
    async def append(number: int) -> int:
        for _ in range(ROUNDS):
            await log.append_async(b"before")
            answer = await log.append_async(b"%d" % number)
            await answer.resolve_async()
            assert answer.state is Durability.WRITTEN
        return number

    async def append_all() -> list[int]:
        return await asyncio.gather(*map(append, range(5)))

    with log:
        assert asyncio.run(append_all()) == list(range(5))
        assert log.stats().records == 2 * 5 * ROUNDS


def test_what_nobody_waits_for_goes_to_the_disk_by_itself(log: rtmw.Log[bytes]) -> None:
    """Behind a mark, and before there is any: in both the flusher has to be told that there is something to come."""
    with log:
        for number in range(3):
            answer = log.append(b"%d" % number)
            eventually(lambda n=number: log.stats().batches == n + 1)
            assert answer.state is Durability.WRITTEN


def test_a_batch_that_is_full_goes_although_nobody_waits(log: rtmw.Log[bytes]) -> None:
    with log:
        for _ in range(100):
            log.append(bytes(200_000))
        assert log.stats().batches >= 3
    with rtmw.Log(log.path) as again:
        assert sum(len(record.data) for record in again.read()) == 100 * 200_000


def test_closing_brings_what_was_held_to_the_disk(log: rtmw.Log[bytes]) -> None:
    answers = [log.append(b"%d" % number) for number in range(10)]
    log.close()
    assert {answer.state for answer in answers} == {Durability.WRITTEN}
    with rtmw.Log(log.path) as again:
        assert [record.data for record in again.read()] == [b"%d" % number for number in range(10)]
