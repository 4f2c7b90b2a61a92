"""What RecordingWriter writes, as the `mcap` library reads it."""

from __future__ import annotations

import struct
import subprocess
import sys
import zlib
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import lz4.frame
import numpy as np
import pytest
import zstandard
from mcap.data_stream import ReadDataStream
from mcap.reader import SeekingReader, make_reader
from mcap.records import Chunk, ChunkIndex

from rtmw.recording import Recording
from rtmw.recording._mcap import ChunkBuilder
from rtmw.recording.records import MAGIC, Opcode
from rtmw.recording.writer import COMPRESSIONS, Definitions, RecordingWriter, compressor

SIDE_ROW = np.dtype([("sequence", "u8"), ("publisher", "u8"), ("expires", "i8"), ("priority", "u1"), ("flags", "u1")])


def reader_of(path: Path) -> Any:
    reader = make_reader(BytesIO(path.read_bytes()), validate_crcs=True)
    assert isinstance(reader, SeekingReader)
    return reader


def messages_of(path: Path) -> list[tuple[str, bytes, int, int, int]]:
    found = reader_of(path).iter_messages(log_time_order=False)
    return [(c.topic, m.data, m.log_time, m.publish_time, m.sequence) for _, c, m in found]


def top_level(path: Path) -> Iterator[tuple[int, int, bytes]]:
    """Opcode, position and content of every record that is not inside of a chunk."""
    data, at = path.read_bytes(), len(MAGIC)
    while at < len(data) - len(MAGIC):
        opcode, length = struct.unpack_from("<BQ", data, at)
        yield opcode, at, data[at + 9 : at + 9 + length]
        at += 9 + length


def unpack(name: str, data: bytes) -> bytes:
    ways: dict[str, Any] = {"": bytes, "lz4": lz4.frame.decompress, "zstd": zstandard.decompress}
    return bytes(ways[name](data))


def read_side(content: bytes) -> tuple[int, np.ndarray[Any, Any], list[tuple[int, int, int]]]:
    """Position of the chunk, its rows, and what was missed."""
    stream = ReadDataStream(BytesIO(content))
    position, count, name = stream.read8(), stream.read4(), stream.read_prefixed_string()
    size, crc = stream.read8(), stream.read4()
    data = unpack(name, stream.read(stream.read8()))
    assert (len(data), zlib.crc32(data)) == (size, crc)
    rows, at = np.zeros(count, SIDE_ROW), 0
    for field in SIDE_ROW.names or ():
        rows[field] = np.frombuffer(data, SIDE_ROW[field], count, at)
        at += count * SIDE_ROW[field].itemsize
    (missed,) = struct.unpack_from("<I", data, at)
    return position, rows, [struct.unpack_from("<HBQ", data, at + 4 + 11 * i) for i in range(missed)]


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_messages_come_back_in_order_with_their_times(tmp_path: Path, compression: str) -> None:
    path = tmp_path / "a.mcap"
    with RecordingWriter(path, compression=compression, chunk_bytes=1000) as writer:
        schema = writer.schema("plant.Speed", "omgidl", b"module plant {};")
        numbers = [writer.channel(topic, schema, "cdr") for topic in ("pump", "valve")]
        for i in range(100):
            payload = bytes([i]) * i
            writer.write(numbers[i % 2], payload, log_time=1000 + i, publish_time=500 + i, sequence=(1 << 32) + i)
    expected = [(("pump", "valve")[i % 2], bytes([i]) * i, 1000 + i, 500 + i, i) for i in range(100)]
    assert messages_of(path) == expected
    summary = reader_of(path).get_summary()
    assert summary.statistics.channel_message_counts == {numbers[0]: 50, numbers[1]: 50}
    assert (summary.statistics.message_start_time, summary.statistics.message_end_time) == (1000, 1099)
    assert len(summary.chunk_indexes) == summary.statistics.chunk_count > 3


def test_a_time_range_is_found_by_the_index(tmp_path: Path) -> None:
    path = tmp_path / "a.mcap"
    with RecordingWriter(path, chunk_bytes=1000) as writer:
        channel = writer.channel("pump", 0, "application/octet-stream")
        for i in range(1000):
            writer.write(channel, b"x" * 20, log_time=i, publish_time=i)
    found = [message.log_time for _, _, message in reader_of(path).iter_messages(starting_at=300, ending_before=310)]
    assert found == list(range(300, 310))


