"""From records to a state: where it begins, and that it says how far it is."""

from __future__ import annotations

import logging

import pytest

from rtmw.transfer.records import pack
from rtmw.transfer.recovery import LOOK, checkpoint_of, pack_state, redo, saying
from rtmw.transfer.state import State
from tests.transfer.test_redo_runs import letters

NEVER_UNPACKED = b"\xff\x01 what a later version may have written"


def test_what_lies_before_the_first_whole_checkpoint_is_not_unpacked() -> None:
    state = letters(3).state
    parts = [pack(part) for part in checkpoint_of(state)]
    before = [NEVER_UNPACKED, pack(next(iter(checkpoint_of(State())))).replace(b"\x01\x0b", b"\x01\x0c", 1)]
    records = list(enumerate([*before, *parts], start=1 << 40))
    done = redo(records)
    assert done.state is not None
    assert (pack_state(done.state), done.checkpoint) == (pack_state(state), (1 << 40) + len(before))


def test_a_log_that_takes_long_to_read_says_how_far_it_is(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "rtmw.transfer")
    records = [(at << 10, b"") for at in range(100, 100 + 2 * LOOK)]
    assert list(saying(records, (100 + 4 * LOOK) << 10, every=0)) == records
    said = [record.getMessage() for record in caplog.records]
    assert said == [f"reads the log of its transfers: {done} of 4.0 MiB" for done in ("0 B", "1.0 MiB")]


def test_a_log_that_is_read_at_once_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "rtmw.transfer")
    assert len(list(saying([(1, b"")] * (LOOK + 1), 2))) == LOOK + 1
    assert not caplog.records
