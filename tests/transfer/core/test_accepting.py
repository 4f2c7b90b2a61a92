"""Letters of one frame: how they are logged, and which of them have one answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from rtmw.transfer.address import Address, Life
from rtmw.transfer.core.effects import Tell
from rtmw.transfer.core.service import Accepted, Letters, in_batches
from rtmw.transfer.events import SendTransfers
from rtmw.transfer.frames import Frame
from rtmw.transfer.header import Delivery, Header, Kind, Level
from rtmw.transfer.messages import Accepted as Answer
from rtmw.transfer.messages import Leave, Run
from rtmw.transfer.records import Request, TransferId
from tests.transfer.driven import Driven

FRAME = Frame(Life(4711, 1000, 1), 3, 10, Leave())


def id_of(sequence: int, incarnation: int = 77) -> TransferId:
    return TransferId("plant", incarnation, sequence)


Added = tuple[int, int, tuple[TransferId, ...], bool]


def answers(*added: Added) -> list[tuple[int, Answer, bool]]:
    """Number, message, and whether it has to be durable first."""
    accepted = Accepted(FRAME)
    effects = [effect for one in added for effect in accepted.add(*one)]
    found: list[tuple[int, Answer, bool]] = []
    for effect in [*effects, *accepted.tell(), *accepted.tell()]:
        assert isinstance(effect, Tell)
        assert isinstance(effect.frame.message, Answer)
        found.append((effect.frame.number, effect.frame.message, effect.logged))
    return found


def test_letters_whose_numbers_and_ids_follow_one_after_the_other_have_one_answer() -> None:
    added = (10, 3, (id_of(5),), True), (13, 1, (id_of(8),), True), (14, 2, (id_of(9),), True)
    assert answers(*added) == [(10, Answer(6, (id_of(5),)), True)]


@pytest.mark.parametrize(
    "other",
    [
        (14, 2, (id_of(8),), True),
        (13, 2, (id_of(9),), True),
        (13, 2, (id_of(8, incarnation=78),), True),
        (13, 2, (id_of(8),), False),
    ],
)
def test_others_have_an_answer_of_their_own(other: Added) -> None:
    number, count, ids, logged = other
    assert answers((10, 3, (id_of(5),), True), other) == [
        (10, Answer(3, (id_of(5),)), True),
        (number, Answer(count, ids), logged),
    ]


def test_no_answer_is_for_more_letters_than_it_can_count() -> None:
    most = (1 << 16) - 1
    assert answers((10, most, (id_of(5),), True), (10 + most, 1, (id_of(5 + most),), True)) == [
        (10, Answer(most, (id_of(5),)), True),
        (10 + most, Answer(1, (id_of(5 + most),)), True),
    ]


def test_no_answer_is_given_for_no_letters() -> None:
    assert answers() == []


def run_of(delivery: Delivery, size: int, count: int, to: str = "ingest") -> Run:
    header = Header(Address.parse(to), Kind.BUF, size, Level.ACCEPTED, delivery)
    return Run(header, tuple(b"%0*d" % (size, number) for number in range(count)))


@pytest.mark.parametrize("sizes", [[1], [200], [4095], [3, 4095, 200]])
@pytest.mark.parametrize("name", ["g", "gauge-" * 20])
def test_letters_that_are_logged_are_cut_into_batches_that_fit_into_the_smallest_segment(
    sizes: list[int], name: str, tmp_path: Path
) -> None:
    runs = [run_of(Delivery.LOG, size, 500) for size in sizes]
    with Driven(tmp_path / "transfers", node="plant", segment="64K") as store:
        batches = list(in_batches(runs, "plant", name))
        assert [body for batch in batches for body in batch.bodies] == [body for run in runs for body in run.bodies]
        assert all(batch.header.length == len(batch.bodies[0]) for batch in batches)
        for batch in batches:
            first = Request(FRAME.life, store.parked + 1)
            assert store.step(SendTransfers(batch.header, batch.bodies, name, request=first)).done == len(batch.bodies)
        assert store.parked == 500 * len(sizes)
    assert len(batches) > 1 or sizes == [1]


def test_a_batch_that_is_logged_has_all_letters_for_which_there_is_room() -> None:
    runs = [run_of(Delivery.LOG, 200, 128)]
    (batch,) = in_batches(runs, "plant", "gauge")
    assert len(batch.bodies) == 128


def test_a_run_that_no_log_keeps_is_not_cut() -> None:
    run = run_of(Delivery.NORMAL, 4000, 500)
    assert list(in_batches([run])) == [Letters(*run)]


def test_runs_whose_headers_differ_in_their_length_alone_are_enqueued_together() -> None:
    runs = [run_of(Delivery.NORMAL, size, 2) for size in (3, 5, 3)]
    (letters,) = in_batches(runs)
    assert letters == Letters(runs[0].header, [b"000", b"001", b"00000", b"00001", b"000", b"001"])


@pytest.mark.parametrize(
    "other",
    [
        run_of(Delivery.LOG, 5, 2),
        run_of(Delivery.NORMAL, 5, 2, "other"),
        run_of(Delivery.NORMAL, 5, 2, "ingest/4711"),
        run_of(Delivery.NORMAL, 4096, 2),
    ],
)
def test_others_are_enqueued_by_themselves_and_in_their_place(other: Run) -> None:
    runs = [run_of(Delivery.NORMAL, 3, 2), other, run_of(Delivery.NORMAL, 4, 1)]
    assert [(one.header, len(one.bodies)) for one in in_batches(runs)] == [
        (run.header, len(run.bodies)) for run in runs
    ]
