"""Recordings at s3://…, read range by range, and what is said when the server fails."""

from __future__ import annotations

import pickle
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("moto")

from rtmw.errors import RecordingDamaged, RecordingError, RemoteFailed
from rtmw.recording import Recording
from rtmw.recording.files import BLOCK, RemoteFile, find_recordings
from rtmw.recording.places import RemotePath, is_remote, place, send
from rtmw.recording.recordings import Recordings, info
from rtmw.recording.tools.check import check
from tests.recording.s3 import BUCKET, Server, put, s3_server
from tests.spark.plant import Plant
from tests.spark.query import Query


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    with s3_server(monkeypatch) as made:
        yield made


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Path:
    plant = Plant(tmp_path_factory.mktemp("plant") / "run_0.mcap", chunk_bytes=4 * BLOCK)
    plant.put("pump/1", range(40_000))
    return plant.close()


def test_a_uri_is_a_path_whose_text_is_the_uri() -> None:
    found = place("s3://plant/monday/run_0.mcap")
    assert (str(found), found.name, found.stem) == ("s3://plant/monday/run_0.mcap", "run_0.mcap", "run_0")
    assert str(found.parent) == "s3://plant/monday"
    assert found == place(found) == place(Path("s3://plant/monday/run_0.mcap"))
    assert str(found.with_name("b") / "c") == "s3://plant/monday/b/c"
    assert pickle.loads(pickle.dumps(found)) == found.absolute()
    assert isinstance(found, RemotePath)
    assert found.inside == "plant/monday/run_0.mcap"
    hdfs = place("hdfs://name:8020/a/b.mcap")
    assert isinstance(hdfs, RemotePath)
    assert (str(hdfs), hdfs.inside) == ("hdfs://name:8020/a/b.mcap", "/a/b.mcap")
    assert place("file:///tmp/a%20b.mcap") == Path("/tmp/a b.mcap")
    assert [is_remote(text) for text in ("gs://a/b", "s3/a", "/s3://a", "c:/a")] == [True, False, False, False]


def test_a_recording_there_has_the_rows_that_it_has_here(server: Server, local: Path) -> None:
    uri = put(local, "monday/run_0.mcap")
    with Recording(uri) as there, Recording(local) as here:
        assert there.complete
        columns = ["offset", "log_time_ns", "pump", "rpm"]
        assert there.to_arrow("pump/1", columns=columns) == here.to_arrow("pump/1", columns=columns)
        assert there.to_arrow("pump/1", columns=["file"])["file"][0].as_py() == uri
    assert check(place(uri)).is_whole
    assert (info(place(uri)).size, info(place(uri)).messages) == (local.stat().st_size, 40_000)


def test_only_ranges_that_are_needed_are_read(server: Server, local: Path) -> None:
    uri = put(local, "run_0.mcap")
    with Recording(uri) as there:
        assert there.message_count == 40_000
        index = server.reads()
        chunks, size = there.chunks, local.stat().st_size
        assert len(chunks) > 4
        assert len(index) <= 3
        last = chunks[-1]
        found = there.to_arrow("pump/1", start=last.start_ns, columns=["log_time_ns"])
        assert found.num_rows >= last.message_count
        assert len(server.reads()) - len(index) <= 4
        assert there.bytes_read < size / 3
        spans = [span.removeprefix("bytes=").split("-") for span in server.reads()]
        told = sum(int(end) - int(begin) + 1 for begin, end in spans)
        assert told == there.bytes_read


@pytest.fixture
def small(tmp_path: Path) -> Path:
    plant = Plant(tmp_path / "a.mcap")
    plant.put("pump/1", range(3))
    return plant.close()


def named(*sources: str) -> list[str]:
    """What these mean, by its names in the bucket."""
    return [str(found).removeprefix(f"s3://{BUCKET}/") for found in find_recordings(sources)]


def test_a_pattern_means_what_it_would_mean_here(server: Server, small: Path) -> None:
    root = f"s3://{BUCKET}"
    for name in ("monday/run_old/run_1.mcap", "monday/run[3].mcap"):
        send(small, RemotePath(f"{root}/{name}"))
    for pattern in ("monday/run_*.mcap", "*.mcap"):
        with pytest.raises(FileNotFoundError, match="there is no recording"):
            named(f"{root}/{pattern}")
    assert named(f"{root}/monday/run_*") == ["monday/run_old/run_1.mcap"]
    assert named(f"{root}/**/run_*.mcap") == ["monday/run_old/run_1.mcap"]
    assert named(f"{root}/**/monday/**/run_*.mcap") == ["monday/run_old/run_1.mcap"]
    assert named(f"{root}/monday/run[3].mcap") == ["monday/run[3].mcap"]


