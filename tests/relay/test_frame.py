"""The frame of the paper: table 1 byte by byte, both sums, and what a connection brings, however it is cut (R6)."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtmw.relay import Form, Frame, FrameError, Splitter
from rtmw.relay.frame import ANSWERED, HEAD, LONGEST, address_of, readable

STAMP = b"2026-11-29 13:44:12.12"
LATER = b"2026-11-29 13:44:12.15"
ORDER = Frame("AODB", "EWR", STAMP, "O", "I", b"CA981 gate 12")
GOLDEN = {
    "A": b"\x02AODBEWR 2026-11-29 13:44:12.12\x00\x0awOICA981 gate 12\n",
    "B": b"\x02AODBEWR 2026-11-29 13:44:12.12679OICA981 gate 12\n",
}
"""By hand from table 1: 2 + 280 + 258 + … of all bytes but the three of the sum."""


def sum_by_hand(raw: bytes) -> int:
    return sum(byte for at, byte in enumerate(raw) if not 31 <= at < 34)


@pytest.mark.parametrize("kind", ["A", "B"])
# Proves R6.
def test_a_frame_is_as_table_1_has_it(kind: str) -> None:
    raw = ORDER.encode(kind)
    assert raw == GOLDEN[kind]
    assert (raw[0], raw[1:5], raw[5:9], raw[9:31], raw[34:36], raw[36:-1]) == (
        *(2, b"AODB", b"EWR ", STAMP, b"OI", b"CA981 gate 12"),
    )  # fmt: skip
    total = sum_by_hand(raw)
    assert raw[31:34] == (total.to_bytes(3, "big") if kind == "A" else b"%03d" % (total % 1000))
    found = Frame.decode(raw)
    assert found == ORDER
    assert found.checksum == raw[31:34]


# Proves R6.
def test_a_receipt_swaps_the_addresses_and_has_stamp_and_checksum_of_the_order() -> None:
    raw = ORDER.encode()
    receipt = Frame.decode(raw).receipt(LATER)
    assert (receipt.source, receipt.destination, receipt.stamp, receipt.type) == (b"EWR ", b"AODB", LATER, b"A")
    assert receipt.answers == (STAMP, raw[31:34])
    assert receipt.body == b""
    assert b"\n" in receipt.data, "the sum of this order has a line feed in it, and the receipt carries that"
    assert Frame.decode(receipt.encode()) == receipt


def test_an_alert_is_an_answer_with_a_command_of_its_own_and_the_cause_in_words() -> None:
    alert = Frame.decode(ORDER.encode()).alert(LATER, "EWR has not answered\nwithin 20 s")
    assert (alert.type, alert.command, alert.answers[0]) == (b"A", b"!", STAMP)
    assert Frame.decode(alert.encode()).body == b"EWR has not answered within 20 s"


# Proves R6.
def test_the_first_frame_fixes_which_sum_a_connection_has() -> None:
    splitter = Splitter()
    assert splitter.feed(GOLDEN["B"]) == [ORDER]
    assert splitter.checksum == "B"
    assert splitter.feed(GOLDEN["A"]) == []
    assert splitter.bad["wrong checksum"] == 1


def test_a_return_before_the_line_feed_goes_only_if_the_sum_is_right_without_it() -> None:
    raw = ORDER.encode()
    assert Frame.decode(raw[:-1] + b"\r\n") == ORDER
    ends = Frame("AODB", "EWR", STAMP, "O", "I", b"text\r")
    assert Frame.decode(ends.encode()) == ends


# Proves R6.
def test_values_that_the_paper_leaves_open_are_settings() -> None:
    form = Form(header=0x7E, order=b"0", answer=b"1", alert=b"F", longest=100)
    order = Frame("AODB", "EWR", STAMP, "0", "U", b"x")
    raw = order.encode(form=form)
    assert raw[0] == 0x7E
    receipt = Frame.decode(raw, form=form).receipt(LATER, form)
    assert receipt.type == b"1"
    with pytest.raises(FrameError, match="101 bytes; the longest has 100"):
        Frame("AODB", "EWR", STAMP, "0", "U", bytes(64)).encode(form=form)


frames = st.builds(
    Frame,
    st.binary(min_size=4, max_size=4),
    st.binary(min_size=4, max_size=4),
    st.binary(min_size=22, max_size=22),
    st.sampled_from([b"O", b"X"]),
    st.binary(min_size=1, max_size=1),
    st.binary(max_size=60).map(lambda data: data.replace(b"\n", b"")),
) | st.builds(
    lambda order, body: Frame(order.source, order.destination, order.stamp, b"A", b"I", order.stamp + b"\0\n\n" + body),
    st.builds(Frame, *[st.binary(min_size=n, max_size=n) for n in (4, 4, 22)], st.just(b"O"), st.just(b"I")),
    st.binary(max_size=60).map(lambda data: data.replace(b"\n", b"")),
)
pieces = frames.map(Frame.encode) | st.binary(max_size=80) | frames.map(lambda one: one.encode()[1:])


def fed(parts: list[bytes], form: Form = Form()) -> tuple[list[Frame], Counter[str], str, int]:  # noqa: B008
    splitter = Splitter(form=form)
    found = [frame for part in parts for frame in splitter.feed(part)]
    return found, splitter.bad, splitter.checksum, splitter.waiting


@given(st.lists(frames, max_size=6))
def test_frames_behind_one_another_come_as_they_were_sent(sent: list[Frame]) -> None:
    found, bad, _, waiting = fed([b"".join(one.encode() for one in sent)])
    assert (found, bad, waiting) == (sent, Counter(), 0)


@given(st.lists(pieces, max_size=8), st.integers(0, 1 << 32), st.sampled_from([90, LONGEST]))
# Proves G340.
def test_however_a_connection_is_cut_the_frames_and_the_faults_are_the_same(
    parts: list[bytes], seed: int, longest: int
) -> None:
    raw, cut, form = b"".join(parts), random.Random(seed), Form(longest=longest)
    whole = fed([raw], form)
    assert fed([raw[at : at + 1] for at in range(len(raw))], form) == whole
    places = sorted(cut.choices(range(len(raw) + 1), k=3))
    assert fed([raw[a:b] for a, b in zip([0, *places], [*places, len(raw)], strict=True)], form) == whole


@given(st.binary(max_size=200).filter(lambda data: b"\x02" not in data), frames)
def test_behind_garbage_a_frame_is_found_from_the_next_line_feed_on(garbage: bytes, sent: Frame) -> None:
    found, bad, _, waiting = fed([garbage + b"\n" + sent.encode() + sent.encode()])
    assert found[-2:] == [sent, sent]
    assert sum(bad.values()) >= 1
    assert waiting == 0


@given(frames.filter(lambda one: not one.data.endswith(b"\r")), st.data())
# Proves R6.
def test_a_frame_of_which_a_byte_was_changed_never_passes_for_another_one(sent: Frame, data: st.DataObject) -> None:
    """Behind a CR the sum may also be right without it, as where another byte has grown by 13."""
    raw = bytearray(sent.encode())
    at = data.draw(st.integers(0, len(raw) - 1))
    raw[at] ^= data.draw(st.integers(1, 255))
    found, _, kind, _ = fed([bytes(raw)])
    assert found == [] or (kind == "B" and sent.checksum != found[0].checksum)


def test_too_long_and_endless_frames_take_no_memory_and_the_next_one_is_found() -> None:
    splitter = Splitter()
    for _ in range(100):
        assert splitter.feed(b"\x02" + b"x" * 9999) == []
        assert splitter.waiting <= LONGEST
    assert splitter.bad == {"too long": 1}
    assert splitter.feed(b"\n" + ORDER.encode()) == [ORDER]


def test_ten_thousand_starts_of_frames_cost_no_more_than_their_bytes() -> None:
    """Each of them begins a frame that ends in the next but some line feed."""
    splitter = Splitter()
    assert splitter.feed(b"\x02\n" * 10_000 + b"x" * HEAD + b"\n") == []
    assert splitter.bad["wrong checksum"] >= 9_980


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        (("AODBX", "EWR", STAMP, "O", "I"), "'AODBX' is no address"),
        (("", "EWR", STAMP, "O", "I"), "'' is no address"),
        (("AODB", b"EWR", STAMP, "O", "I"), "destination is b'EWR'; a frame has 4 bytes there"),
        (("AODB", "EWR", b"now", "O", "I"), "stamp is b'now'; a frame has 22 bytes there"),
        (("AODB", "EWR", STAMP, "order", "I"), "type is b'order'; a frame has 1 byte there"),
        (("AODB", "EWR", STAMP, "O", "I", "text"), "data is of str; a frame carries bytes"),
    ],
)
def test_fields_that_make_no_frame_are_refused_by_name(fields: tuple[object, ...], words: str) -> None:
    with pytest.raises(FrameError, match=words):
        Frame(*fields)  # type: ignore[arg-type]


# Proves R6.
def test_data_with_a_line_feed_is_refused() -> None:
    with pytest.raises(FrameError, match="at byte 3, which would end the frame there"):
        Frame("AODB", "EWR", STAMP, "O", "I", b"one\ntwo").encode()
    with pytest.raises(FrameError, match="begins with the 25"):
        Frame("AODB", "EWR", STAMP, "A", "I", b"short").encode()
    with pytest.raises(FrameError, match="no checksum 'C'"):
        ORDER.encode("C")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "ends before its line feed, after 0 bytes"),
        (GOLDEN["A"][:-1], "ends before its line feed"),
        (GOLDEN["A"] + GOLDEN["A"], "more than one frame"),
        (b"\x03" + GOLDEN["A"][1:], "another header"),
        (GOLDEN["A"].replace(b"12\n", b"13\n"), "wrong checksum"),
    ],
)
def test_bytes_that_are_no_frame_are_refused_with_the_reason(data: bytes, words: str) -> None:
    with pytest.raises(FrameError, match=words):
        Frame.decode(data)


# Proves R6.
def test_an_address_is_four_letters_or_any_bytes() -> None:
    for text in ("A", "EWR", "AODB", "hex:00ff0a20"):
        assert readable(address_of(text)) == text
    assert address_of("EWR") == b"EWR "
    assert ANSWERED == 25


def test_a_frame_without_a_checksum_has_no_receipt_that_could_name_it() -> None:
    made = Frame("AODB", "GATE", STAMP, "O", "I", b"gate 12")
    with pytest.raises(FrameError, match="an answer of 22 bytes; it begins with the 25 of what it answers"):
        made.receipt(STAMP).encode()
