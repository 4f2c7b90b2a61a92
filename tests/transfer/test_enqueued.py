"""An ENQUEUE of several letters, beside that of each of them, and what is left of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rtmw.transfer.queues import Run
from rtmw.transfer.records import NONE, Enqueue, Request, TransferId, pack, unpack
from tests.transfer.memory import ME, header

BODIES = (b"one", b"three", b"two", b"four")
OF_A_PROGRAM = Enqueue(NONE, NONE, TransferId("hub", 9, 70), header(b"one"), BODIES, "valve", request=Request(ME, 5))
OF_A_NODE = replace(OF_A_PROGRAM, request=None, others=(71, 75, 72))


@pytest.fixture(params=[OF_A_PROGRAM, OF_A_NODE], ids=["of a program", "of another node"])
def record(request: pytest.FixtureRequest) -> Enqueue:
    found: Enqueue = request.param
    return found


def letter(record: Enqueue, at: int) -> Enqueue:
    """The record of one letter, as it would be sent by itself."""
    id = TransferId("hub", 9, (70, *record.others)[at] if record.others else 70 + at)
    told = None if record.request is None else Request(ME, 5 + at)
    return Enqueue(NONE, NONE, id, header(BODIES[at]), (BODIES[at],), "valve", request=told)


def test_a_record_has_its_letters_as_each_would_have_been_sent_by_itself(record: Enqueue) -> None:
    assert len(record) == len(BODIES)
    for at, id in enumerate(record.ids):
        assert record.letter(at) == letter(record, at)
        assert id == letter(record, at).id


def test_a_part_of_a_record_has_the_same_letters(record: Enqueue) -> None:
    part = record.part(1, 3)
    assert [part.letter(at) for at in range(len(part))] == [letter(record, at) for at in (1, 2)]
    assert unpack(pack(part), 1 << 40) == part


def test_letters_in_one_record_take_less_than_in_one_each(record: Enqueue) -> None:
    alone = [pack(letter(record, at)) for at in range(len(record))]
    assert len(pack(record)) < sum(map(len, alone)) / 2


def test_a_run_does_not_keep_the_body_of_a_letter_that_has_ended(record: Enqueue) -> None:
    run = Run(800, record, record.bodies, len(record), asked=2)  # type: ignore[arg-type]
    assert list(run.stretches()) == [(0, 4)]
    run.end(801)
    assert (run.index(801), run.index(802), run.index(804), run.index(799)) == (None, 2, None, None)
    assert list(run.waiting) == [800, 802, 803]
    assert list(run.record.bodies) == list(run.bodies) == [b"one", b"", b"two", b"four"]
    assert (record.bodies, pack(run.record.part(2, 4))) == (BODIES, pack(record.part(2, 4)))
    assert list(run.stretches()) == [(0, 1), (2, 4)]
    run.end(803)
    assert (run.left, run.asked) == (2, 0)
    assert list(run.stretches()) == [(0, 1), (2, 3)]
