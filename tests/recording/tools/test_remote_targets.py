"""What tools make, sent to s3://…: there as a whole, or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, cast

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("moto")

import pyarrow.parquet as pq
from pyarrow import fs

from rtmw.cli import main
from rtmw.errors import RemoteFailed
from rtmw.player import Replay
from rtmw.recording import Recording, places
from rtmw.recording.places import RemotePath, send, written_whole
from rtmw.recording.report.build import report
from tests.recording.s3 import BUCKET, Server, put, s3_server
from tests.spark.plant import Plant

ROOT = f"s3://{BUCKET}"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    with s3_server(monkeypatch) as made:
        yield made


@pytest.fixture
def uri(server: Server, tmp_path: Path) -> str:
    plant = Plant(tmp_path / "run_0.mcap")
    plant.put("pump/1", range(200))
    return put(plant.close(), "monday/run_0.mcap")


def test_tools_read_and_write_there(uri: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["recording", "cut", uri, "-o", f"{ROOT}/cut.mcap", "--topics", "pump/1"]) == 0
    assert main(["recording", "export", f"{ROOT}/monday", "--parquet", f"{ROOT}/out"]) == 0
    assert main(["recording", "export", uri, "--jsonl", f"{ROOT}/lines.jsonl"]) == 0
    with Recording(f"{ROOT}/cut.mcap") as recording:
        assert recording.message_count == 200
    place = RemotePath(f"{ROOT}/out")
    table = pq.read_table(f"{BUCKET}/out", filesystem=place.system)
    assert table.num_rows == 200
    assert (place.parent / "lines.jsonl").info().size > 0
    capsys.readouterr()
    assert main(["recording", "info", f"{ROOT}/monday"]) == 0
    assert uri in capsys.readouterr().out


def test_a_report_is_written_there(uri: str) -> None:
    checks = report(uri, f"{ROOT}/monday.html")
    place = RemotePath(f"{ROOT}/monday.html")
    with place.system.open_input_stream(place.inside) as page:
        assert uri in page.read().decode()
    assert checks


def test_a_recording_there_is_replayed(uri: str, domain_id: int) -> None:
    with Replay(uri, domain=domain_id) as replay:
        assert (replay.topics, str(replay.paths[0])) == (("pump/1",), uri)


def test_nothing_is_there_when_it_cannot_be_sent_or_made(server: Server) -> None:
    target = RemotePath(f"{ROOT}/a.txt")
    server.failing_writes = 100
    with pytest.raises(RemoteFailed, match="try again"), written_whole(target) as temporary:
        temporary.write_text("a")
    server.failing_writes = 0
    with pytest.raises(ZeroDivisionError), written_whole(target) as temporary:
        temporary.write_text(str(1 / 0))
    assert not target.exists()


def test_what_is_there_is_not_replaced_unasked(server: Server) -> None:
    target = RemotePath(f"{ROOT}/a.txt")
    for replace in (False, True):
        with written_whole(target, replace=replace) as temporary:
            temporary.write_text("a")
    with pytest.raises(FileExistsError, match="exists: name another one"), written_whole(target) as temporary:
        pass


@pytest.mark.parametrize("before", ["", "what was there"])
def test_a_file_that_cannot_be_read_to_its_end_changes_nothing_there(server: Server, before: str) -> None:
    target = RemotePath(f"{ROOT}/memory")
    if before:
        with written_whole(target) as temporary:
            temporary.write_text(before)
    with pytest.raises(OSError, match="cannot be read to its end; nothing was sent") as raised:
        send(Path("/proc/self/mem"), target)
    assert not isinstance(raised.value, RemoteFailed)
    assert objects() == ({"memory": before} if before else {})


@pytest.mark.parametrize("before", ["", "what was there"])
def test_who_is_interrupted_while_he_sends_changes_nothing_there(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str
) -> None:
    target = RemotePath(f"{ROOT}/a.txt")
    if before:
        with written_whole(target) as temporary:
            temporary.write_text(before)
    source = tmp_path / "a.txt"
    source.write_bytes(bytes(12 << 20))
    pieces = places._pieces

    def interrupted(file: IO[bytes], source: Path) -> Iterator[bytes]:
        yield next(pieces(file, source))
        raise KeyboardInterrupt

    monkeypatch.setattr(places, "_pieces", interrupted)
    with pytest.raises(KeyboardInterrupt):
        send(source, target)
    assert objects() == ({"a.txt": before} if before else {})


def objects() -> dict[str, str]:
    """Names in the bucket, and what is there."""
    root, library = RemotePath(ROOT), cast("Any", fs)
    found = root.system.get_file_info(library.FileSelector(root.inside, recursive=True))
    return {info.base_name: root.system.open_input_file(info.path).read().decode() for info in found}
