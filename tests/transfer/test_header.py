"""T1, T3, T4, T8: header and body, ours and the paper's, as bytes and back; and bytes that nobody wrote."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtmw.transfer.address import Address
from rtmw.transfer.errors import TransfersDamaged
from rtmw.transfer.header import (
    Content,
    Delivery,
    File,
    Header,
    Kind,
    Level,
    is_alike,
    pack_body,
    pack_paper,
    resized,
    unpack_body,
    unpack_header,
    unpack_paper,
)

GOLDEN = Path(__file__).parent / "golden"
HOUR_NS = 3_600_000_000_000

WRITTEN: dict[str, tuple[Content, dict[str, object]]] = {
    "buf": (b"level 4.2 m", {"lifetime_ns": HOUR_NS, "level": Level.DELIVERED, "delivery": Delivery.LOG}),
    "file": (File("run.mcap", "in/größer.mcap"), {"timeout_ns": 10_000_000_000, "level": Level.SENT}),
    "composite": ((b"head", File("a.bin", ""), b"\0"), {"level": Level.ACCEPTED}),
}
"""What the golden files hold, in both forms."""

NAMES = st.text(st.characters(blacklist_characters="\0", blacklist_categories=["Cs"]), min_size=1, max_size=20)
SIMPLE = st.one_of(st.binary(min_size=1, max_size=100), st.builds(File, NAMES, NAMES))
CONTENTS = st.one_of(SIMPLE, st.lists(SIMPLE, min_size=1, max_size=4).map(tuple))
ADDRESSES = st.sampled_from(["ingest", "ingest/4711", "ingest/*", "a.b-c@host-1", "in/1@n"]).map(Address.parse)
TIMES = st.integers(0, (1 << 63) - 1)


def header_of(content: Content, **more: object) -> Header:
    kind, body = pack_body(content)
    return Header(Address.parse("ingest/*@hostB"), kind, len(body), **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", WRITTEN)
# Proves T1.
def test_t1_our_form_has_the_bytes_of_the_golden_file(name: str) -> None:
    content, more = WRITTEN[name]
    golden = (GOLDEN / f"{name}.transfer").read_bytes()
    assert header_of(content, **more).pack() + pack_body(content)[1] == golden
    header, size = unpack_header(golden)
    assert header == header_of(content, **more)
    assert unpack_body(header.kind, golden[size:]) == content


@pytest.mark.parametrize("name", WRITTEN)
def test_a_header_of_another_length_is_alike_and_has_all_else(name: str) -> None:
    content, more = WRITTEN[name]
    header = header_of(content, **more)
    other = resized(header, 1 << 40)
    assert other == Header(header.to, header.kind, 1 << 40, **more)  # type: ignore[arg-type]
    assert is_alike(header, other)
    assert resized(header, header.length) is header


@pytest.mark.parametrize(
    "more", [{"priority": 1}, {"level": Level.SENT}, {"delivery": Delivery.LOG}, {"timeout_ns": 1}, {"lifetime_ns": 1}]
)
def test_headers_that_differ_in_more_than_their_length_are_not_alike(more: dict[str, object]) -> None:
    assert is_alike(header_of(b"one"), header_of(b"three"))
    assert not is_alike(header_of(b"one"), header_of(b"one", **more))
    assert not is_alike(header_of(b"one"), Header(Address.parse("other/*@hostB"), Kind.BUF, 3))


@pytest.mark.parametrize("name", WRITTEN)
# Proves T1.
def test_t1_the_papers_form_has_the_bytes_of_the_golden_file(name: str) -> None:
    content, more = WRITTEN[name]
    golden = (GOLDEN / f"{name}.paper").read_bytes()
    assert pack_paper(header_of(content, **more), content) == golden
    assert unpack_paper(golden) == (header_of(content, **more), content)


@pytest.mark.parametrize(("name", "length"), [("buf", 11), ("file", 0), ("composite", -1)])
def test_t4_in_the_papers_form_the_length_says_what_the_body_is(name: str, length: int) -> None:
    assert int.from_bytes((GOLDEN / f"{name}.paper").read_bytes()[:4], "little", signed=True) == length


def test_t4_a_file_of_the_paper_is_source_comma_destination() -> None:
    assert (GOLDEN / "file.paper").read_bytes().endswith("run.mcap,in/größer.mcap".encode())


@given(CONTENTS, ADDRESSES, st.sampled_from(Level), st.integers(0, 7), TIMES, TIMES)
def test_what_is_written_is_read(
    content: Content, to: Address, level: Level, priority: int, lifetime: int, timeout: int
) -> None:
    kind, body = pack_body(content)
    header = Header(to, kind, len(body), level, Delivery.LOG, priority, lifetime, timeout)
    data = header.pack()
    assert unpack_header(data + body) == (header, len(data))
    assert unpack_body(kind, body) == content


@given(CONTENTS, ADDRESSES, st.integers(0, 3), st.integers(0, (1 << 32) - 1))
def test_what_the_papers_form_can_say_is_read_as_it_was_written(
    content: Content, to: Address, level: int, seconds: int
) -> None:
    kind, body = pack_body(content)
    header = Header(to, kind, len(body), Level(level), Delivery.LOG, 0, seconds * 10**9, 0)
    simple = content if isinstance(content, tuple) else (content,)
    if any("," in part.source + part.destination for part in simple if isinstance(part, File)):
        with pytest.raises(ValueError, match="comma"):
            pack_paper(header, content)
        return
    data = pack_paper(header, content)
    assert unpack_paper(data) == (header, content)


@given(st.binary(max_size=120))
def test_bytes_that_nobody_wrote_are_refused_with_a_position_or_mean_what_they_say(data: bytes) -> None:
    refused: TransfersDamaged | None = None
    try:
        header, size = unpack_header(data, 4096)
        assert header.pack() == data[:size]
    except TransfersDamaged as error:
        refused = error
    assert refused is None or refused.position == 4096
    with suppress(TransfersDamaged):
        assert pack_paper(*unpack_paper(data)) == data
    for kind in Kind:
        try:
            content = unpack_body(kind, data)
        except TransfersDamaged:
            continue
        assert pack_body(content) == (kind, data)


@pytest.mark.parametrize("form", ["transfer", "paper"])
@pytest.mark.parametrize("name", WRITTEN)
def test_whichever_bit_is_turned_the_bytes_are_refused_or_mean_another_transfer(name: str, form: str) -> None:
    golden = (GOLDEN / f"{name}.{form}").read_bytes()
    for bit in range(len(golden) * 8):
        data = bytearray(golden)
        data[bit // 8] ^= 1 << bit % 8
        try:
            if form == "paper":
                again = pack_paper(*unpack_paper(data))
            else:
                header, size = unpack_header(data)
                again = header.pack() + pack_body(unpack_body(header.kind, data[size:]))[1]
        except TransfersDamaged:
            continue
        assert again == data


@pytest.mark.parametrize("name", WRITTEN)
def test_a_transfer_that_is_cut_anywhere_is_refused_or_shorter(name: str) -> None:
    golden = (GOLDEN / f"{name}.paper").read_bytes()
    for size in range(len(golden)):
        try:
            header, content = unpack_paper(golden[:size])
        except TransfersDamaged:
            continue
        assert pack_paper(header, content) == golden[:size]
        assert isinstance(content, File), "a BUF and a COMPOSITE say how long they are"


@pytest.mark.parametrize("content", [b"", (), (b"",), (b"a", b"")])
def test_t1_an_empty_buf_is_refused_because_a_length_of_0_says_file(content: Content) -> None:
    with pytest.raises(ValueError, match="is not possible"):
        pack_body(content)
    with pytest.raises(ValueError, match="is not possible"):
        Header(Address.parse("ingest"), Kind.BUF, 0)


@pytest.mark.parametrize("file", [File("a,b", "c"), File("a", "b,c")])
def test_t1_a_name_with_a_comma_needs_our_form(file: File) -> None:
    with pytest.raises(ValueError, match="has a comma"):
        pack_paper(header_of(file), file)
    kind, body = pack_body(file)
    assert unpack_body(kind, body) == file


@pytest.mark.parametrize("more", [{"priority": 1}, {"level": Level.CONSUMED}, {"lifetime_ns": 1_500_000_000}])
def test_what_the_papers_form_cannot_say_is_refused_and_not_bent(more: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="paper's form"):
        pack_paper(header_of(b"a", **more), b"a")


@pytest.mark.parametrize("level", [Level.SENT, Level.DELIVERED, Level.CONSUMED])
def test_t3_nobody_waits_for_what_small_raw_does_not_tell(level: Level) -> None:
    with pytest.raises(ValueError, match="SMALL_RAW"):
        header_of(b"a", delivery=Delivery.SMALL_RAW, level=level)
    assert header_of(b"a", delivery=Delivery.SMALL_RAW, level=Level.ACCEPTED)


@pytest.mark.parametrize("wrong", [{"priority": 8}, {"priority": True}, {"lifetime_ns": -1}, {"timeout_ns": 1 << 63}])
def test_numbers_that_the_header_has_no_room_for_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="is not possible"):
        header_of(b"a", **wrong)


def test_a_composite_in_a_composite_is_refused() -> None:
    _, body = pack_body((b"a",))
    nested = b"\x01\x00\x03" + len(body).to_bytes(8, "little") + body
    with pytest.raises(TransfersDamaged, match="no composites"):
        unpack_body(Kind.COMPOSITE, nested)


@pytest.mark.parametrize(("source", "destination"), [("", "a"), ("a\0b", ""), ("a", "\0")])
def test_a_file_that_cannot_have_that_name_is_refused(source: str, destination: str) -> None:
    with pytest.raises(ValueError, match="is not possible"):
        File(source, destination)
