"""The second frame: its bytes, and what a connection brings, however it is cut (R6)."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import rtmw
from rtmw.relay import Frame, FrameError
from rtmw.relay.frame import LONGEST_DATA, Filter, Hello, Kind, OwnSplitter, Packet, Welcome, encode

STAMP = b"20261129134412.1200000"
ORDER = Packet(Kind.ORDER, Frame("AODB", "EWR", STAMP, "O", "I", b"CA981\ngate 12"), 5, 1.5)
GOLDEN = b"\x3c\0\0\0\x01\x05\0\0\x60\xe3\x16\0\0\0\0\0AODBEWR 20261129134412.1200000\0\0\0OICA981\ngate 12"
"""60 bytes follow its length: 12, the head's 35 and 13 of data."""
GOLDEN_CRC = b"\x40" + GOLDEN[1:] + b"\xf8\xb0\xde\x39"
"""64, and behind them the CRC-32 of all before, as gzip has it."""


def test_a_frame_is_as_the_table_has_it() -> None:
    assert encode(ORDER) == GOLDEN
    assert OwnSplitter().feed(GOLDEN) == [ORDER]
    assert encode(ORDER, crc=True) == GOLDEN_CRC
    assert OwnSplitter(crc=True).feed(GOLDEN_CRC) == [ORDER]


def test_hello_and_welcome_are_as_the_table_has_them() -> None:
    hello = Hello(b"AODB", 10.0, 3, crc=True)
    raw = b"RTMWRLY\0\x01\0\x01\0AODB\0\0\0\0\0\0\x24\x40\x03\0\0\0"
    assert hello.encode() == raw
    assert Hello.decode(raw) == hello
    welcome = Welcome(5.0, 3, 1 << 20, STAMP)
    raw = b"RTMWRLY\0\x01\0\0\0\0\0\0\0\0\0\x14\x40\x03\0\0\0\0\0\x10\0" + STAMP
    assert welcome.encode() == raw
    assert Welcome.decode(raw) == welcome
    assert Welcome.decode(raw[:-22] + bytes(22)).highest == b""


packets = st.builds(
    Packet,
    st.sampled_from(Kind),
    st.builds(Frame, *[st.binary(min_size=n, max_size=n) for n in (4, 4, 22, 1, 1)], st.binary(max_size=60)),
    st.none() | st.integers(0, 254),
    st.integers(0, 1 << 40).map(lambda micro: micro / 1e6),
)


@given(st.lists(packets, max_size=4), st.booleans(), st.integers(0, 1 << 32))
def test_however_a_connection_is_cut_the_frames_are_the_same(sent: list[Packet], crc: bool, seed: int) -> None:
    raw, cut = b"".join(encode(one, crc) for one in sent), random.Random(seed)
    places = sorted(cut.choices(range(len(raw) + 1), k=3))
    for parts in (
        [raw],
        [raw[at : at + 1] for at in range(len(raw))],
        [raw[a:b] for a, b in zip([0, *places], [*places, len(raw)], strict=True)],
    ):
        splitter = OwnSplitter(crc=crc)
        assert [packet for part in parts for packet in splitter.feed(part)] == sent
        assert splitter.waiting == 0


def test_each_place_of_a_cut_gives_the_same_two_frames() -> None:
    raw = GOLDEN_CRC * 2
    for at in range(len(raw) + 1):
        splitter = OwnSplitter(crc=True)
        assert splitter.feed(raw[:at]) + splitter.feed(raw[at:]) == [ORDER, ORDER]


@given(st.lists(packets, min_size=1, max_size=3), st.data())
def test_a_changed_byte_gives_no_other_frame_where_there_is_a_crc(sent: list[Packet], data: st.DataObject) -> None:
    raw = bytearray(b"".join(encode(one, crc=True) for one in sent))
    raw[data.draw(st.integers(0, len(raw) - 1))] ^= data.draw(st.integers(1, 255))
    found = list[Packet]()
    try:
        found = OwnSplitter(crc=True).feed(bytes(raw))
    except FrameError:
        return
    assert found == sent[: len(found)]
    assert len(found) < len(sent)


@given(st.binary(max_size=300), st.booleans())
def test_any_bytes_are_frames_or_are_refused_in_words(data: bytes, crc: bool) -> None:
    splitter = OwnSplitter(crc)
    try:
        found = splitter.feed(data)
    except FrameError:
        return
    assert sum(len(encode(one, crc)) for one in found) + splitter.waiting == len(data)
    for kind in (Hello, Welcome):
        with pytest.raises(FrameError, match="is no hello"):
            kind.decode(data)


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"\x2e" + GOLDEN[1:], "length 46"),
        (b"\xff\xff\xff\xff", f"at most {LONGEST_DATA} bytes"),
        (GOLDEN[:4] + b"\x0a" + GOLDEN[5:], "kind 10 with 0 behind it; this side knows kinds 1 to 9"),
        (GOLDEN[:6] + b"\x01" + GOLDEN[7:], "kind 1 with 1"),
    ],
    ids=["short", "long", "kind", "zero"],
)
def test_what_is_no_frame_of_this_version_is_refused_with_the_reason(raw: bytes, words: str) -> None:
    with pytest.raises(FrameError, match=words):
        OwnSplitter().feed(raw)


def test_a_hello_of_another_version_is_refused_and_says_both() -> None:
    raw = Hello(b"AODB", 10.0, 3).encode()
    with pytest.raises(FrameError, match="version 2; this side speaks version 1"):
        Hello.decode(raw[:8] + b"\x02" + raw[9:])


@pytest.mark.parametrize(("priority", "lifetime"), [(256, 0.0), (-1, 0.0), (0, -1.0), (0, 1e14)])
def test_a_priority_or_lifetime_that_does_not_fit_is_refused(priority: int, lifetime: float) -> None:
    with pytest.raises(FrameError, match="do not fit"):
        encode(ORDER._replace(priority=priority, lifetime=lifetime))


# Proves R5.
def test_a_filter_has_a_source_a_command_and_a_performative() -> None:
    assert Filter.decode(b"") == Filter("*", "*", "*")
    assert Filter.decode(b"AODB\0U") == Filter("AODB", "U", "*")
    assert Filter.decode(Filter("AODB", "*", "tell").encode()) == Filter("AODB", "*", "tell")
    for wrong in (b"\0", b"A\0\0B", b"A\0B\0C\0D"):
        with pytest.raises(FrameError, match="is no filter"):
            Filter.decode(wrong)


def test_an_agent_does_not_subscribe_to_a_command_that_no_order_can_have() -> None:
    with (
        rtmw.Agent("AODB", server="127.0.0.1:1") as agent,
        pytest.raises(ValueError, match="'UU' is no command: it is one letter such as U"),
    ):
        agent.subscribe("FLTS", command="UU")


def test_an_agent_makes_its_folder_for_its_user_alone(tmp_path: Path) -> None:
    rtmw.Agent("AODB", server="127.0.0.1:1", folder=tmp_path / "deep" / "aodb").close()
    assert (tmp_path / "deep" / "aodb").stat().st_mode & 0o777 == 0o700