def test_what_mcap_has_no_place_for_is_in_the_side_record_behind_the_chunk(tmp_path: Path) -> None:
    path = tmp_path / "a.mcap"
    with RecordingWriter(path, chunk_bytes=200) as writer:
        channel = writer.channel("pump", 0, "x")
        for i in range(20):
            writer.write(
                channel,
                b"y" * 50,
                log_time=i,
                publish_time=i,
                sequence=(7 << 32) + i,
                priority=i % 8,
                publisher=(1 << 63) + i,
                expires=i - 1,
                flags=i % 2,
            )
        writer.missed(channel, 1, 5)
        writer.missed(channel, 1, 2)
        writer.missed(channel, 2, 1)
    sides = [read_side(content) for opcode, _, content in top_level(path) if opcode == Opcode.SIDE]
    rows = np.concatenate([found for _, found, _ in sides])
    assert rows.tolist() == [(7 << 32, (1 << 63) + i, i - 1, i % 8, i % 2) for i in range(20)]
    with Recording(path) as recording:
        assert [message.sequence for message in recording.messages()] == [(7 << 32) + i for i in range(20)]
    assert [missed for _, _, missed in sides if missed] == [[(channel, 1, 7), (channel, 2, 1)]]
    indexes: list[ChunkIndex] = reader_of(path).get_summary().chunk_indexes
    assert [position for position, _, _ in sides] == [index.chunk_start_offset for index in indexes]
    places = [i.chunk_start_offset + i.chunk_length + i.message_index_length for i in indexes]
    assert [at for opcode, at, _ in top_level(path) if opcode == Opcode.SIDE] == places


def test_what_was_only_missed_is_written_without_a_message(tmp_path: Path) -> None:
    path = tmp_path / "a.mcap"
    with RecordingWriter(path) as writer:
        writer.missed(writer.channel("pump", 0, "x"), 1, 9)
    sides = [read_side(content) for opcode, _, content in top_level(path) if opcode == Opcode.SIDE]
    assert [missed for _, _, missed in sides] == [[(1, 1, 9)]]
    assert messages_of(path) == []


def test_a_recording_without_messages_has_its_channels(tmp_path: Path) -> None:
    path = tmp_path / "a.mcap"
    with RecordingWriter(path) as writer:
        writer.channel("pump", writer.schema("Speed", "omgidl", b"struct Speed {};"), "cdr", {"key": "value"})
    summary = reader_of(path).get_summary()
    assert [(c.topic, c.metadata) for c in summary.channels.values()] == [("pump", {"key": "value"})]
    assert [s.name for s in summary.schemas.values()] == ["Speed"]


def test_a_recording_of_nothing_is_a_complete_file(tmp_path: Path) -> None:
    path = tmp_path / "a.mcap"
    RecordingWriter(path).close()
    assert reader_of(path).get_summary().statistics.message_count == 0


def test_every_definition_is_in_the_file_once_and_before_its_messages(tmp_path: Path) -> None:
    path = tmp_path / "a.mcap"
    with RecordingWriter(path, compression="none", chunk_bytes=100) as writer:
        for i in range(50):
            schema = writer.schema(f"S{i % 5}", "e", b"")
            writer.write(writer.channel(f"t{i % 10}", schema, "x"), bytes(30), log_time=i, publish_time=i)
    data = b"".join(
        Chunk.read(ReadDataStream(BytesIO(content))).data for opcode, _, content in top_level(path) if opcode == 0x06
    )
    seen: list[int] = []
    at = 0
    while at < len(data):
        opcode, length = struct.unpack_from("<BQ", data, at)
        seen.append(opcode)
        at += 9 + length
    assert (seen.count(Opcode.SCHEMA), seen.count(Opcode.CHANNEL), seen.count(Opcode.MESSAGE)) == (5, 10, 50)
    assert messages_of(path)[-1][0] == "t9"


def test_a_message_larger_than_a_chunk_has_one_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "a.mcap"
    sizes = [10, 5_000_000, 10, 3_000_000, 3_000_000, 10]
    with RecordingWriter(path, chunk_bytes=100_000) as writer:
        channel = writer.channel("image", 0, "x")
        for i, size in enumerate(sizes):
            writer.write(channel, np.random.default_rng(i).bytes(size), log_time=i, publish_time=i)
    assert [len(data) for _, data, *_ in messages_of(path)] == sizes
    assert len(reader_of(path).get_summary().chunk_indexes) == len(sizes)


