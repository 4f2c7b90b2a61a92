"""recover: all that is whole becomes a complete recording; what was lost is said; the damaged file stays."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pytest

from rtmw.errors import RecordingError
from rtmw.recording import Recording
from rtmw.recording.tools.check import check
from rtmw.recording.tools.recover import Recovered, recover
from tests.recordings import Maker, numbered

COUNT = 8


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    """A chunk a message."""
    return numbered(tmp_path / "whole.mcap", ["a", "b"], COUNT, chunk_bytes=1)


def rows(path: Path) -> list[tuple[Any, ...]]:
    """Everything about each message but its place."""
    with Recording(path) as recording:
        return [
            (m.channel.topic, m.sequence, m.log_time, m.publish_time, m.payload, m.priority, m.publisher, m.expires)
            for m in recording.messages()
        ]


def recovered(data: bytes, folder: Path) -> Recovered:
    """From a file of these bytes; the result is complete, and has as many messages as it says."""
    source, target = folder / "damaged.mcap", folder / "saved.mcap"
    source.write_bytes(data)
    target.unlink(missing_ok=True)
    found = recover(source, target)
    assert source.read_bytes() == data
    checked = check(target)
    assert checked.problems == []
    assert checked.messages == found.messages
    return found


def test_of_a_whole_recording_there_is_a_copy_with_the_same_messages(whole: Path, tmp_path: Path) -> None:
    found = recover(whole, tmp_path / "copy.mcap")
    assert found.was_complete
    assert found.lost == []
    assert rows(tmp_path / "copy.mcap") == rows(whole)
    with Recording(whole) as one, Recording(tmp_path / "copy.mcap") as other:
        assert [*one.channels.values()] == [*other.channels.values()]


def test_cut_anywhere_in_its_last_part_nothing_but_the_cut_chunk_is_lost(whole: Path, tmp_path: Path) -> None:
    data, before = whole.read_bytes(), rows(whole)
    with Recording(whole) as recording:
        last = recording.chunks[-1]
    behind = last.position + last.length + 1
    for size in [*range(last.position, behind), *range(behind, len(data), 40)]:
        found = recovered(data[:size], tmp_path)
        if size < last.position + last.length:
            assert found.messages == COUNT - 1
            assert [lost.position for lost in found.lost] == ([last.position] if size > last.position else [])
            assert sum(lost.size for lost in found.lost) == size - last.position
        else:
            assert found.messages == COUNT
        assert rows(tmp_path / "saved.mcap")[: COUNT - 1] == before[: COUNT - 1]


# Proves G145.
def test_bits_turned_anywhere_lose_what_they_are_in_and_make_nothing_wrong(whole: Path, tmp_path: Path) -> None:
    data, before = whole.read_bytes(), rows(whole)
    places = random.Random(5).sample(range(8, len(data) - 8), 100)
    for place in places:
        turned = bytearray(data)
        turned[place] ^= 1 << (place % 8)
        found = recovered(bytes(turned), tmp_path)
        got = rows(tmp_path / "saved.mcap")
        assert found.messages >= COUNT - 1, place
        if not found.without_side:
            assert [row for row in got if row not in before] == [], place
        assert [row[4] for row in got if row[4] not in {b[4] for b in before}] == [], place
        assert found.messages == COUNT or found.lost, place


def test_what_a_lost_chunk_had_is_said_where_an_index_tells_it(whole: Path, tmp_path: Path) -> None:
    data = bytearray(whole.read_bytes())
    with Recording(whole) as recording:
        chunk = recording.chunks[5]
    data[chunk.position + chunk.length - 1] ^= 1
    found = recovered(bytes(data), tmp_path)
    (lost,) = found.lost
    assert (lost.position, lost.size, lost.messages) == (chunk.position, chunk.length, {"b": 1})
    assert "CRC" in lost.reason or "decompressed" in lost.reason


def test_behind_bytes_that_are_no_records_it_goes_on_with_the_next_whole_chunk(whole: Path, tmp_path: Path) -> None:
    data = bytearray(whole.read_bytes())
    with Recording(whole) as recording:
        first, last = recording.chunks[2].position, recording.chunks[5].position
    data[first:last] = bytes(last - first)
    found = recovered(bytes(data), tmp_path)
    assert found.messages == COUNT - 3
    assert sum(sum((lost.messages or {}).values()) for lost in found.lost) == 3
    without_index = recovered(bytes(data[: recording.chunks[-1].position]), tmp_path)
    assert without_index.messages == COUNT - 4
    assert [lost.messages for lost in without_index.lost] == [None]


def test_a_damaged_beginning_costs_nothing_else(whole: Path, tmp_path: Path) -> None:
    data = bytearray(whole.read_bytes())
    data[3:12] = b"?" * 9
    assert recovered(bytes(data), tmp_path).messages == COUNT


def test_what_the_recorder_missed_and_its_tables_are_kept(tmp_path: Path) -> None:
    with Maker(tmp_path / "a.mcap") as maker:
        channel = maker.channel("t")
        maker.write(channel, 0, b"x")
        maker.writer.missed(channel, 1, 7)
        maker.writer.metadata("rtmw.recorder", {"host": "pump-7"})
    recovered(maker.path.read_bytes()[:-20], tmp_path)
    with Recording(tmp_path / "saved.mcap") as recording:
        assert ("rtmw.recorder", {"host": "pump-7"}) in recording.metadata
        (batch,) = recording.batches()
        assert [(missed.cause, missed.count) for missed in batch.missed] == [(1, 7)]


def test_messages_outside_of_chunks_are_saved_too(whole: Path, tmp_path: Path) -> None:
    from mcap.writer import Writer

    with (tmp_path / "plain.mcap").open("wb") as file:
        writer = Writer(file, use_chunking=False)
        writer.start()
        channel = writer.register_channel("t", "application/octet-stream", 0)
        for number in range(9):
            writer.add_message(channel, number, bytes([number]), number)
        writer.finish()
    data = (tmp_path / "plain.mcap").read_bytes()
    assert recovered(data, tmp_path).messages == 9
    assert recovered(data[: data.rindex(b"\x05\x17") - 3], tmp_path).messages == 7


def test_in_place_the_damaged_file_is_replaced_with_its_rights(whole: Path) -> None:
    whole.write_bytes(whole.read_bytes()[:-40])
    whole.chmod(0o640)
    found = recover(whole, None)
    assert (found.messages, check(whole).problems) == (COUNT, [])
    assert whole.stat().st_mode & 0o777 == 0o640
    assert os.listdir(whole.parent) == [whole.name]


def test_in_place_a_whole_recording_is_not_touched(whole: Path) -> None:
    before = whole.stat()
    assert recover(whole, None).was_complete
    assert whole.stat() == before


def test_nothing_is_overwritten_and_nothing_half_written_stays(whole: Path, tmp_path: Path) -> None:
    (tmp_path / "there").write_text("mine")
    with pytest.raises(FileExistsError, match="there exists"):
        recover(whole, tmp_path / "there")
    (tmp_path / "none.mcap").write_bytes(b"nothing of the kind")
    with pytest.raises(RecordingError, match="no recording"):
        recover(tmp_path / "none.mcap", tmp_path / "x.mcap")
    assert sorted(os.listdir(tmp_path)) == ["none.mcap", "there", "whole.mcap"]
    assert (tmp_path / "there").read_text() == "mine"
