"""check: a recording is whole, or each thing that is not is named."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from rtmw.recording import Recording
from rtmw.recording.tools.check import check
from tests.recordings import Maker, numbered

COUNT = 12


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    return numbered(tmp_path / "whole.mcap", ["a", "b"], COUNT, chunk_bytes=200)


def test_a_whole_recording_has_no_problem(whole: Path) -> None:
    checked = check(whole)
    assert (checked.problems, checked.messages, checked.gaps) == ([], COUNT, {})
    assert checked.is_whole


def test_every_turned_bit_is_found(whole: Path) -> None:
    data = whole.read_bytes()
    for place in range(0, len(data), 7):
        turned = bytearray(data)
        turned[place] ^= 1 << (place % 8)
        whole.write_bytes(turned)
        assert not check(whole).is_whole, f"bit {place % 8} of byte {place}"


# Proves G146.
def test_a_recording_that_was_cut_anywhere_has_no_end_and_is_not_damaged(whole: Path) -> None:
    data = whole.read_bytes()
    with Recording(whole) as recording:
        begin = recording.chunks[0].position
    for size in range(begin, len(data), 11):
        whole.write_bytes(data[:size])
        checked = check(whole)
        assert (checked.problems, checked.is_whole) == ([], False), size
        assert "is not complete: it has no end" in checked.ending


# Proves G146.
def test_damage_in_a_recording_without_an_end_is_no_lack_of_an_end(whole: Path) -> None:
    with Recording(whole) as recording:
        first, second, *_, last = recording.chunks
    data = whole.read_bytes()[: last.side_position]
    for place in (first.position + first.length - 1, second.position + 3, second.position + 20):
        turned = bytearray(data)
        turned[place] ^= 1
        whole.write_bytes(turned)
        assert check(whole).problems, place


def test_all_damaged_chunks_are_named_not_only_the_first(whole: Path) -> None:
    data = bytearray(whole.read_bytes())
    with Recording(whole) as recording:
        for chunk in recording.chunks[:2]:
            data[chunk.position + chunk.length - 1] ^= 1
    whole.write_bytes(data)
    checked = check(whole)
    assert len([problem for problem in checked.problems if f"byte {0}" not in problem]) >= 2
    assert checked.messages < COUNT


def test_a_message_index_that_leads_elsewhere_is_found(whole: Path) -> None:
    data = bytearray(whole.read_bytes())
    with Recording(whole) as recording:
        chunk = recording.chunks[0]
    at = chunk.position + chunk.length + 9 + 2 + 4 + 8
    data[at : at + 8] = struct.pack("<Q", 12345)
    whole.write_bytes(data)
    assert any("message index" in problem for problem in check(whole).problems)


def test_what_was_published_and_not_recorded_is_counted_by_the_sequences(tmp_path: Path) -> None:
    with Maker(tmp_path / "a.mcap", chunk_bytes=1) as maker:
        channel = maker.channel("t")
        for sequence in (5, 6, 9, 10, 3, 4):  # began in the middle; 7 and 8 are missing; a new domain begins
            maker.write(channel, sequence, b"", sequence=sequence)
        for sequence in (1, 3):
            maker.write(channel, sequence, b"", sequence=sequence, priority=7)
        maker.write(channel, 0, b"", sequence=900, flags=1)
        maker.writer.missed(channel, 1, 3)
    checked = check(maker.path)
    assert (dict(checked.gaps), dict(checked.missed), checked.problems) == ({"t": 3}, {"t": 3}, [])


def test_what_is_no_recording_has_that_problem(tmp_path: Path) -> None:
    (tmp_path / "a.mcap").write_bytes(b"text")
    assert "no recording" in check(tmp_path / "a.mcap").problems[0]


def test_recordings_of_others_are_checked_as_well(tmp_path: Path) -> None:
    from mcap.writer import Writer

    for chunked in (True, False):
        path = tmp_path / f"{chunked}.mcap"
        with path.open("wb") as file:
            writer = Writer(file, use_chunking=chunked)
            writer.start()
            channel = writer.register_channel("t", "application/octet-stream", 0)
            for number in range(9):
                writer.add_message(channel, number, bytes([number]), number)
            writer.add_metadata("about", {"who": "them"})
            writer.add_attachment(0, 0, "map.txt", "text/plain", b"hello")
            writer.finish()
        checked = check(path)
        assert (checked.problems, checked.messages, checked.gaps) == ([], 9, {})
