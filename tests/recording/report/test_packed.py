"""Columns in few bytes: the same numbers come back, and a report holds little of each message."""

from __future__ import annotations

import random
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from rtmw.recording.contents import UNSET_NS
from rtmw.recording.report.build import facts_of
from rtmw.recording.report.facts import Contents, contents_of
from rtmw.recording.report.figures import KINDS, PackedRows, packed
from tests.recording.report.made import night
from tests.recordings import BEGIN_NS, numbered

SPANS = [0, 1, 0xFF, 0x100, 0xFFFF, 0x10000, 0xFFFFFFFF, 0x100000000]


@pytest.mark.parametrize("span", SPANS)
@pytest.mark.parametrize("least", [-7, 0, BEGIN_NS])
def test_the_numbers_of_a_column_come_back(least: int, span: int) -> None:
    numbers = random.Random(span)
    pieces = [np.array([least, least + span, *(least + numbers.randint(0, span) for _ in range(50))]) for _ in range(3)]
    rows = PackedRows([{"log": packed(piece)} for piece in pieces], {"log": np.dtype(np.int64)})
    assert rows["log"].tolist() == np.concatenate(pieces).tolist()
    assert rows["log"].dtype == np.int64


def test_so_do_times_that_nobody_set_and_small_kinds() -> None:
    pieces = [np.array([0, UNSET_NS, BEGIN_NS]), np.array([UNSET_NS] * 3)]
    rows = PackedRows([{"log": packed(piece)} for piece in pieces], KINDS)
    assert rows["log"].tolist() == [0, UNSET_NS, BEGIN_NS, *[UNSET_NS] * 3]
    bands = PackedRows([{"band": packed(np.array([0, 7, 255], np.uint8))}], KINDS)["band"]
    assert (bands.dtype, bands.tolist()) == (np.uint8, [0, 7, 255])


def test_a_column_needs_no_more_bytes_than_the_differences_of_its_numbers() -> None:
    sizes = [piece.above.itemsize if piece.above is not None else 0
             for piece in (packed(np.array([BEGIN_NS, BEGIN_NS + span])) for span in SPANS)]  # fmt: skip
    assert sizes == [0, 1, 1, 2, 2, 4, 4, 8]


def peak(contents: Contents) -> int:
    """Bytes that a report holds at most."""
    tracemalloc.start()
    try:
        facts_of(contents)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_report_holds_less_than_eighty_bytes_of_a_message(tmp_path: Path) -> None:
    few, many = (contents_of([numbered(tmp_path / f"{count}.mcap", ["t"], count)]) for count in (30_000, 130_000))
    peak(few)  # what is imported, and made once
    assert peak(many) - peak(few) < 100_000 * 80


def test_progress_counts_each_message_when_it_is_read_and_when_its_topic_is_measured(tmp_path: Path) -> None:
    contents = contents_of([night(tmp_path / "a.mcap"), numbered(tmp_path / "b.mcap", ["x"], 50)])
    told = list[tuple[int, int]]()
    facts_of(contents, progress=lambda done, all: told.append((done, all)))
    all = 2 * contents.run.messages
    assert told[-1] == (all, all)
    assert {each for _, each in told} == {all}
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    assert len(told) >= 2 + 4  # chunks and topics
