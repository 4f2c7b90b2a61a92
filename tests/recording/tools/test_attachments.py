"""Attachments and metadata of recordings, of others too: what is made of these has them as well."""

from __future__ import annotations

from pathlib import Path

import pytest
from mcap.reader import make_reader
from mcap.writer import Writer

from rtmw.cli import main
from rtmw.errors import RecordingDamaged
from rtmw.recording.tools.check import check
from rtmw.recording.tools.copying import Section, Written, cut, merge
from rtmw.recording.tools.recover import recover
from tests.recordings import BEGIN_NS, SECOND

LARGE = bytes(range(256)) * 20_000
Found = list[tuple[str, str, int, int, bytes]]


def write(path: Path, seconds: tuple[int, ...], data: bytes = b"of that second") -> Path:
    """Twenty messages of somebody else, a second apart, and an attachment logged at each of these seconds."""
    with path.open("wb") as file:
        writer = Writer(file, chunk_size=100)
        writer.start()
        channel = writer.register_channel("t", "application/octet-stream", 0)
        for number in range(20):
            if number in seconds:
                writer.add_attachment(7, BEGIN_NS + number * SECOND, f"{number}.txt", "text/plain", data)
            time = BEGIN_NS + number * SECOND
            writer.add_message(channel, time, bytes([number]), time)
        writer.add_metadata("who", {"from": path.name})
        writer.finish()
    return path


def attached(path: Path, seconds: tuple[int, ...], data: bytes = b"of that second") -> Found:
    return [(f"{number}.txt", "text/plain", BEGIN_NS + number * SECOND, 7, data) for number in seconds]


def found(path: Path) -> Found:
    """As the mcap library finds it, by the index and by a walk, with every CRC."""
    assert check(path).problems == []
    with path.open("rb") as file:
        reader = make_reader(file, validate_crcs=True)
        found = [(a.name, a.media_type, a.log_time, a.create_time, a.data) for a in reader.iter_attachments()]
        summary = reader.get_summary()
    assert summary
    assert summary.statistics
    assert summary.statistics.attachment_count == len(found)
    assert [(i.name, i.media_type, i.log_time, i.create_time, i.data_size) for i in summary.attachment_indexes] == [
        (*about, len(data)) for *about, data in found
    ]
    return found


def who(path: Path) -> list[dict[str, str]]:
    with path.open("rb") as file:
        return [record.metadata for record in make_reader(file).iter_metadata() if record.name == "who"]


def test_a_section_has_the_attachments_of_its_time_and_all_metadata(tmp_path: Path) -> None:
    source, target = write(tmp_path / "a.mcap", (0, 4, 5, 9, 10)), tmp_path / "b.mcap"
    assert cut(source, target, Section(None, 4.5, 10.0)) == Written(5, 2, 3)
    assert found(target) == attached(source, (5, 9))
    assert who(target) == [{"from": "a.mcap"}]


def test_topics_do_not_matter_to_attachments_and_large_ones_are_kept_as_they_are(tmp_path: Path) -> None:
    source, target = write(tmp_path / "a.mcap", (3,), LARGE), tmp_path / "b.mcap"
    assert cut(source, target, Section(("t",))) == Written(20, 1, 0)
    assert found(target) == attached(source, (3,), LARGE)


def test_merged_recordings_have_the_attachments_of_each_also_under_one_name(tmp_path: Path) -> None:
    one, two = write(tmp_path / "a.mcap", (1, 2)), write(tmp_path / "b.mcap", (2, 3), b"another")
    assert merge([one, two], tmp_path / "c.mcap") == Written(40, 4)
    assert found(tmp_path / "c.mcap") == attached(one, (1, 2)) + attached(two, (2, 3), b"another")
    assert who(tmp_path / "c.mcap") == [{"from": "a.mcap"}, {"from": "b.mcap"}]


def test_recovered_are_those_that_match_their_crc_and_others_are_named(tmp_path: Path) -> None:
    source = write(tmp_path / "a.mcap", (1, 2, 3))
    data = bytearray(source.read_bytes())
    data[data.index(b"2.txt") + 40] ^= 1  # in its content
    source.write_bytes(data[:-200])
    recovered = recover(source, tmp_path / "b.mcap")
    assert (recovered.messages, recovered.attachments) == (20, 2)
    assert [lost.reason for lost in recovered.lost if "2.txt" in lost.reason] == [
        "attachment: the attachment '2.txt' does not match its CRC"
    ]
    assert found(tmp_path / "b.mcap") == attached(source, (1, 3))
    assert who(tmp_path / "b.mcap") == [{"from": "a.mcap"}]


def test_a_damaged_attachment_is_not_copied_as_if_it_were_whole(tmp_path: Path) -> None:
    source = write(tmp_path / "a.mcap", (1,))
    data = bytearray(source.read_bytes())
    data[data.index(b"of that second")] ^= 1
    source.write_bytes(data)
    for make in (lambda target: cut(source, target, Section()), lambda target: merge([source], target)):
        with pytest.raises(RecordingDamaged, match=r"the attachment '1.txt' does not match its CRC"):
            make(tmp_path / "b.mcap")
    assert [path.name for path in tmp_path.iterdir()] == ["a.mcap"]


def test_the_command_counts_what_it_kept_and_what_it_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, target = write(tmp_path / "a.mcap", (1, 2, 9)), tmp_path / "b.mcap"
    assert main(["recording", "cut", str(source), "--start", "5", "-o", str(target)]) == 0
    assert capsys.readouterr().out == (
        f"{target} has 15 messages and 1 attachment\n  left out, logged at another time: 2 attachments\n"
    )
    assert main(["recording", "recover", str(source), "-o", str(tmp_path / "c.mcap")]) == 0
    assert capsys.readouterr().out.startswith(f"{source} was whole")
    source.write_bytes(source.read_bytes()[:-20])
    assert main(["recording", "recover", str(source), "-o", str(tmp_path / "d.mcap")]) == 0
    assert capsys.readouterr().out.startswith(f"{tmp_path / 'd.mcap'}: 20 messages in 6 chunks and 3 attachments\n")
