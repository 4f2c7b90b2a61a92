"""`Recording` reads what rtmw wrote, and what others wrote."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mcap.writer import CompressionType, IndexType

import rtmw
from rtmw.recording import Missed, Recording, RecordingWriter
from tests.recording.foreign import START, TOPICS, payload, write_foreign

FEATURES = [
    {"compression": compression, "index_types": index, "use_chunking": chunking, "use_statistics": statistics}
    | {"repeat_channels": repeat, "repeat_schemas": repeat, "enable_data_crcs": repeat}
    for compression, index, chunking, statistics, repeat in itertools.product(
        CompressionType, (IndexType.ALL, IndexType.NONE, IndexType.CHUNK), (True, False), (True, False), (True, False)
    )
]


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    return write_foreign(tmp_path / "foreign.mcap")


@pytest.fixture
def ours(tmp_path: Path) -> Path:
    return write_ours(tmp_path / "ours.mcap")


def write_ours(path: Path, messages: int = 600, **options: Any) -> Path:
    options = {"chunk_bytes": 4000} | options
    with RecordingWriter(path, **options) as writer:
        channels = [writer.channel(topic, 0, "application/octet-stream", {"n": topic}) for topic in TOPICS]
        writer.attachment("notes.txt", b"an attachment", media_type="text/plain", log_time=5, create_time=6)
        for row in range(messages):
            writer.write(
                channels[row % 3],
                payload(row),
                log_time=START + row + 1000,
                publish_time=START + row,
                sequence=(1 << 40) + row,
                priority=row % 8,
                publisher=row % 5,
                expires=START + 10 * row,
                flags=row % 2,
            )
            if row % 100 == 50:
                writer.missed(channels[1], 1, row)
        writer.metadata("who", {"name": "rtmw"})
    return path


def rows_of(recording: Recording) -> list[tuple[str, int, int, int, bytes]]:
    return [(m.channel.topic, m.sequence, m.log_time, m.publish_time, m.payload) for m in recording.messages()]


def written(messages: int = 600, first_sequence: int = 0) -> list[tuple[str, int, int, int, bytes]]:
    return [
        (TOPICS[row % 3], first_sequence + row, START + row + 1000, START + row, payload(row))
        for row in range(messages)
    ]


@pytest.mark.parametrize("features", FEATURES, ids=lambda features: "-".join(map(str, features.values())))
def test_every_kind_of_file_of_the_mcap_library_is_read(tmp_path: Path, features: dict[str, Any]) -> None:
    with Recording(write_foreign(tmp_path / "foreign.mcap", **features)) as recording:
        assert recording.complete, recording.incomplete_because
        assert rows_of(recording) == written()
        assert recording.message_count == 600
        assert (recording.start_ns, recording.end_ns) == (START + 1000, START + 1599)
        assert recording.metadata == (("who", {"name": "somebody", "place": "elsewhere"}),)
        assert [recording.attachment(attachment) for attachment in recording.attachments] == [b"an attachment"]


def test_channels_and_schemas_are_those_that_were_written(foreign: Path) -> None:
    with Recording(foreign) as recording:
        assert [channel.topic for channel in recording.channels.values()] == list(TOPICS)
        assert recording.channels[1].metadata == {"unit": "low"}
        assert recording.schemas[1].data == b'{"type": "string"}'
        assert recording.topics()["plant/heat"] == [recording.channels[2]]


@pytest.mark.parametrize("compression", ["lz4", "zstd", "none"])
@pytest.mark.parametrize("index", [True, False])
def test_what_only_our_recordings_have_is_read(tmp_path: Path, compression: str, index: bool) -> None:
    path = write_ours(tmp_path / "ours.mcap", compression=compression, index=index)
    with Recording(path) as recording:
        assert recording.complete
        assert rows_of(recording) == written(first_sequence=1 << 40)
        assert [recording.attachment(attachment) for attachment in recording.attachments] == [b"an attachment"]
        found = list(recording.messages())
        assert [m.priority for m in found] == [row % 8 for row in range(600)]
        assert [m.publisher for m in found] == [row % 5 for row in range(600)]
        assert [m.expires for m in found] == [START + 10 * row for row in range(600)]
        assert [m.flags for m in found] == [row % 2 for row in range(600)]
        missed = [missed for batch in recording.batches() for missed in batch.missed]
        assert missed == [Missed(2, 1, row) for row in range(50, 600, 100)]


def test_in_recordings_of_others_it_is_zero(foreign: Path) -> None:
    with Recording(foreign) as recording:
        for batch in recording.batches():
            assert not batch.priority.any()
            assert not batch.publisher.any()
            assert not batch.expires.any()
            assert not batch.flags.any()
            assert batch.missed == ()


@pytest.mark.parametrize("topics", [None, "plant/heat", ["plant/heat", "plant/rpm"], ["nothing"], []])
@pytest.mark.parametrize(("start", "end"), [(None, None), (0, 100), (250, 251), (590, 9999), (-5, 0), (300, 300)])
def test_topics_and_times_choose_messages(ours: Path, topics: Any, start: int | None, end: int | None) -> None:
    times = [None if time is None else START + 1000 + time for time in (start, end)]
    names = {None: set(TOPICS), "plant/heat": {"plant/heat"}}.get(topics if not isinstance(topics, list) else "")
    names = set(topics) if names is None else names
    expected = [row for row in range(600) if TOPICS[row % 3] in names and (start is None or start <= row < (end or 0))]
    with Recording(ours) as recording:
        assert [m.publish_time - START for m in recording.messages(topics, *times)] == expected


def test_choosing_reads_only_the_chunks_concerned(ours: Path) -> None:
    with Recording(ours) as recording:
        chunks = recording.chunks
        before = recording.bytes_read
        chosen = recording.select(start_ns=START + 1300, end_ns=START + 1301)
        assert recording.bytes_read == before
        assert len(chosen) == 1 < len(chunks)
        list(recording.batches(start_ns=START + 1300, end_ns=START + 1301))
        assert recording.bytes_read - before < 3 * chosen[0].length


def test_a_chunk_counts_its_messages_by_channel(ours: Path) -> None:
    with Recording(ours) as recording:
        for chunk in recording.chunks:
            numbers, counts = np.unique(recording.read(chunk).channel, return_counts=True)
            assert dict(zip(numbers.tolist(), counts.tolist(), strict=True)) == chunk.counts


def test_a_payload_is_lent_not_copied(ours: Path) -> None:
    with Recording(ours) as recording:
        batch = recording.read(recording.chunks[0])
        assert batch.payload(3) == payload(3)
        assert batch.payload(3).obj is memoryview(batch.data).obj


def test_rows_of_a_batch_are_chosen_by_a_mask(ours: Path) -> None:
    with Recording(ours) as recording:
        batch = recording.read(recording.chunks[0])
        chosen = batch.where(batch.priority == 3)
        assert {len(getattr(chosen, name)) for name in ("channel", "sequence", "expires", "flags")} == {len(chosen)}
        assert [int(sequence) & 7 for sequence in chosen.sequence] == [3] * len(chosen)
        assert batch.where(np.ones(len(batch), bool)) is batch


def test_rows_of_rows_are_those_of_the_chunk_however_often_some_are_left_out(ours: Path) -> None:
    with Recording(ours) as recording:
        batch = whole = recording.read(recording.chunks[0])
        for _ in range(len(whole) - 1):
            batch = batch.where(np.arange(len(batch)) > 0)
        turned = whole.where(np.arange(len(whole))[::-1]).where(whole.log_time > 0)
        assert [batch.payload(0), *batch.sequence] == [whole.payload(len(whole) - 1), whole.sequence[-1]]
        assert turned.log_time.tolist() == whole.log_time.tolist()[::-1]
        with pytest.raises(IndexError):
            whole.where(np.array([False]))


def test_an_empty_recording_is_one(tmp_path: Path) -> None:
    with RecordingWriter(tmp_path / "empty.mcap"):
        pass
    with Recording(tmp_path / "empty.mcap") as recording:
        assert recording.complete
        assert (recording.message_count, recording.start_ns, recording.end_ns) == (0, 0, 0)
        assert (list(recording.batches()), recording.topics()) == ([], {})


@pytest.mark.parametrize("content", [b"", b"SQLite format 3\0" * 100, b"\x89MCAP1\r\n" + bytes(100), b"\x89MCA"])
def test_what_is_no_recording_is_refused_with_a_word(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "other").write_bytes(content)
    with pytest.raises(rtmw.RecordingError, match="other is"):
        Recording(tmp_path / "other")


def test_a_closed_recording_says_so(ours: Path) -> None:
    recording = Recording(ours)
    recording.close()
    with pytest.raises(rtmw.ClosedError, match="closed"):
        _ = recording.chunks


def test_who_has_a_chunk_reads_it_without_an_index(ours: Path) -> None:
    with Recording(ours) as recording:
        chunk = recording.chunks[1]
        expected = recording.read(chunk)
    with Recording(ours) as again:
        assert again.read(chunk).sequence.tolist() == expected.sequence.tolist()
        assert again.bytes_read < 3 * chunk.length


def test_many_threads_read_one_recording(ours: Path) -> None:
    with Recording(ours) as recording, ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda number: recording.read(recording.chunks[number]).sequence.tolist(), range(8)))
    assert [sequence - (1 << 40) for part in found for sequence in part] == list(range(sum(map(len, found))))