def test_a_prefix_means_the_recordings_below_it(server: Server, small: Path) -> None:
    for name in ("monday/run_10.mcap", "monday/run_2.mcap", "monday/deep/x.mcap", "tuesday/y.mcap", "monday/note.txt"):
        put(small, name)
    root = f"s3://{BUCKET}"
    assert named(f"{root}/monday/") == ["monday/run_2.mcap", "monday/run_10.mcap", "monday/deep/x.mcap"]
    assert named(f"{root}/monday/run_*.mcap") == ["monday/run_2.mcap", "monday/run_10.mcap"]
    assert len(named(root)) == 4
    assert named(f"{root}/tuesday/y.mcap", f"{root}/tues*") == ["tuesday/y.mcap"]
    with pytest.raises(FileNotFoundError, match=f"there is no recording {root}/friday"):
        find_recordings(f"{root}/friday")


def test_tasks_of_spark_read_a_remote_recording(server: Server, local: Path) -> None:
    uri = put(local, "monday/run_0.mcap")
    rows = Query(f"s3://{BUCKET}/monday", topic="pump/1", columns="file, pump").rows()
    assert (len(rows), {row["file"] for row in rows}) == (40_000, {uri})


def test_what_is_not_there_is_not_found(server: Server) -> None:
    with pytest.raises(FileNotFoundError, match=f"there is no recording s3://{BUCKET}/none.mcap"):
        Recording(f"s3://{BUCKET}/none.mcap")
    with pytest.raises(RemoteFailed, match=r"there is no such bucket\. Look at its name"):
        find_recordings("s3://nowhere/a/*.mcap")


def test_refused_credentials_are_said_with_where_they_come_from(server: Server, local: Path) -> None:
    uri = put(local, "run_0.mcap")
    with Recording(uri) as there:
        server.status = "403 Forbidden"
        with pytest.raises(RemoteFailed, match=r"credentials are missing or refused.*AWS_ACCESS_KEY_ID"):
            there.to_arrow("pump/1")


def test_an_object_that_went_away_meanwhile_is_said(server: Server, local: Path) -> None:
    uri = put(local, "run_0.mcap")
    with Recording(uri) as there:
        server.status = "404 Not Found"
        with pytest.raises((FileNotFoundError, RemoteFailed), match=r"run_0\.mcap"):
            there.to_arrow("pump/1")


def test_a_server_that_was_killed_is_said_and_another_one_may_be_asked(server: Server, local: Path) -> None:
    uri = put(local, "run_0.mcap")
    with Recording(uri) as there:
        batches = there.record_batches("pump/1")
        assert batches.read_next_batch().num_rows
        server.stop()
        with pytest.raises(RemoteFailed, match=r"cannot be reached: the server .* try again\. The library says"):
            batches.read_all()
    server.__post_init__()


def test_a_truncated_answer_is_no_row(server: Server, local: Path) -> None:
    uri = put(local, "run_0.mcap")
    with Recording(uri) as there:
        server.cut = True
        with pytest.raises((RecordingDamaged, RemoteFailed), match=r"run_0\.mcap"):
            there.to_arrow("pump/1")
        server.cut = False
        assert there.to_arrow("pump/1").num_rows == 40_000


def test_a_short_read_is_an_error_with_its_position(server: Server, local: Path) -> None:
    uri = put(local, "run_0.mcap")
    file = RemoteFile(RemotePath(uri))
    file.size += 1000  # as if the object had become shorter since it was looked at
    with pytest.raises((RecordingDamaged, RemoteFailed), match=rf"{file.size - 500}|range"):
        file.read(file.size - 500, 500)
    file.close()


def test_a_slow_server_is_waited_for(server: Server, local: Path) -> None:
    uri = put(local, "run_0.mcap")
    server.delay = 0.3
    begin = time.perf_counter()
    with Recording(uri) as there:
        assert there.message_count == 40_000
    assert time.perf_counter() - begin >= 0.3


def test_a_folder_is_no_recording(server: Server, local: Path) -> None:
    put(local, "monday/run_0.mcap")
    with pytest.raises(RecordingError, match="it is a folder"):
        Recording(f"s3://{BUCKET}/monday")


def test_recordings_there_are_one_table_by_folder_and_by_pattern(server: Server, tmp_path: Path) -> None:
    for name, numbers in (("a", range(5)), ("b", range(5, 9))):
        plant = Plant(tmp_path / f"{name}.mcap")
        plant.put("pump/1", numbers)
        put(plant.close(), f"monday/{name}.mcap")
    for source in (
        f"s3://{BUCKET}/monday",
        f"s3://{BUCKET}/monday/*.mcap",
        [f"s3://{BUCKET}/monday/{n}.mcap" for n in "ab"],
    ):
        with Recordings(source) as monday:
            assert monday.message_count == 9
            assert monday.to_arrow("pump/1", columns=["pump"]).num_rows == 9
    with pytest.raises(FileNotFoundError, match=f"s3://{BUCKET}/tuesday"):
        Recordings(f"s3://{BUCKET}/tuesday")
