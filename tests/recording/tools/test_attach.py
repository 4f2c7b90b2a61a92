"""Attachments and metadata by name: taken out as they are, and put in so that all else stays."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from mcap.writer import Writer

from rtmw.cli import main
from rtmw.errors import RecordingError
from rtmw.recording import Recording
from rtmw.recording.contents import Attachment, Cause
from rtmw.recording.tools.check import check
from rtmw.recording.tools.copying import Additions, attach_to, extract_to, file_name
from tests.recordings import MS, Maker, numbered


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A recording of others, with two attachments of one name."""
    with (tmp_path / "a.mcap").open("wb") as file:
        writer = Writer(file)
        writer.start()
        for number in (1, 2):
            writer.add_attachment(number, number, "maps/hall.yaml", "text/yaml", f"map {number}".encode())
        writer.add_metadata("robot", {"name": "arm", "run": "7"})
        writer.add_metadata("robot", {"name": "leg"})
        writer.finish()
    return tmp_path / "a.mcap"


def test_an_attachment_is_written_under_its_own_name_and_of_several_the_last(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert extract_to(path, "maps/hall.yaml", None) == (Path("hall.yaml"), 5)
    assert Path("hall.yaml").read_text() == "map 2"
    with pytest.raises(FileExistsError):
        extract_to(path, "maps/hall.yaml", None)


@pytest.mark.parametrize("name", ["", "..", "a/..", "../..", "a\\..", "a\0b"])
def test_an_attachment_never_leads_out_of_the_folder(name: str) -> None:
    with pytest.raises(RecordingError, match="has no name that a file can have"):
        file_name(Attachment(name, "", 0, 0, 0, 0))


@pytest.mark.parametrize("name", ["../../etc/passwd", "/etc/passwd", "C:\\etc\\passwd"])
def test_of_a_path_only_the_name_is_taken(name: str) -> None:
    assert file_name(Attachment(name, "", 0, 0, 0, 0)) == "passwd"


def test_a_name_that_there_is_not_is_an_error_that_says_which_there_are(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["recording", "extract", str(path), "hall"]) == 1
    assert "has no attachment 'hall'; there are maps/hall.yaml" in capsys.readouterr().err
    assert main(["recording", "extract", str(path), "--metadata", "robots"]) == 1
    assert "has no metadata 'robots'; there are robot" in capsys.readouterr().err


def test_an_attachment_may_go_to_standard_output(path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["recording", "extract", str(path), "maps/hall.yaml", "-o", "-"]) == 0
    assert capfdbinary.readouterr().out == b"map 2"


def test_metadata_is_printed_as_json(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["recording", "extract", str(path), "--metadata", "robot"]) == 0
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert told == [{"name": "arm", "run": "7"}, {"name": "leg"}]


def test_without_a_name_all_are_listed(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["recording", "extract", str(path)]) == 0
    told = capsys.readouterr().out
    assert "2 attachments" in told
    assert "maps/hall.yaml" in told
    assert main(["recording", "extract", str(path), "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [one["name"] for one in listed["attachments"]] == ["maps/hall.yaml"] * 2
    assert [one["name"] for one in listed["metadata"]] == ["robot", "robot"]


def test_what_is_attached_can_be_extracted_and_all_else_stays(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Maker(tmp_path / "b.mcap") as maker:
        channel = maker.channel("t")
        for at in range(10):
            maker.write(channel, at * MS, bytes([at]), priority=at % 8, left=MS)
        maker.writer.missed(channel, Cause.MISSED, 3)
        maker.writer.attachment("old.txt", b"old")
        maker.writer.metadata("about", {"run": "1"})
    data = os.urandom(100_000)
    (tmp_path / "map.png").write_bytes(data)
    asked = ["--metadata", "about", "run=2", "place=hall=1", "-o", str(tmp_path / "c.mcap")]
    assert main(["recording", "attach", str(maker.path), str(tmp_path / "map.png"), *asked]) == 0
    assert capsys.readouterr().out == f"{tmp_path / 'c.mcap'} has 2 attachments\n"
    assert check(tmp_path / "c.mcap").problems == []
    with Recording(maker.path) as before, Recording(tmp_path / "c.mcap") as after:
        assert [*after.messages()] == [*before.messages()]
        assert [after.missed(chunk) for chunk in after.chunks] == [before.missed(chunk) for chunk in before.chunks]
        assert [(one.name, one.media_type) for one in after.attachments] == [
            ("old.txt", "application/octet-stream"), ("map.png", "image/png"),
        ]  # fmt: skip
        assert after.attachment(after.attachments[1]) == data
        assert after.metadata[-2:] == (("about", {"run": "1"}), ("about", {"run": "2", "place": "hall=1"}))


def test_in_place_the_old_recording_is_replaced_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
    path = numbered(tmp_path / "a.mcap", ["t"], 100)
    before = path.read_bytes()
    with pytest.raises(FileNotFoundError):
        attach_to(path, None, Additions([tmp_path / "nothing"]))
    assert path.read_bytes() == before
    (tmp_path / "note.txt").write_text("note")
    assert attach_to(path, None, Additions([tmp_path / "note.txt"])).attachments == 1
    with Recording(path) as recording:
        assert recording.message_count == 100
        assert [one.name for one in recording.attachments] == ["note.txt"]
    assert sorted(item.name for item in tmp_path.iterdir()) == ["a.mcap", "note.txt"]


def test_a_recording_that_is_not_complete_is_recovered_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = numbered(tmp_path / "a.mcap", ["t"], 3000, chunk_bytes=8192)
    path.write_bytes(path.read_bytes()[:-2000])
    (tmp_path / "note.txt").write_text("note")
    assert main(["recording", "attach", str(path), str(tmp_path / "note.txt"), "--in-place"]) == 1
    assert "recover it first" in capsys.readouterr().err


def test_what_cannot_be_attached_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = numbered(tmp_path / "a.mcap", ["t"], 1)
    assert main(["recording", "attach", str(path), "--in-place"]) == 1
    assert "there is nothing to attach" in capsys.readouterr().err
    assert main(["recording", "attach", str(path), "--in-place", "--metadata", "about", "run"]) == 1
    assert "--metadata about run: KEY=VALUE was expected" in capsys.readouterr().err
