"""Recordings that are damaged, or made to harm: what was written comes out, or a refusal that says where."""

from __future__ import annotations

import itertools
import random
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import zstandard

import rtmw
from rtmw.recording import Recording, RecordingWriter, records
from rtmw.recording.records import MAGIC, Opcode
from tests.recording.foreign import START, write_foreign
from tests.recording.hostile import (
    CHANNEL,
    MESSAGE,
    chunk,
    lz4_chunk,
    lz4_tail,
    message,
    write_hostile,
    zstd_chunk,
    zstd_tail,
)
from tests.recording.test_recording import write_ours

MESSAGES = 60
LATE = 1 << 63
OTHER = records.channel(1, 0, "other", "json", {})

HOSTILE = {
    "a message shorter than its header": [CHANNEL, chunk(records.record(Opcode.MESSAGE, bytes(21)))],
    "a message longer than its chunk": [CHANNEL, chunk(struct.pack("<BQ", 5, LATE) + bytes(64))],
    "a record cut short by its chunk": [CHANNEL, chunk(MESSAGE + b"\5\1")],
    "a chunk inside of a chunk": [CHANNEL, chunk(chunk(MESSAGE))],
    "a log time after the year 2262": [CHANNEL, chunk(message(log_time=LATE), times=(0, 5000))],
    "a chunk of other times than its messages": [CHANNEL, chunk(MESSAGE, times=(1001, 1002))],
    "messages of no channel": [chunk(message(5))],
    "messages of no channel, outside of chunks": [CHANNEL, message(5)],
    "a channel with the number of another": [CHANNEL, OTHER, chunk(MESSAGE)],
    "a channel with the number of another, in a chunk": [CHANNEL, chunk(OTHER + MESSAGE)],
    "a schema with the number of another": [records.schema(1, "A", "x", b""), records.schema(1, "B", "x", b"")],
    "an unknown compression": [CHANNEL, chunk(MESSAGE, compression="lzma")],
    "a compression of a long name": [CHANNEL, chunk(MESSAGE, compression="x" * 4000)],
    "what is not compressed as it says": [CHANNEL, chunk(MESSAGE, compression="lz4")],
    "what is not compressed as it says, either": [CHANNEL, chunk(MESSAGE, compression="zstd")],
    "another CRC": [CHANNEL, chunk(MESSAGE, crc=1)],
    "more than it claims": [CHANNEL, lz4_chunk(MESSAGE, claim=len(MESSAGE) - 1)],
    "less than it claims": [CHANNEL, lz4_chunk(MESSAGE, claim=len(MESSAGE) + 1)],
    "another size than it claims, uncompressed": [CHANNEL, chunk(MESSAGE, claim=len(MESSAGE) + 1)],
    "a claim of more than memory": [CHANNEL, zstd_chunk(MESSAGE, claim=1 << 50)],
    "a claim of more than lz4 can do": [CHANNEL, lz4_chunk(MESSAGE, claim=1 << 30)],
    "a bomb of lz4": [CHANNEL, lz4_chunk(bytes(1 << 26), claim=1000)],
    "a bomb of zstd": [CHANNEL, zstd_chunk(bytes(1 << 26), claim=1000)],
    "something behind what lz4 compressed": [CHANNEL, lz4_tail(MESSAGE)],
    "something behind what zstd compressed": [CHANNEL, zstd_tail(MESSAGE)],
    "text that is not UTF-8": [records.record(Opcode.CHANNEL, struct.pack("<HHI", 1, 0, 2), b"\xff\xfe" + bytes(8))],
    "a text longer than its record": [records.record(Opcode.CHANNEL, struct.pack("<HHI", 1, 0, 1 << 31))],
    "a record of kind 0": [b"\0" + struct.pack("<Q", 3) + b"abc"],
    "zeros in the middle": [bytes(100), CHANNEL],
    "a chunk that claims to be endless": [struct.pack("<BQ", 6, LATE) + bytes(100)],
    "a message index of nothing": [records.record(Opcode.MESSAGE_INDEX, struct.pack("<HI", 1, 0))],
    "a message index with a part of an entry": [
        CHANNEL, chunk(MESSAGE), records.record(Opcode.MESSAGE_INDEX, struct.pack("<HI", 1, 15), bytes(15))
    ],
    "an unknown record that claims to be endless": [struct.pack("<BQ", 0x77, 1 << 50)],
}  # fmt: skip


