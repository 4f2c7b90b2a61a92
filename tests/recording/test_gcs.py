"""Recordings at gs://…, read and written; and what is said where they cannot be."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from subprocess import Popen

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("gcp_storage_emulator", reason="gcp-storage-emulator is not installed")

import rtmw
from rtmw.cli import main
from rtmw.errors import RemoteFailed
from rtmw.recording import Recording, places
from rtmw.recording.files import find_recordings
from rtmw.recording.places import RemotePath, place, send
from rtmw.recording.recordings import info
from rtmw.recording.tools.check import check
from tests.recording.gcs import ROOT, gcs_server
from tests.spark.plant import Plant
from tests.spark.query import Query


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Popen[str]]:
    with gcs_server(monkeypatch) as made:
        yield made


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Path:
    plant = Plant(tmp_path_factory.mktemp("plant") / "run_0.mcap", chunk_bytes=256 << 10)
    plant.put("pump/1", range(20_000))
    return plant.close()


@pytest.fixture
def uri(server: Popen[str], local: Path) -> str:
    target = RemotePath(f"{ROOT}/monday/run_0.mcap")
    send(local, target)
    return str(target)


def test_a_recording_there_has_the_rows_that_it_has_here(uri: str, local: Path) -> None:
    columns = ["offset", "log_time_ns", "pump", "rpm"]
    with Recording(uri) as there, Recording(local) as here:
        assert there.complete
        last = there.chunks[-1]
        assert there.to_arrow("pump/1", start=last.start_ns, columns=["offset"]).num_rows >= last.message_count
        assert there.bytes_read < local.stat().st_size / 2
        assert there.to_arrow("pump/1", columns=columns) == here.to_arrow("pump/1", columns=columns)
    assert check(place(uri)).is_whole
    assert (info(place(uri)).size, info(place(uri)).messages) == (local.stat().st_size, 20_000)
    rows = Query(f"{ROOT}/monday", topic="pump/1", columns="file, pump").rows()
    assert (len(rows), {row["file"] for row in rows}) == (20_000, {uri})


def test_a_prefix_and_a_pattern_mean_the_recordings_there(uri: str, local: Path) -> None:
    other = RemotePath(f"{ROOT}/tuesday/deep/run_1.mcap")
    send(local, other)
    assert [str(found) for found in find_recordings(ROOT)] == [uri, str(other)]
    assert [str(found) for found in find_recordings(f"{ROOT}/**/run_1*")] == [str(other)]
    for nothing in (f"{ROOT}/friday", f"{ROOT}/*.mcap"):
        with pytest.raises(FileNotFoundError, match="there is no recording"):
            find_recordings(nothing)


def test_tools_write_there_and_what_is_there_is_replaced_only_when_that_is_asked_for(
    uri: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["recording", "cut", uri, "-o", f"{ROOT}/cut.mcap"]) == 0
    assert main(["recording", "cut", uri, "-o", f"{ROOT}/cut.mcap"]) == 1
    assert "cut.mcap" in capsys.readouterr().err
    with Recording(f"{ROOT}/cut.mcap") as recording:
        assert recording.message_count == 20_000
    for _ in range(2):
        assert main(["report", uri, "-o", f"{ROOT}/page.html"]) == 0
    page = RemotePath(f"{ROOT}/page.html")
    assert page.info().size > 0
    assert not page.with_name("page.html.partial").exists()


def test_a_recorder_sends_its_files_there(server: Popen[str], domain: rtmw.Domain, tmp_path: Path) -> None:
    recorder = rtmw.Recorder(["a"], tmp_path / "run", domain=domain, upload=f"{ROOT}/line")
    with recorder, rtmw.Publisher("a", domain=domain) as publisher:
        publisher.wait_for_subscribers(timeout=10)
        publisher.publish(b"1")
    with Recording(f"{ROOT}/line/run_0.mcap") as recording:
        assert [message.payload for message in recording.messages()] == [b"1"]


def test_what_is_not_there_is_named(uri: str) -> None:
    with pytest.raises(FileNotFoundError, match=r"there is no recording .*none\.mcap"):
        Recording(f"{ROOT}/none.mcap")
    with pytest.raises((FileNotFoundError, RemoteFailed), match="nowhere"):
        find_recordings("gs://anonymous@nowhere/a/*.mcap")


def test_a_server_that_is_gone_is_not_waited_for_without_end(
    server: Popen[str], uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert places._GIVE_UP["gs"] == "?retry_limit_seconds=30"
    monkeypatch.setitem(places._GIVE_UP, "gs", "?retry_limit_seconds=1")
    places._system.cache_clear()
    server.kill()
    server.wait()
    with pytest.raises(RemoteFailed, match=r"cannot be reached: the server .* try again"):
        Recording(uri)


def test_without_credentials_it_is_said_where_they_come_from(
    server: Popen[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", "/nowhere.json")
    with pytest.raises(RemoteFailed, match=r"credentials are missing or refused.*GOOGLE_APPLICATION_CREDENTIALS"):
        Recording("gs://plant/monday/run_0.mcap")