def test_noise_is_not_compressed(tmp_path: Path) -> None:
    path = tmp_path / "a.mcap"
    with RecordingWriter(path) as writer:
        channel = writer.channel("image", 0, "x")
        for i in range(2):
            payload = np.random.default_rng(1).bytes(2_000_000) if i else bytes(2_000_000)
            writer.write(channel, payload, log_time=i, publish_time=i)
    assert [index.compression for index in reader_of(path).get_summary().chunk_indexes] == ["lz4", ""]


def test_a_block_of_a_compressed_chunk_fits_into_a_cache() -> None:
    compress = compressor("lz4")
    assert compress is not None
    assert lz4.frame.get_frame_info(compress(bytes(2_000_000)))["block_size"] == 1 << 16


def test_without_an_index_the_messages_are_read_all_the_same(tmp_path: Path) -> None:
    path = tmp_path / "a.mcap"
    with RecordingWriter(path, index=False) as writer:
        channel = writer.channel("pump", 0, "x")
        writer.write(channel, b"1", log_time=1, publish_time=1)
    assert [data for _, data, *_ in messages_of(path)] == [b"1"]
    assert Opcode.MESSAGE_INDEX not in {opcode for opcode, _, _ in top_level(path)}


def test_metadata_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "a.mcap"
    with RecordingWriter(path) as writer:
        writer.metadata("rtmw.recorder", {"host": "åre", "empty": ""})
    assert [(m.name, m.metadata) for m in reader_of(path).iter_metadata()] == [
        ("rtmw.recorder", {"host": "åre", "empty": ""})
    ]


def test_the_crc_of_the_data_section_covers_it(tmp_path: Path) -> None:
    path = tmp_path / "a.mcap"
    with RecordingWriter(path) as writer:
        writer.write(writer.channel("pump", 0, "x"), b"1", log_time=1, publish_time=1)
    ((at, content),) = [(at, content) for opcode, at, content in top_level(path) if opcode == Opcode.DATA_END]
    assert struct.unpack("<I", content) == (zlib.crc32(path.read_bytes()[:at]),)


def test_a_batch_is_written_as_its_messages_would_be(tmp_path: Path) -> None:
    rows = 5000
    data = np.random.default_rng(0).bytes(100_000)
    position = np.arange(rows) * 17
    batch = SimpleNamespace(
        data=data,
        channel=np.arange(rows) % 3 + 10,
        sequence=np.arange(rows) + (1 << 40),
        log_time=np.arange(rows) * 5,
        publish_time=np.arange(rows) * 4,
        position=position,
        size=np.arange(rows) % 60,
        priority=np.arange(rows) % 8,
        publisher=np.arange(rows) + 7,
        expires=-np.arange(rows),
        flags=np.arange(rows) % 2,
    )
    with RecordingWriter(tmp_path / "bulk.mcap", chunk_bytes=10_000) as bulk:
        numbers = {10 + i: bulk.channel(f"t{i}", 0, "x") for i in range(3)}
        bulk.write_batch(batch, numbers)
    with RecordingWriter(tmp_path / "single.mcap", chunk_bytes=10_000) as single:
        numbers = {10 + i: single.channel(f"t{i}", 0, "x") for i in range(3)}
        for i in range(rows):
            single.write(
                numbers[10 + i % 3],
                data[17 * i : 17 * i + i % 60],
                log_time=5 * i,
                publish_time=4 * i,
                sequence=(1 << 40) + i,
                priority=i % 8,
                publisher=i + 7,
                expires=-i,
                flags=i % 2,
            )
    assert (tmp_path / "bulk.mcap").read_bytes() == (tmp_path / "single.mcap").read_bytes()


def test_a_batch_that_points_outside_of_its_data_is_refused(tmp_path: Path) -> None:
    one = np.ones(1, int)
    names = ["channel", "sequence", "log_time", "publish_time", "priority", "publisher", "expires", "flags"]
    batch = SimpleNamespace(data=b"1234", position=one * 2, size=one * 3, **dict.fromkeys(names, one))
    with RecordingWriter(tmp_path / "a.mcap") as writer:
        writer.channel("t", 0, "x")
        with pytest.raises(ValueError, match="outside"):
            writer.write_batch(batch, {1: 1})
        with pytest.raises(ValueError, match=r"\[1\] of the batch"):
            writer.write_batch(batch, {2: 1})