def content_of(path: Path) -> tuple[list[Any], ...]:
    """Everything of a recording that has a CRC, in every way in which it can be asked for."""
    with Recording(path) as recording:
        rows = [
            (m.channel, m.sequence, m.log_time, m.publish_time, m.payload, m.priority, m.publisher, m.expires, m.flags)
            for m in recording.messages()
        ]
        of_topic = [m.sequence for m in recording.messages("plant/heat")]
        of_time = [m.sequence for m in recording.messages(start_ns=START + 1020, end_ns=START + 1040)]
        missed = [missed for batch in recording.batches() for missed in batch.missed]
        return rows, of_topic, of_time, missed, [recording.attachment(a) for a in recording.attachments]


def flipped(data: bytes, every: int) -> Iterator[tuple[int, bytes]]:
    """The data with one bit turned, at one of so many places."""
    for bit in range(0, 8 * len(data), every):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        yield bit // 8, bytes(changed)


@pytest.mark.parametrize("write", [write_ours, write_foreign])
# Proves G142.
def test_a_bit_that_turned_in_a_complete_file_is_harmless_or_seen(tmp_path: Path, write: Any) -> None:
    path = write(tmp_path / "good.mcap", MESSAGES)
    data, good = path.read_bytes(), content_of(path)
    seen = 0
    for position, changed in flipped(data, 47):
        path.write_bytes(changed)
        try:
            assert content_of(path) == good, f"byte {position}"
        except rtmw.RecordingError:
            seen += 1
    assert seen > 100


@pytest.mark.parametrize("write", [write_ours, write_foreign])
def test_a_bit_that_turned_in_a_cut_file_costs_at_most_the_last_chunk(tmp_path: Path, write: Any) -> None:
    path = write(tmp_path / "good.mcap", MESSAGES)
    with Recording(path) as recording:
        first, last = recording.chunks[0], recording.chunks[-1]
        end = recording.chunks[-1].side_position
    is_ours = write is write_ours
    data = path.read_bytes()[: end + (330 if is_ours else 0)]
    path.write_bytes(data)
    good = content_of(path)
    assert len(good[0]) == MESSAGES
    for position, changed in flipped(data, 47):
        path.write_bytes(changed)
        try:
            found = content_of(path)
        except rtmw.RecordingError:
            continue
        if found[:4] != good[:4]:  # others' attachments may be lost: an opcode has no CRC
            assert position >= last.position, f"byte {position}"
            assert found[0] == good[0][: first.message_count]


@pytest.mark.parametrize("name", HOSTILE)
# Proves G142.
def test_a_file_made_to_harm_is_refused_with_file_and_position(tmp_path: Path, name: str) -> None:
    path = write_hostile(tmp_path / "hostile.mcap", *HOSTILE[name])
    with pytest.raises(
        rtmw.RecordingDamaged, match=r"hostile.mcap is damaged at byte \d+: .* rtmw recording recover"
    ) as e:
        content_of(path)
    assert e.value.path == str(path)
    assert 0 <= e.value.position <= path.stat().st_size


@pytest.mark.parametrize("make", [chunk, lz4_chunk, zstd_chunk])
def test_the_same_file_without_the_lie_is_read(tmp_path: Path, make: Any) -> None:
    path = write_hostile(tmp_path / "good.mcap", CHANNEL, CHANNEL, make(CHANNEL + MESSAGE))
    assert [row[4] for row in content_of(path)[0]] == [b"payload"]


@pytest.mark.parametrize("frames", [1, 3])
def test_zstd_is_read_that_does_not_say_its_size(tmp_path: Path, frames: int) -> None:
    content = CHANNEL + MESSAGE * 3
    compressor = zstandard.ZstdCompressor(write_content_size=False)
    step = len(content) // frames + 1
    pieces = [compressor.compress(content[at : at + step]) for at in range(0, len(content), step)]
    packed = chunk(content, compression="zstd", pack=lambda _: b"".join(pieces))
    path = write_hostile(tmp_path / "good.mcap", CHANNEL, packed)
    assert len(content_of(path)[0]) == 3


def test_records_of_the_future_are_stepped_over(tmp_path: Path) -> None:
    unknown = records.record(0x42, b"what this is nobody knows yet")  # type: ignore[arg-type]
    path = write_hostile(tmp_path / "future.mcap", unknown, CHANNEL, chunk(unknown + MESSAGE), unknown)
    assert len(content_of(path)[0]) == 1


def test_after_what_could_not_be_decompressed_the_next_is_read(tmp_path: Path) -> None:
    bad = lz4_chunk(bytes(1 << 20), claim=1000)
    bad_path = write_hostile(tmp_path / "bad.mcap", CHANNEL, bad)
    good_path = write_hostile(tmp_path / "good.mcap", CHANNEL, lz4_chunk(MESSAGE))
    for _ in range(3):
        with pytest.raises(rtmw.RecordingDamaged):
            content_of(bad_path)
        assert len(content_of(good_path)[0]) == 1


