"""A disk that has an I/O error: the recorder says so and keeps what is there, and nobody on the bus notices."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import rtmw
from rtmw.recording.tools.recover import recover
from tests.child import Child, Spawn
from tests.recorder.files import LONG_S, table_of, until

BREAK = f"""
import json, sys, threading
sys.path.insert(0, {str(Path(__file__).parents[2])!r})
import rtmw
from rtmw.cli import main
from tests.recorder import failing

def break_disk(calls):
    sys.stdin.readline()
    print(failing.fail(".mcap", calls) or "broken", flush=True)
"""
PROGRAM = """
recorder = rtmw.Recorder("a", {folder!r}, compression="none", chunk_bytes=2000, sync_every={sync_every})
break_disk(failing.{calls})
try:
    recorder.wait()
except rtmw.RecordingFailed as error:
    print(error)
stats = recorder.stats()
print(json.dumps([stats.messages, {{cause.name: count for cause, count in stats.missing.items()}}]))
"""
COMMAND = """
threading.Thread(target=break_disk, args=(failing.WRITE,), daemon=True).start()
sys.exit(main(["record", "a", "-o", {folder!r}, "--compression", "none", "--chunk", "2K"]))
"""
DEMANDING = """
recorder = rtmw.Recorder("a", {folder!r})
break_disk(failing.WRITE)
for _ in range(2):
    try:
        print(recorder.split())
    except rtmw.RecordingFailed as error:
        print(error)
"""
WORDS = r"the recording ended: Input/output error.*; what was written before is in .*run, .* not be written: (\d+) \("


def payload(number: int) -> bytes:
    return b"%08d" % number * 20


def rows_of(path: Path) -> list[int]:
    """The numbers of the messages in a file, which are whole and in order."""
    with rtmw.Recording(path) as recording:
        payloads = [message.payload for message in recording.messages()]
    rows = [int(found[:8]) for found in payloads]
    assert payloads == [payload(row) for row in rows]
    assert rows == sorted({*rows})
    return rows


def break_disk(child: Child) -> None:
    child.send()
    said = child.line(LONG_S)
    if said != "broken":
        pytest.skip(said)


def publish_until_it_ends(domain: rtmw.Domain, child: Child, path: Path) -> None:
    """Messages, before the disk fails and after; RELIABLE, and never made to wait."""
    number = 0
    with rtmw.Publisher("a", domain=domain, reliability=rtmw.Reliability.RELIABLE, max_blocking=0.0) as publisher:
        until(path.exists)
        assert publisher.wait_for_subscribers(timeout=LONG_S)
        while path.stat().st_size < 20_000:
            assert publisher.publish(payload(number))
            number += 1
        break_disk(child)
        while child.alive:
            assert publisher.publish(payload(number))
            number += 1
        assert publisher.stats().timed_out == 0


@pytest.mark.parametrize(("calls", "sync_every"), [("WRITE", 5.0), ("SYNC", 0.001)])
# Proves G141.
def test_after_an_io_error_the_books_are_those_of_the_file_and_publishers_went_on(
    calls: str, sync_every: float, domain: rtmw.Domain, spawn: Spawn, tmp_path: Path
) -> None:
    path = tmp_path / "run" / "run_0.mcap"
    child = spawn(BREAK + PROGRAM.format(folder=str(path.parent), calls=calls, sync_every=sync_every))
    publish_until_it_ends(domain, child, path)
    words = re.fullmatch(WORDS + ".*", child.line(LONG_S))
    messages, missing = json.loads(child.line(LONG_S))
    assert words
    assert len(rows_of(path)) == messages >= 20
    assert missing["UNWRITTEN"] == int(words[1])


# Proves G141.
def test_a_disk_that_takes_no_more_leaves_what_can_be_recovered(
    domain: rtmw.Domain, spawn: Spawn, tmp_path: Path
) -> None:
    path = tmp_path / "run" / "run_0.mcap"
    child = spawn(BREAK + COMMAND.format(folder=str(path.parent)))
    publish_until_it_ends(domain, child, path)
    assert child.wait(LONG_S) == 1
    assert re.search(WORDS, child.stderr)
    rows = rows_of(path)
    recovered = recover(path, tmp_path / "whole.mcap")
    assert (recovered.messages, recovered.lost, rows_of(recovered.target)) == (len(rows), [], rows)


def test_a_sync_that_fails_is_told_in_the_file(domain: rtmw.Domain, spawn: Spawn, tmp_path: Path) -> None:
    path = tmp_path / "run" / "run_0.mcap"
    child = spawn(BREAK + PROGRAM.format(folder=str(path.parent), calls="SYNC", sync_every=0.001))
    publish_until_it_ends(domain, child, path)
    table = table_of(path, "rtmw.recorder")
    assert table["failed"].startswith("Input/output error at a sync, so what was written since the one before may")
    assert table["topics"]["a"]["messages"] == len(rows_of(path))


def test_what_came_last_is_synced_too_though_nothing_follows(domain: rtmw.Domain, spawn: Spawn, tmp_path: Path) -> None:
    child = spawn(BREAK + PROGRAM.format(folder=str(tmp_path / "run"), calls="SYNC", sync_every=2.0))
    with rtmw.Publisher("a", domain=domain) as publisher:
        assert publisher.wait_for_subscribers(timeout=LONG_S)
        break_disk(child)
        publisher.publish(payload(0))
        assert re.match(WORDS, child.line(LONG_S))


def test_who_asks_for_the_next_file_is_told_that_the_disk_has_failed(
    domain: rtmw.Domain, spawn: Spawn, tmp_path: Path
) -> None:
    child = spawn(BREAK + DEMANDING.format(folder=str(tmp_path / "run")))
    with rtmw.Publisher("a", domain=domain) as publisher:
        assert publisher.wait_for_subscribers(timeout=LONG_S)
        publisher.publish(b"1")
        break_disk(child)
        for _ in range(2):
            assert re.match(WORDS.replace(r"(\d+)", "1"), child.line(LONG_S))
