"""A run of letters, beside the ENQUEUE of each of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rtmw.transfer.records import NONE, Enqueue, EnqueuedRun, Request, TransferId, pack, unpack
from tests.transfer.memory import ME, header

BODIES = [b"one", b"three", b"two"]
OF_A_PROGRAM = Enqueue(NONE, NONE, TransferId("hub", 9, 70), header(b"one"), b"one", "valve", request=Request(ME, 5))
OF_A_NODE = replace(OF_A_PROGRAM, request=None)


@pytest.fixture(params=[OF_A_PROGRAM, OF_A_NODE], ids=["of a program", "of another node"])
def run(request: pytest.FixtureRequest) -> EnqueuedRun:
    return EnqueuedRun(request.param, [70, 71, 75], list(BODIES), lsns=[800, 960, 1120])


def letter(run: EnqueuedRun, at: int) -> Enqueue:
    id, request = TransferId("hub", 9, run.sequences[at]), run.model.request
    told = None if request is None else Request(ME, 5 + at)
    return replace(run.model, id=id, header=header(BODIES[at]), body=BODIES[at], request=told)


def test_the_records_of_a_run_are_those_of_its_letters(run: EnqueuedRun) -> None:
    assert list(run) == [pack(letter(run, at)) for at in range(len(run))]


def test_a_letter_that_is_taken_from_a_run_is_what_recovery_reads(run: EnqueuedRun) -> None:
    records = list(run)
    for at, lsn in enumerate(run.lsns):
        assert run.take(at) == unpack(records[at], lsn) == letter(run, at)


def test_a_run_does_not_keep_the_body_of_a_letter_that_was_taken_from_it(run: EnqueuedRun) -> None:
    assert run.find(960) == 1
    run.take(1)
    assert run.find(960) is None
    assert run.waiting == [800, 1120]
    assert run.bodies == [b"one", b"", b"two"]
    assert len(run) == 3
