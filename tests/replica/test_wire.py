"""What nodes say to each other of logs, as bytes: each message comes back as it was, and garbage is an error."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rtmw.replica import wire
from rtmw.replica import words as w

LOG, COPY = b"log-" * 4, b"copy" * 4
A, B, C = (wire.member_id(name, bytes([number]) * 16) for number, name in enumerate("abc"))
CONTROL = w.Control(
    3, A, frozenset({A, B, C}), {A: 1, B: 2}, frozenset({C}), 800, (w.Slice(800, 900), w.Slice(900, 1200)),
    w.Settings(min_insync=2, lag=3),
)  # fmt: skip
MESSAGES: list[w.Message] = [
    w.Beat(3, 1200, 8, CONTROL, {A: 1200, B: 900}, (4, 5), ((1, 400), (3, 1200)), 1200),
    w.Beat(3, 1200, 8, CONTROL, {}, (0, 0)),
    w.Batches(3, 800, b"as they lie", 700),
    w.Ack(3, 1200, 1300, 2, 3, (4, 5), is_full=True),
    w.Ack(0, 0, 0, 1, 0, (1, 1), is_beat=True),
    w.TakeOver(3),
]
NUMBERS = st.integers(0, (1 << 63) - 1)


def read(data: bytes, sizes: int = 1 << 20) -> list[wire.Frame]:
    split = wire.splitter()
    return [
        frame for at in range(0, len(data), sizes) for frame in wire.frames_in(split, data[at : at + sizes])
    ]  # fmt: skip


@pytest.mark.parametrize("sizes", [1, 7, 1 << 20])
def test_each_message_comes_as_it_was_said_however_it_is_cut(sizes: int) -> None:
    data = b"".join(wire.pack(LOG, COPY, one) for one in MESSAGES)
    assert read(data, sizes) == [wire.Frame(LOG, COPY, one) for one in MESSAGES]


def test_the_bytes_of_version_1_stay_as_they_are() -> None:
    head = b"\x3a\0\0\0\3\0\0\0" + LOG + COPY
    numbers = b"".join(number.to_bytes(8, "little") for number in (3, 1200, 1300, 2, 3, 4, 5))
    assert wire.pack(LOG, COPY, MESSAGES[3]) == head + numbers + b"\1\0"
    epoch, position, commit = (number.to_bytes(8, "little") for number in (3, 800, 700))
    head = b"\x23\0\0\0\2\0\0\0" + LOG + COPY
    assert wire.pack(LOG, COPY, MESSAGES[2]) == head + epoch + position + commit + b"as they lie"
    assert wire.pack(LOG, COPY, MESSAGES[5]) == b"\x08\0\0\0\4\0\0\0" + LOG + COPY + epoch


@given(st.lists(NUMBERS, min_size=7, max_size=7), st.booleans(), st.booleans(), st.binary(max_size=100))
@settings(max_examples=50, deadline=None)
def test_numbers_at_their_limits_come_as_they_were_said(n: list[int], full: bool, beat: bool, data: bytes) -> None:
    ack = w.Ack(n[0], n[1], n[2], n[3], n[4], (n[5], n[6]), full, beat)
    said: list[w.Message] = [ack, w.Batches(n[0], n[1], data, n[2]), w.TakeOver(n[0])]
    assert [frame.message for frame in read(b"".join(wire.pack(LOG, COPY, one) for one in said))] == said


def test_a_kind_of_a_later_version_is_passed_over() -> None:
    later = wire.HEAD.pack(5, 77, LOG, COPY) + b"later"
    assert read(later + wire.pack(LOG, COPY, w.TakeOver(3))) == [wire.Frame(LOG, COPY, w.TakeOver(3))]


def test_a_frame_that_is_too_large_is_refused_by_its_head() -> None:
    with pytest.raises(ValueError, match="too many"):
        read(wire.HEAD.pack(wire.MOST + 1, 2, LOG, COPY))


@given(st.sampled_from(MESSAGES), st.data())
@settings(max_examples=300, deadline=None)
# Proves G367.
def test_bytes_that_were_spoiled_are_an_error_or_another_message_and_nothing_else(
    message: w.Message, data: Any
) -> None:
    packed = bytearray(wire.pack(LOG, COPY, message))
    for _ in range(data.draw(st.integers(1, 4))):
        packed[data.draw(st.integers(4, len(packed) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(packed)))
    body = bytes(packed[wire.HEAD.size : max(cut, wire.HEAD.size)])
    try:
        read(wire.HEAD.pack(len(body), packed[4], LOG, COPY) + body)
    except ValueError as error:
        assert "is not as version 1 has it" in str(error)  # noqa: PT017


# ---- the control value ----


def test_the_value_in_the_store_comes_as_it_was_written() -> None:
    assert wire.control_in(wire.pack_control(LOG, CONTROL)) == (LOG, CONTROL)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("version", 2), ("uuid", 7), ("epoch", -1), ("epoch", True), ("members", []), ("members", ["a"]),
        ("members", [A]), ("in_sync", {}), ("in_sync", {A: "1"}), ("pending", ["../x." + "0" * 32]),
        ("slices", [[9, 3]]),
        ("slices", [[0, 10], [20, 30]]), ("settings", {}), ("settings", {**vars(CONTROL.settings), "min_insync": 4}),
        ("settings", {**vars(CONTROL.settings), "lag": "2s"}), ("checkpoint", None), ("master", 3),
    ],
)  # fmt: skip
# Proves G367.
def test_a_garbled_value_of_the_store_is_an_error(key: str, value: object) -> None:
    told = json.loads(wire.pack_control(LOG, CONTROL)) | {key: value}
    with pytest.raises(ValueError, match="a value that is no state of a log"):
        wire.control_in(json.dumps(told).encode())
    del told[key]
    with pytest.raises(ValueError, match="a value that is no state of a log"):
        wire.control_in(json.dumps(told).encode())


@pytest.mark.parametrize("state", [b"", b"{}", b"[]", b"\xff", b"3", b"[" * 100_000])
def test_bytes_that_are_no_value_are_an_error(state: bytes) -> None:
    with pytest.raises(ValueError, match="a value that is no state of a log"):
        wire.control_in(state)
