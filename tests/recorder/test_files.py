"""The files of a recording: their names, when the next one begins, and what each begins with."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

import rtmw
from rtmw.recorder.files import Files, Settings
from rtmw.recording._mcap import ChunkBuilder
from tests.child import Spawn
from tests.clocks import Moved
from tests.recorder.files import messages_of, payloads_of, table_of, until

FORKING = """
import os, time
import rtmw
recorder = rtmw.Recorder("a", {!r})
if not os.fork():
    print(os.getpid())
time.sleep(1000)
"""


def names(paths: tuple[Path, ...]) -> list[str]:
    return [path.name for path in paths]


def test_a_file_has_the_name_of_its_folder_and_a_number(domain: rtmw.Domain, tmp_path: Path) -> None:
    with rtmw.Recorder("a", tmp_path / "deep" / "run", domain=domain) as recorder:
        assert recorder.paths == (tmp_path / "deep" / "run" / "run_0.mcap",)
    assert recorder.paths[0].exists()


def test_a_folder_with_a_recording_is_refused_unless_it_is_to_be_appended_to(
    domain: rtmw.Domain, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    rtmw.Recorder("a", folder, domain=domain).close()
    with pytest.raises(rtmw.RecordingFailed, match=r"holds a recording already \(run_0.mcap\)"):
        rtmw.Recorder("a", folder, domain=domain)
    with rtmw.Recorder("a", folder, domain=domain, append=True) as second:
        assert names(second.paths) == ["run_1.mcap"]


def test_a_folder_has_one_recorder_at_a_time(domain: rtmw.Domain, tmp_path: Path) -> None:
    with rtmw.Recorder("a", tmp_path / "run", domain=domain) as first:
        with pytest.raises(rtmw.RecordingFailed, match="another recorder writes to this folder; name another one"):
            rtmw.Recorder("a", tmp_path / "run", domain=domain, append=True)
        assert first.split() == tmp_path / "run" / "run_1.mcap"
    with rtmw.Recorder("a", tmp_path / "run", domain=domain, append=True) as second:
        assert names(second.paths) == ["run_2.mcap"]


def test_a_child_of_a_recorder_that_was_killed_does_not_hold_its_folder(
    domain: rtmw.Domain, spawn: Spawn, tmp_path: Path
) -> None:
    recording = spawn(FORKING.format(str(tmp_path / "run")))
    child = int(recording.line())
    try:
        recording.kill()
        rtmw.Recorder("a", tmp_path / "run", domain=domain, append=True).close()
    finally:
        os.kill(child, signal.SIGKILL)


def test_a_folder_that_cannot_be_made_is_an_error_in_words(domain: rtmw.Domain, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(rtmw.RecordingFailed, match="no recording can begin there: Not a directory"):
        rtmw.Recorder("a", tmp_path / "file" / "run", domain=domain)


def test_no_file_is_larger_than_the_split_size(domain: rtmw.Domain, tmp_path: Path) -> None:
    with (
        rtmw.Recorder(
            "a", tmp_path / "run", domain=domain, compression="none", chunk_bytes=10_000, split_bytes=200_000
        ) as recorder,
        rtmw.Publisher("a", domain=domain) as publisher,
    ):
        for i in range(1000):
            publisher.publish(b"%04d" % i * 250)
            until(lambda i=i: recorder.stats().messages > i)  # type: ignore[misc]
    assert all(100_000 < path.stat().st_size <= 200_000 for path in recorder.paths[:-1])
    assert len(recorder.paths) > 5
    assert payloads_of(recorder.paths) == [b"%04d" % i * 250 for i in range(1000)]


def test_the_next_file_begins_when_it_is_time(domain: rtmw.Domain, tmp_path: Path) -> None:
    with (
        rtmw.Recorder("a", tmp_path / "run", domain=domain, split_every=0.01, chunk_bytes=100) as recorder,
        rtmw.Publisher("a", domain=domain) as publisher,
    ):
        until(lambda: publisher.publish(b"x" * 50) and len(recorder.paths) >= 3)
    assert all(payloads_of([path]) for path in recorder.paths)


def test_the_oldest_files_go_when_only_some_are_kept(domain: rtmw.Domain, tmp_path: Path) -> None:
    with (
        rtmw.Recorder("a", tmp_path / "run", domain=domain, keep=2) as recorder,
        rtmw.Publisher("a", domain=domain) as publisher,
    ):
        for _ in range(4):
            publisher.publish(b"1")
            recorder.split()
    assert names(recorder.paths) == ["run_3.mcap", "run_4.mcap"]
    assert sorted(path.name for path in recorder.folder.iterdir()) == names(recorder.paths)


def test_the_files_of_the_recorder_before_count_when_only_some_are_kept(domain: rtmw.Domain, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    for name in ("run_9.mcap", "run_10.mcap", "run_11.mcap", "other_1.mcap"):
        (folder / name).write_bytes(b"")
    with rtmw.Recorder("a", folder, domain=domain, keep=2, append=True) as recorder:
        assert names(recorder.paths) == ["run_12.mcap"]
    assert {path.name for path in folder.iterdir()} == {"run_11.mcap", "run_12.mcap", "other_1.mcap"}


def test_a_split_on_demand_takes_all_that_was_published_before(domain: rtmw.Domain, tmp_path: Path) -> None:
    with (
        rtmw.Recorder("a", tmp_path / "run", domain=domain) as recorder,
        rtmw.Publisher("a", domain=domain) as publisher,
    ):
        publisher.publish(b"before")
        assert recorder.split() == recorder.folder / "run_1.mcap"
        publisher.publish(b"after")
    assert [payloads_of([path]) for path in recorder.paths] == [[b"before"], [b"after"]]


def test_what_is_latched_is_carried_into_every_file(domain: rtmw.Domain, tmp_path: Path) -> None:
    with (
        rtmw.Recorder(["map", "data"], tmp_path / "run", domain=domain) as recorder,
        rtmw.Publisher("map", domain=domain, history=1, priority=3) as one,
        rtmw.Publisher("map", domain=domain, history=1) as other,
        rtmw.Publisher("data", domain=domain) as data,
    ):
        for publisher, payload in ((one, b"old"), (one, b"map 1"), (other, b"map 2"), (data, b"data 1")):
            publisher.publish(payload)
        until(lambda: recorder.stats().messages == 4)
        recorder.split()
        data.publish(b"data 2")
        until(lambda: recorder.stats().messages == 5)
        recorder.split()
    first, second, third = (messages_of([path]) for path in recorder.paths)
    assert {m.payload for m in first} == {b"old", b"map 1", b"map 2", b"data 1"}
    assert {(m.payload, m.flags) for m in second} == {(b"map 1", 1), (b"map 2", 1), (b"data 2", 0)}
    assert {(m.payload, m.flags) for m in third} == {(b"map 1", 1), (b"map 2", 1)}
    carried = next(m for m in second if m.payload == b"map 1")
    original = next(m for m in first if m.payload == b"map 1")
    for field in ("publish_time", "sequence", "priority", "publisher"):
        assert getattr(carried, field) == getattr(original, field)
    assert original.log_time < carried.log_time <= second[-1].log_time


def test_a_publisher_that_keeps_messages_and_comes_late_is_latched_too(domain: rtmw.Domain, tmp_path: Path) -> None:
    with (
        rtmw.Recorder("map", tmp_path / "run", domain=domain) as recorder,
        rtmw.Publisher("map", domain=domain) as plain,
    ):
        plain.publish(b"plain")
        until(lambda: recorder.stats().messages == 1)
        recorder.split()
        with rtmw.Publisher("map", domain=domain, history=1) as keeping:
            carried: list[bytes] = []
            while not carried:
                keeping.publish(b"map")
                recorder.split()
                carried = [message.payload for message in messages_of(recorder.paths[-2:-1]) if message.flags]
                assert len(recorder.paths) < 10_000
    assert b"map" in carried


def test_what_has_expired_is_not_carried(domain: rtmw.Domain, tmp_path: Path) -> None:
    with (
        rtmw.Recorder("map", tmp_path / "run", domain=domain) as recorder,
        rtmw.Publisher("map", domain=domain, history=1) as publisher,
    ):
        publisher.publish(b"soon gone", lifetime=0.5)
        until(lambda: recorder.stats().messages + sum(recorder.stats().missing.values()) == 1)
        time.sleep(0.6)  # its lifetime
        recorder.split()
    assert payloads_of(recorder.paths[1:]) == []


def test_a_snapshot_is_what_came_last(domain: rtmw.Domain, tmp_path: Path) -> None:
    with (
        rtmw.Recorder("a", tmp_path / "run", domain=domain, snapshot=3600.0) as recorder,
        rtmw.Publisher("a", domain=domain) as publisher,
    ):
        assert recorder.snapshot() is None
        publisher.publish(b"1")
        until(lambda: recorder.stats().messages == 1)
        assert recorder.snapshot() == recorder.folder / "run_0.mcap"
        assert recorder.snapshot() is None
        publisher.publish(b"2")
        until(lambda: recorder.stats().messages == 2)
        recorder.snapshot()
        publisher.publish(b"never wanted")
    assert [payloads_of([path]) for path in recorder.paths] == [[b"1"], [b"2"]]
    assert table_of(recorder.paths[0], "rtmw.recorder")["began"] == "snapshot"


def test_a_snapshot_holds_no_more_than_its_memory_and_what_was_latched_before(
    domain: rtmw.Domain, tmp_path: Path
) -> None:
    with (
        rtmw.Recorder(
            ["map", "a"], tmp_path / "run", domain=domain, snapshot=3600.0, chunk_bytes=10_000, buffer_bytes=100_000
        ) as recorder,
        rtmw.Publisher("map", domain=domain, history=1) as latched,
        rtmw.Publisher("a", domain=domain) as publisher,
    ):
        latched.publish(b"map")
        until(lambda: recorder.stats().messages == 1)
        for i in range(500):
            publisher.publish(b"%03d" % i * 300)
            until(lambda i=i: recorder.stats().messages > i + 1 and recorder.stats().backlog < 0.5)  # type: ignore[misc]
        recorder.snapshot()
    found = messages_of(recorder.paths)
    assert (found[0].payload, found[0].flags) == (b"map", 1)
    rows = [int(message.payload[:3]) for message in found[1:]]
    assert rows == list(range(500 - len(rows), 500))
    assert 0 < len(rows) <= 60
    assert not recorder.stats().missing


def test_files_are_split_by_the_clock_that_they_were_given(tmp_path: Path) -> None:
    clock, chunk = Moved(), ChunkBuilder(1 << 16)
    (tmp_path / "run").mkdir()
    files = Files(tmp_path / "run", Settings(split_every=60.0), lambda _: {}, clock)

    def written() -> int:
        """A chunk; how many files there are."""
        chunk.append(channel, b"payload", 1, 1, 1, 0, 0, 0, 0)
        files.write(chunk, {}, set())
        return len(files.paths)

    channel = files.open().channel("topic", 0, "x")
    assert written() == 1
    clock.pass_by(59.9)
    clock.set(3600)
    assert written() == 1, "the wall clock does not count"
    clock.pass_by(0.2)
    assert written() == 2
    assert written() == 2
    files.close()
