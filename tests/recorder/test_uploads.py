"""Finished files of a recorder go to a remote place, and none is lost when that fails."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("moto")

import rtmw
from rtmw.recorder.files import Uploads
from rtmw.recording.places import RemotePath, recordings_at
from tests.recorder.files import messages_of, until
from tests.recording.s3 import BUCKET, Server, s3_server

ROOT = f"s3://{BUCKET}/line"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    with s3_server(monkeypatch) as made:
        yield made


def there() -> list[str]:
    return sorted(path.name for path in recordings_at(RemotePath(ROOT), ".mcap"))


def sent_to(sent: list[Path]) -> Uploads:
    return Uploads(RemotePath(ROOT), sent.append, first_pause=0.01)


@pytest.mark.parametrize("removes", [False, True])
def test_each_file_of_a_split_recording_is_there_as_it_is_here(
    server: Server, domain: rtmw.Domain, tmp_path: Path, removes: bool
) -> None:
    folder = tmp_path / "run"
    options = {"upload": ROOT, "upload_remove": removes}
    with (
        rtmw.Recorder("a", folder, domain=domain, **options) as recorder,
        rtmw.Publisher("a", domain=domain, reliability=rtmw.Reliability.RELIABLE) as publisher,
    ):
        for i in range(30):
            publisher.publish(b"%d" % i)
            if i % 10 == 9:
                until(lambda i=i: recorder.stats().messages == i + 1)
                recorder.split()
    uploads = recorder.stats().uploads
    assert uploads is not None
    assert (uploads.sent, uploads.waiting, uploads.problem) == (4, 0, "")
    assert there() == [f"run_{number}.mcap" for number in range(4)]
    assert len([*folder.glob("*.mcap")]) == len(recorder.paths) == (0 if removes else 4)
    found = [m for name in there() for m in messages_of([RemotePath(f"{ROOT}/{name}")])]
    assert [int(message.payload) for message in found if not message.flags] == [*range(30)]


# Proves G157.
def test_a_file_that_could_not_be_sent_is_tried_again(server: Server, tmp_path: Path) -> None:
    server.failing_writes = 1 << 30
    sent = list[Path]()
    uploads = sent_to(sent)
    files = [tmp_path / f"run_{number}.mcap" for number in range(3)]
    for number, path in enumerate(files):
        path.write_bytes(b"%d" % number)
        uploads.put(path)
    until(lambda: uploads.stats().failures >= 2)
    found = uploads.stats()
    assert (found.sent, found.waiting, there()) == (0, 3, [])
    assert "try again" in found.problem
    assert uploads.waits(files[0])
    server.failing_writes = 0
    assert uploads.close(60.0) == ()
    assert (sent, there()) == (files, [path.name for path in files])
    assert uploads.stats().problem == ""
    assert all(path.exists() for path in files)


# Proves G157.
def test_what_could_not_be_sent_until_the_end_stays_here(server: Server, tmp_path: Path) -> None:
    server.failing_writes = 1 << 30
    sent = list[Path]()
    uploads = sent_to(sent)
    path = tmp_path / "run_0.mcap"
    path.write_bytes(b"a")
    uploads.put(path)
    until(lambda: uploads.stats().failures >= 1)
    assert uploads.close(0.0) == (path,)
    assert (uploads.stats().waiting, sent, path.exists()) == (1, [], True)


# Proves G157.
def test_what_is_there_under_that_name_is_not_replaced(server: Server, tmp_path: Path) -> None:
    first, second = tmp_path / "a" / "run_0.mcap", tmp_path / "b" / "run_0.mcap"
    for path in (first, second):
        path.parent.mkdir()
        path.write_bytes(b"same size")
    before = sent_to([])
    before.put(first)
    assert before.close(60.0) == ()
    sent = list[Path]()
    uploads = sent_to(sent)
    uploads.put(second)
    until(lambda: uploads.stats().failures >= 1)
    assert "exists, of another recording" in uploads.stats().problem
    assert uploads.close(0.0) == (second,)
    assert sent == []


# Proves G157.
def test_an_answer_that_was_lost_is_no_other_recording(server: Server, tmp_path: Path) -> None:
    path = tmp_path / "run_0.mcap"
    path.write_bytes(b"whole")
    sent = list[Path]()
    uploads = sent_to(sent)
    server.lost_answers = 1
    uploads.put(path)
    assert uploads.close(60.0) == ()
    assert (sent, there()) == ([path], ["run_0.mcap"])


# Proves G157.
def test_keep_removes_no_file_that_waits_to_be_sent(server: Server, domain: rtmw.Domain, tmp_path: Path) -> None:
    server.failing_writes = 1 << 30
    options = {"upload": ROOT, "keep": 1, "upload_patience": 0.0}
    with rtmw.Recorder("a", tmp_path / "run", domain=domain, **options) as recorder:
        recorder.split()
        recorder.split()
        assert len([*(tmp_path / "run").glob("*.mcap")]) == 3
        assert all(path.exists() for path in recorder.paths)
    uploads = recorder.stats().uploads
    assert uploads is not None
    assert uploads.waiting == 3


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"upload": "folder"}, "is no remote place, such as s3://"),
        ({"upload_remove": True}, "needs upload"),
        ({"upload": ROOT, "upload_patience": -1.0}, "a number from 0"),
    ],
)
def test_settings_that_make_no_sense_are_refused(options: dict[str, object], words: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=words):
        rtmw.Recorder("a", tmp_path, **options)


_FORGETFUL = """
import sys
import rtmw
recorder = rtmw.Recorder("a", sys.argv[2], domain=int(sys.argv[1]), upload=sys.argv[3], upload_patience=5.0)
"""


# Proves G157.
def test_a_program_that_ends_without_closing_its_recorder_sends_the_file(
    server: Server, domain: rtmw.Domain, tmp_path: Path
) -> None:
    command = [sys.executable, "-c", _FORGETFUL, str(domain.id), str(tmp_path / "run"), ROOT]
    subprocess.run(command, check=True, timeout=60.0)
    assert there() == ["run_0.mcap"]


def test_a_file_that_cannot_be_sent_keeps_no_other_from_it(server: Server, tmp_path: Path) -> None:
    """The first one is of another recording there, and the second one was removed here."""
    paths = [tmp_path / f"run_{number}.mcap" for number in range(4)]
    for path in paths:
        path.write_bytes(b"same size")
    other = sent_to([])
    other.put(paths[0])
    assert other.close(60.0) == ()
    paths[1].unlink()
    sent = list[Path]()
    uploads = sent_to(sent)
    for path in paths:
        uploads.put(path)
    until(lambda: uploads.stats().sent == 2)
    assert uploads.close(0.0) == (paths[0],)
    found = uploads.stats()
    assert (sent, found.waiting, found.lost) == (paths[2:], 1, 1)
    assert "exists, of another recording" in found.problem


def test_what_is_sent_while_old_files_are_removed_costs_no_other_file(
    server: Server, domain: rtmw.Domain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever is asked whether a file waits may have sent and removed it by the time that the answer is heard."""
    waits = Uploads.waits

    def slowly(uploads: Uploads, path: Path) -> bool:
        until(lambda: uploads.stats().waiting == 0)
        return waits(uploads, path)

    monkeypatch.setattr(Uploads, "waits", slowly)
    options = {"upload": ROOT, "upload_remove": True, "keep": 1}
    with rtmw.Recorder("a", tmp_path / "run", domain=domain, **options) as recorder:
        recorder.split()
        recorder.split()
        assert recorder.paths[-1].exists()
    assert there() == [f"run_{number}.mcap" for number in range(3)]


def test_a_recorder_writes_to_no_remote_place_itself(
    domain: rtmw.Domain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=f"no folder of this host: name one, and upload='{ROOT}'"):
        rtmw.Recorder("a", ROOT, domain=domain)
    assert [*tmp_path.iterdir()] == []