def test_a_crc_of_zero_is_none(tmp_path: Path) -> None:
    path = write_hostile(tmp_path / "good.mcap", CHANNEL, chunk(MESSAGE, crc=0))
    assert len(content_of(path)[0]) == 1


def test_room_that_was_never_written_is_no_damage(tmp_path: Path) -> None:
    path = tmp_path / "zeros.mcap"
    path.write_bytes(MAGIC + records.header("someone") + CHANNEL + chunk(MESSAGE) + bytes(5000))
    with Recording(path) as recording:
        assert recording.message_count == 1
        assert not recording.complete


def test_a_damaged_summary_is_made_anew(tmp_path: Path) -> None:
    path = write_ours(tmp_path / "good.mcap")
    good, data = content_of(path), bytearray(path.read_bytes())
    data[-100] ^= 1
    path.write_bytes(data)
    assert content_of(path) == good
    with Recording(path) as recording:
        assert not recording.complete
        assert "does not match its CRC" in recording.incomplete_because


@pytest.mark.parametrize("field", ["CRC", "size"])
def test_a_side_record_like_the_one_before_is_still_held_against_its_own_crc_and_size(
    tmp_path: Path, field: str
) -> None:
    """Chunks of one publisher with messages of one size have side records of the same bytes."""
    path, packed_at = tmp_path / "alike.mcap", {"CRC": 12, "size": 20}[field]
    with RecordingWriter(path, chunk_bytes=4000) as writer:
        channel = writer.channel("t", 0, "application/octet-stream", {})
        for row in range(400):
            writer.write(channel, bytes(100), log_time=START + row, publish_time=START + row, sequence=row)
    with Recording(path) as recording:
        first, second = (chunk for chunk in recording.chunks[:2])
        recording.read(first), recording.read(second)
        data = bytearray(path.read_bytes())
        packed = data.index(b"\x04\x22\x4d\x18", second.side_position)
        before = data.index(b"\x04\x22\x4d\x18", first.side_position)
        assert data[packed : packed + 20] == data[before : before + 20]
        data[packed - packed_at] ^= 1
        path.write_bytes(data)
        recording.read(first)
        with pytest.raises(rtmw.RecordingDamaged, match="side record"):
            recording.read(second)


def test_a_file_cut_while_it_is_read_is_an_error_not_a_death(tmp_path: Path) -> None:
    path = write_ours(tmp_path / "cut.mcap")
    with Recording(path) as recording:
        chunk = recording.chunks[-1]
        with path.open("r+b") as file:
            file.truncate(chunk.position + 10)
        with pytest.raises(rtmw.RecordingDamaged, match="cut"):
            recording.read(chunk)


@pytest.mark.parametrize("write", [write_ours, write_foreign])
@pytest.mark.parametrize("seed", range(4))
def test_garbage_in_any_place_never_gets_through(tmp_path: Path, write: Any, seed: int) -> None:
    """Pieces overwritten, cut out, put in and doubled. With so much damage no row is promised, but an error is."""
    chance = random.Random(seed)
    path = write(tmp_path / "good.mcap", MESSAGES)
    data, good = path.read_bytes(), content_of(path)
    rows = {row[1:] for row in good[0]}
    for _ in range(150):
        changed = bytearray(data)
        for _ in range(chance.randint(1, 4)):
            at, size = chance.randrange(len(changed)), chance.choice((1, 4, 8, 50, 1000))
            piece = chance.choice((chance.randbytes(size), bytes(size), b"\xff" * size, changed[:size], b""))
            changed[at : at + chance.choice((0, len(piece), size))] = piece
        path.write_bytes(changed)
        try:
            found = content_of(path)
        except rtmw.RtmwError:
            continue
        assert {row[1:] for row in found[0]} <= rows


def test_ten_thousand_topics_are_found_again(tmp_path: Path) -> None:
    path = tmp_path / "many.mcap"
    with RecordingWriter(path) as writer:
        numbers = [writer.channel(f"topic/{number}", 0, "x", {}) for number in range(10_000)]
        for turn, number in itertools.product(range(2), numbers):
            writer.write(number, b"%d" % number, log_time=START + turn, publish_time=START)
    data = path.read_bytes()
    for length in (len(data), len(data) - 10):
        path.write_bytes(data[:length])
        with Recording(path) as recording:
            assert len(recording.channels) == 10_000
            assert recording.message_count == 20_000
            assert [m.payload for m in recording.messages("topic/7777")] == [b"7778"] * 2
