"""The letters of a batch as they go out: which go together, and which alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

import rtmw
from rtmw import Delivery, Level
from rtmw.transfer.client.group import MOST_BYTES, MOST_TOGETHER
from rtmw.transfer.client.options import SendOptions
from rtmw.transfer.client.transfer import Alone, pieces
from rtmw.transfer.frames import BLOCK
from rtmw.transfer.records import LARGEST_INLINE


def options(delivery: Delivery = Delivery.NORMAL, lifetime: float | None = None) -> SendOptions:
    return SendOptions(delivery, Level.ACCEPTED, lifetime, None, 0, None)


def shape(bodies: Sequence[Any], to: str = "ingest", how: SendOptions | None = None) -> list[list[int] | int]:
    """Of each frame, how many letters its runs have; of a letter that goes alone, its bytes."""
    found = pieces(to, bodies, how or options())
    return [len(one.send.data) if isinstance(one, Alone) else [len(run.bodies) for run in one] for one in found]


def test_letters_of_one_size_go_in_full_frames_and_in_their_order() -> None:
    bodies = [b"%05d" % number for number in range(2 * MOST_TOGETHER + 3)]
    assert shape(bodies) == [[MOST_TOGETHER], [MOST_TOGETHER], [3]]
    found = pieces("ingest", bodies, options())
    assert [body for frame in found if not isinstance(frame, Alone) for run in frame for body in run.bodies] == bodies


def test_letters_of_several_sizes_share_a_frame_and_have_a_run_each() -> None:
    assert shape([b"1", b"2", b"33", b"4", b"5"]) == [[2, 1, 2]]
    assert shape([b"x"] * 100 + [b"yy"] * 100) == [[100], [100]]


def test_no_frame_has_more_bytes_than_it_may() -> None:
    size = 4000
    assert shape([bytes(size)] * 40) == [[MOST_BYTES // size]] * 2 + [[40 % (MOST_BYTES // size)]]
    assert shape([bytes(size), b"x"] * 17) == [[1, 1] * 16, [1, 1]]


@pytest.mark.parametrize("body", [bytes(LARGEST_INLINE + 1), bytes(BLOCK + 1), [rtmw.Part(b"x")], rtmw.File("a.csv")])
def test_what_is_large_or_has_parts_or_files_goes_alone_and_in_its_place(body: Any) -> None:
    before, alone, behind = shape([b"1", b"2", body, b"3"])
    assert (before, behind) == ([2], [1])
    assert isinstance(alone, int)


def test_the_largest_body_that_lies_in_a_record_goes_with_others() -> None:
    assert shape([bytes(LARGEST_INLINE), bytes(LARGEST_INLINE)]) == [[2]]


def test_what_each_receiver_gets_goes_alone() -> None:
    assert shape([b"1", b"22"], "ingest/*") == [1, 2]


@pytest.mark.parametrize("to", ["ingest", "ingest/4711", "ingest@hub"])
def test_letters_with_a_lifetime_or_for_one_process_or_another_node_go_together(to: str) -> None:
    assert shape([b"1", b"2"], to, options(lifetime=60)) == [[2]]


@pytest.mark.parametrize(
    ("bodies", "error", "at"),
    [
        ([b"1", b""], ValueError, 1),
        ([b"1", b"2", 7], TypeError, 2),
        ([b"1", bytearray(), b"2"], ValueError, 1),
        ([rtmw.Part(b"x"), b"1"], TypeError, 0),
        ([b"1", []], ValueError, 1),
    ],
)
def test_a_body_that_cannot_be_sent_is_named_by_its_index(bodies: list[Any], error: type[Exception], at: int) -> None:
    with pytest.raises(error) as found:
        pieces("ingest", bodies, options())
    assert found.value.__notes__ == [f"That is bodies[{at}]; nothing was sent."]


def test_nothing_goes_out_for_no_bodies() -> None:
    assert pieces("ingest", [], options()) == []
