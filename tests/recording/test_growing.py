"""Recordings that still grow, and recordings that were cut."""

from __future__ import annotations

from pathlib import Path

import pytest

import rtmw
from rtmw.recording import Recording
from tests.recording.foreign import write_foreign
from tests.recording.test_recording import rows_of, write_ours, written

WRITERS = {"ours": (write_ours, 1 << 40), "foreign": (write_foreign, 0)}


@pytest.mark.parametrize("who", WRITERS)
# Proves G143.
def test_a_recording_cut_anywhere_in_its_last_chunk_keeps_all_chunks_before(tmp_path: Path, who: str) -> None:
    write, sequence = WRITERS[who]
    data = write(tmp_path / "whole.mcap", 56).read_bytes()
    with Recording(tmp_path / "whole.mcap") as recording:
        chunks = recording.chunks
    assert len(chunks) > 1
    last, whole = chunks[-1], sum(chunk.message_count for chunk in chunks[:-1])
    cut = tmp_path / "cut.mcap"
    for length in range(last.position, len(data)):
        cut.write_bytes(data[:length])
        with Recording(cut) as recording:
            there = len(recording.chunks) == len(chunks)
            assert there or length < last.side_position + 400
            assert rows_of(recording) == written(56 if there else whole, sequence)
            assert not recording.complete


@pytest.mark.parametrize("who", WRITERS)
def test_a_recording_cut_anywhere_has_its_whole_chunks(tmp_path: Path, who: str) -> None:
    write, sequence = WRITERS[who]
    data = write(tmp_path / "whole.mcap", 400).read_bytes()
    cut, most = tmp_path / "cut.mcap", 0
    for length in range(0, len(data), 97):
        cut.write_bytes(data[:length])
        try:
            with Recording(cut) as recording:
                found = rows_of(recording)
        except rtmw.RecordingError:
            assert length < 100
            continue
        assert found == written(400, sequence)[: len(found)]
        assert len(found) >= most
        most = len(found)
    assert most == 400


@pytest.mark.parametrize("who", WRITERS)
@pytest.mark.parametrize("step", [1000, 1777, 20000])
def test_refresh_finds_each_chunk_once(tmp_path: Path, who: str, step: int) -> None:
    write, sequence = WRITERS[who]
    data = write(tmp_path / "whole.mcap").read_bytes()
    growing, rows, chunks = tmp_path / "growing.mcap", [], 0
    growing.write_bytes(data[:200])
    with Recording(growing) as recording:
        for length in range(200, len(data) + step, step):
            with growing.open("ab") as file:
                file.write(data[growing.stat().st_size : length])
            more = recording.refresh()
            assert more == (len(recording.chunks) > chunks)
            rows += [row for chunk in recording.chunks[chunks:] for row in recording.read(chunk).sequence.tolist()]
            chunks = len(recording.chunks)
            seen = recording.metadata
        assert seen[0][0] == "who"
        assert rows == [row[1] for row in written(first_sequence=sequence)]
        assert recording.complete, recording.incomplete_because
        assert not recording.refresh()


def test_a_chunk_that_is_not_yet_on_the_disk_is_not_there_yet(tmp_path: Path) -> None:
    """Long enough, but not what was written: the CRC says so."""
    data = bytearray(write_ours(tmp_path / "whole.mcap").read_bytes())
    with Recording(tmp_path / "whole.mcap") as recording:
        chunks = recording.chunks
    torn = tmp_path / "torn.mcap"
    middle = chunks[3].position + 120
    data[middle : middle + 40] = bytes(40)
    torn.write_bytes(data[: chunks[4].position])
    with Recording(torn) as recording:
        assert recording.chunks == chunks[:3]
        assert f"byte {chunks[3].position}" in recording.incomplete_because
        assert recording.metadata == ()
        torn.write_bytes((tmp_path / "whole.mcap").read_bytes()[: chunks[4].position])
        assert recording.refresh()
        assert recording.chunks == chunks[:4]


def test_a_growing_recording_that_somebody_cuts_is_an_error(tmp_path: Path) -> None:
    path = write_ours(tmp_path / "cut.mcap")
    with Recording(path) as recording:
        data = path.read_bytes()[: recording.chunks[-1].position]
    path.write_bytes(data)
    with Recording(path) as recording:
        chunks = len(recording.chunks)
        path.write_bytes(data[: len(data) // 2])
        with pytest.raises(rtmw.RecordingDamaged, match="cut"):
            recording.refresh()
        assert len(recording.chunks) == chunks


def test_who_goes_on_after_an_error_gets_each_chunk_once(tmp_path: Path) -> None:
    path = write_ours(tmp_path / "damaged.mcap")
    data = path.read_bytes()
    with Recording(path) as recording:
        chunks = recording.chunks
    path.write_bytes(data[: chunks[2].position])
    with Recording(path) as recording:
        garbage = b"\xff" * 50
        path.write_bytes(data[: chunks[5].position] + garbage)
        for _ in range(2):
            with pytest.raises(rtmw.RecordingDamaged):
                recording.refresh()
            assert recording.chunks == chunks[:2]
        path.write_bytes(data)
        assert recording.refresh()
        assert recording.chunks == chunks