@pytest.mark.parametrize("times", [(-1, 0), (0, -1)])
def test_a_time_that_no_reader_would_take_is_refused(tmp_path: Path, times: tuple[int, int]) -> None:
    with RecordingWriter(tmp_path / "times.mcap") as writer:
        channel = writer.channel("a", 0, "x")
        with pytest.raises(ValueError, match="since 1970"):
            writer.write(channel, b"", log_time=times[0], publish_time=times[1])
        with pytest.raises(OverflowError):
            writer.write(channel, b"", log_time=1 << 63, publish_time=0)
    assert messages_of(tmp_path / "times.mcap") == []


def test_a_chunk_does_not_change_under_its_own_views() -> None:
    chunk = ChunkBuilder(100)
    chunk.append(1, b"payload", 1, 1, 0, 0, 0, 0, 0)
    view = memoryview(chunk)
    for change in (lambda: chunk.append(1, chunk, 1, 1, 0, 0, 0, 0, 0), lambda: chunk.prepend(view), chunk.clear):
        with pytest.raises(BufferError):
            change()
    view.release()
    with pytest.raises(BufferError):
        chunk.prepend(chunk)
    assert len(chunk) == 1


def test_files_of_one_recording_share_their_definitions(tmp_path: Path) -> None:
    definitions = Definitions()
    for name in ("a", "b"):
        with RecordingWriter(tmp_path / f"{name}.mcap", definitions=definitions) as writer:
            channel = writer.channel("pump", writer.schema("S", "e", b"d"), "x")
            writer.write(channel, name.encode(), log_time=1, publish_time=1)
    assert len(definitions.channels) == 1
    assert [messages_of(tmp_path / f"{name}.mcap")[0][1] for name in ("a", "b")] == [b"a", b"b"]


def test_a_file_that_exists_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "a.mcap"
    path.write_text("precious")
    with pytest.raises(FileExistsError):
        RecordingWriter(path)
    assert path.read_text() == "precious"


def test_bad_arguments_are_refused_in_words(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="compression is one of lz4, zstd, none, not 'gzip'"):
        RecordingWriter(tmp_path / "a.mcap", compression="gzip")
    with pytest.raises(ValueError, match="between 1 byte"):
        RecordingWriter(tmp_path / "a.mcap", chunk_bytes=0)
    with RecordingWriter(tmp_path / "a.mcap") as writer:
        with pytest.raises(ValueError, match="no schema 3"):
            writer.channel("t", 3, "x")
        with pytest.raises(ValueError, match="no channel 1"):
            writer.write(1, b"", log_time=0, publish_time=0)
    with pytest.raises(ValueError, match="is closed"):
        writer.flush()


FULL_DISK = """
import resource, signal, sys
from rtmw.recording.writer import RecordingWriter
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
writer = RecordingWriter(sys.argv[1], compression="none", chunk_bytes=1000)
channel = writer.channel("t", 0, "x")
resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, resource.RLIM_INFINITY))
given = 0
try:
    while True:
        writer.write(channel, bytes(100), log_time=given, publish_time=given)
        given += 1
except OSError as error:
    print(type(error).__name__, given)
if sys.argv[2] == "room":
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
try:
    writer.close()
except OSError as error:
    print("not complete")
"""


def run_full_disk(path: Path, then: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(path), then], capture_output=True, text=True, timeout=60, check=True
    )
    return done.stdout.split("\n")


# Proves G140.
def test_after_a_full_disk_what_was_written_before_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.mcap"
    first, second, _ = run_full_disk(path, "full")
    assert first.startswith("OSError")
    assert second == "not complete"
    chunks = [content for opcode, _, content in top_level_of_cut(path) if opcode == Opcode.CHUNK]
    assert chunks
    assert all(Chunk.read(ReadDataStream(BytesIO(content))).uncompressed_crc for content in chunks)


def top_level_of_cut(path: Path) -> list[tuple[int, int, bytes]]:
    """As top_level, of a file without an end, which must consist of whole records."""
    copy = path.with_suffix(".whole")
    copy.write_bytes(path.read_bytes() + MAGIC)
    found = list(top_level(copy))
    assert found[-1][1] + 9 + len(found[-1][2]) == path.stat().st_size
    return found


def test_a_disk_that_has_room_again_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.mcap"
    first, *_ = run_full_disk(path, "room")
    assert [log_time for _, _, log_time, _, _ in messages_of(path)] == list(range(int(first.split()[1])))
