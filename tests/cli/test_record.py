"""`rtmw record` as a program."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import rtmw
from rtmw.cli.record import line, summary
from rtmw.recorder import RecorderStats
from rtmw.recording.contents import Cause
from tests import warm
from tests.cli.command import ROOT, Start, starting
from tests.recorder.files import payloads_of, table_of

LONG_S = 60.0


@pytest.fixture(autouse=True)
def hangup() -> Iterator[None]:
    """Programs begin as in a terminal, also where the tests were started with nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.fixture
def start(domain: rtmw.Domain, tmp_path: Path) -> Iterator[Start]:
    """Starts `rtmw record` in the domain, and waits until it records."""
    with starting("record", "-o", str(tmp_path / "run"), said="recording to") as start:
        yield start


def files(folder: Path) -> list[Path]:
    return sorted(folder.glob("run/*.mcap"))


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + LONG_S
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it_with_a_complete_file(
    number: signal.Signals, start: Start, domain: rtmw.Domain, tmp_path: Path
) -> None:
    process = start("a", "b")
    with rtmw.Publisher("a", domain=domain) as publisher:
        assert publisher.wait_for_subscribers(timeout=LONG_S)
        for i in range(100):
            publisher.publish(b"%d" % i)
        process.send_signal(number)
        out, err = process.communicate(timeout=LONG_S)
    assert (process.returncode, err) == (0, "")
    assert out.startswith("recorded 100 messages")
    assert payloads_of(files(tmp_path)) == [b"%d" % i for i in range(100)]


IN_A_TERMINAL = """
import fcntl, sys, termios
from rtmw.cli import main
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
sys.exit(main(sys.argv[1:]))
"""


def test_who_closes_the_terminal_has_a_complete_file(domain: rtmw.Domain, tmp_path: Path) -> None:
    """Nothing that it still wants to say may be in the way."""
    ours, its = pty.openpty()
    command = [sys.executable, "-c", IN_A_TERMINAL, "record", "a", "-o", str(tmp_path / "run")]
    process = subprocess.Popen(command, stdin=its, stdout=its, stderr=its, cwd=ROOT, start_new_session=True)
    os.close(its)
    with rtmw.Publisher("a", domain=domain) as publisher:
        assert publisher.wait_for_subscribers(timeout=LONG_S)
        publisher.publish(b"1")
        os.close(ours)
        process.wait(LONG_S)
    assert payloads_of(files(tmp_path)) == [b"1"]


def test_with_nohup_it_outlives_its_terminal(domain: rtmw.Domain, tmp_path: Path) -> None:
    command = ["nohup", sys.executable, "-m", "rtmw", "record", "a", "-o", str(tmp_path / "run")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT)
    with rtmw.Publisher("a", domain=domain) as publisher:
        assert publisher.wait_for_subscribers(timeout=LONG_S)
        process.send_signal(signal.SIGHUP)
        publisher.publish(b"1")
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=LONG_S)
    assert process.returncode == 0
    assert payloads_of(files(tmp_path)) == [b"1"]


def test_a_second_signal_does_no_harm(start: Start, domain: rtmw.Domain, tmp_path: Path) -> None:
    process = start("a")
    with rtmw.Publisher("a", domain=domain) as publisher:
        assert publisher.wait_for_subscribers(timeout=LONG_S)
        publisher.publish(b"1")
        for _ in range(20):
            process.send_signal(signal.SIGINT)
        process.communicate(timeout=LONG_S)
    assert process.returncode == 0
    assert payloads_of(files(tmp_path)) == [b"1"]


def test_sigusr1_begins_the_next_file_and_sigusr2_pauses(start: Start, domain: rtmw.Domain, tmp_path: Path) -> None:
    process = start("a")
    assert process.stderr is not None
    with rtmw.Publisher("a", domain=domain) as publisher:
        assert publisher.wait_for_subscribers(timeout=LONG_S)
        publisher.publish(b"1")
        for number, said in ((signal.SIGUSR1, "next file:"), (signal.SIGUSR2, "paused"), (signal.SIGUSR2, "going on")):
            process.send_signal(number)
            assert said in process.stderr.readline()
        publisher.publish(b"2")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=LONG_S)
    assert [payloads_of([path]) for path in files(tmp_path)] == [[b"1"], [b"2"]]


def test_record_ends_after_the_time_that_was_given(start: Start, tmp_path: Path) -> None:
    process = start("--all", "--for", "0.1")
    out, _ = process.communicate(timeout=LONG_S)
    assert process.returncode == 0
    assert out.splitlines()[1:] == [str(path) for path in files(tmp_path)]


def test_for_programs_its_last_line_is_the_whole_in_json(start: Start, domain: rtmw.Domain, tmp_path: Path) -> None:
    process = start("a", "--json")
    process.send_signal(signal.SIGUSR2)
    assert process.stderr is not None
    assert "paused" in process.stderr.readline()
    with rtmw.Publisher("a", domain=domain) as publisher:
        publisher.publish(b"while it is paused")
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=LONG_S)
    facts = [json.loads(line) for line in out.splitlines()]
    assert (facts[-1]["topics"], facts[-1]["messages"], facts[-1]["missing"]) == (1, 0, {"paused": 1})
    assert facts[-1]["paths"] == [str(path) for path in files(tmp_path)]


FULL = """
import resource, signal, sys
from rtmw.cli import main
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
sys.exit(main(sys.argv[1:]))
"""


# Proves G140.
def test_a_disk_that_is_full_ends_it_in_words_and_nobody_on_the_bus_notices(
    domain: rtmw.Domain, tmp_path: Path
) -> None:
    command = [sys.executable, "-c", FULL, "record", "a", "-o", str(tmp_path / "run"), "--chunk", "10K"]
    process = subprocess.Popen(
        [*command, "--compression", "none"], stderr=subprocess.PIPE, text=True, cwd=ROOT, env={**os.environ}
    )
    with rtmw.Publisher("a", domain=domain, reliability=rtmw.Reliability.RELIABLE, max_blocking=0.0) as publisher:
        until(lambda: publisher.publish(b"x" * 1000) and process.poll() is not None)
        assert publisher.stats().timed_out == 0
    _, err = process.communicate(timeout=LONG_S)
    assert process.returncode == 1
    assert "the recording ended: File too large; what was written before is in" in err
    with rtmw.Recording(files(tmp_path)[0]) as recording:
        found = [message.payload for message in recording.messages()]
    assert found == [b"x" * 1000] * len(found)
    assert len(found) > 50


def test_a_topic_that_cannot_be_recorded_is_said_however_short_it_records(domain: rtmw.Domain, tmp_path: Path) -> None:
    done = warm.run("record", "-o", str(tmp_path / "run"), "--for", "0.01", "x" * 192, "a", check=True)
    assert f"{'x' * 192} is not recorded: " in done.stderr


def test_wrong_wishes_are_refused(domain: rtmw.Domain, tmp_path: Path) -> None:
    for arguments, status, said in (
        ([], 1, "say which topics to record"),
        (["a", "--all"], 1, "say which topics to record"),
        (["a", "--compression", "gzip"], 1, "lz4, zstd, none"),
        (["a", "--split-size", "much"], 2, "'much' is not a size"),
    ):
        done = warm.run("record", "-o", str(tmp_path / "run"), *arguments)
        assert (done.returncode, said in done.stderr) == (status, True), done.stderr
    assert files(tmp_path) == []


def test_totals_say_what_is_in_the_file_what_a_full_disk_did_not_take_and_why(
    domain: rtmw.Domain, tmp_path: Path
) -> None:
    command = [sys.executable, "-c", FULL, "record", "a", "-o", str(tmp_path / "run"), "--compression", "none"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=ROOT, env={**os.environ})
    with rtmw.Publisher("a", domain=domain) as publisher:
        assert publisher.wait_for_subscribers(timeout=LONG_S)
        publisher.publish_many([b"small"] * 3)
        publisher.publish(bytes(200_000))
        _, err = process.communicate(timeout=LONG_S)
    (path,) = files(tmp_path)
    written = len(payloads_of([path]))
    table = table_of(path, "rtmw.recorder")
    assert table["topics"] == {"a": {"messages": written, "unwritten": 4 - written}}
    assert table["missing"] == {"unwritten": 4 - written}
    assert table["failed"] == "File too large"
    assert written < 4
    assert f"could not be written: {4 - written} (" in err


def test_json_has_the_totals_also_when_the_disk_is_full(domain: rtmw.Domain, tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-c",
        FULL,
        "record",
        "a",
        "-o",
        str(tmp_path / "run"),
        "--compression",
        "none",
        "--json",
    ]
    pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen(command, cwd=ROOT, env={**os.environ}, **pipes)
    with rtmw.Publisher("a", domain=domain) as publisher:
        assert publisher.wait_for_subscribers(timeout=LONG_S)
        publisher.publish(bytes(200_000))
        out, err = process.communicate(timeout=LONG_S)
    assert process.returncode == 1
    assert "File too large" in err
    assert json.loads(out.splitlines()[-1])["missing"] == {"unwritten": 1}


def run_in(domain_id: int, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "rtmw", "record", "--domain", str(domain_id), *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT)


def test_a_domain_that_does_not_exist_is_told_and_not_made(domain_id: int, tmp_path: Path) -> None:
    with run_in(domain_id, "a", "-o", str(tmp_path / "run")) as recorder:
        _, err = recorder.communicate(timeout=LONG_S)
    assert (recorder.returncode, err.count("\n")) == (1, 1)
    assert f"domain {domain_id} does not exist" in err
    assert err.endswith("--wait waits for the domain.\n")
    with pytest.raises(rtmw.DomainNotFound):
        rtmw.Domain(domain_id, create=False)
    assert not (tmp_path / "run").exists()


def test_told_to_it_waits_for_the_domain(domain_id: int, tmp_path: Path) -> None:
    with run_in(domain_id, "a", "-o", str(tmp_path / "run"), "--wait") as recorder:
        assert recorder.stderr is not None
        assert recorder.stderr.readline() == f"waiting for domain {domain_id}\n"
        with rtmw.Domain(domain_id) as domain:
            assert "recording to" in recorder.stderr.readline()
            publisher = rtmw.Publisher("a", domain=domain)
            assert publisher.wait_for_subscribers(timeout=LONG_S)
            assert publisher.publish(b"late")
            recorder.send_signal(signal.SIGINT)
            recorder.communicate(timeout=LONG_S)
    assert payloads_of(files(tmp_path), "a") == [b"late"]


@pytest.mark.parametrize("more", [(), ("--for", "0.1")], ids=["a signal", "its time"])
def test_the_wait_for_a_domain_ends(domain_id: int, tmp_path: Path, more: tuple[str, ...]) -> None:
    with run_in(domain_id, "a", "-o", str(tmp_path / "run"), "--wait", *more) as recorder:
        assert recorder.stderr is not None
        assert recorder.stderr.readline() == f"waiting for domain {domain_id}\n"
        if not more:
            recorder.send_signal(signal.SIGINT)
        _, err = recorder.communicate(timeout=LONG_S)
    assert (recorder.returncode, err) == (1, f"rtmw: There was no domain {domain_id}, so nothing was recorded.\n")


def test_a_snapshot_that_nobody_asked_for_is_not_called_recorded(
    start: Start, domain: rtmw.Domain, tmp_path: Path
) -> None:
    process = start("a", "--snapshot", "3600")
    with rtmw.Publisher("a", domain=domain) as publisher:
        assert publisher.wait_for_subscribers(timeout=LONG_S)
        publisher.publish_many([b"x"] * 20)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=LONG_S)
    told = "took 20 messages of 1 topic, and wrote none: no snapshot was asked for (SIGUSR1, or the key s)\n"
    assert (process.returncode, out, files(tmp_path)) == (0, told, [])


def test_of_a_snapshot_the_messages_that_are_in_its_file_are_told(
    start: Start, domain: rtmw.Domain, tmp_path: Path
) -> None:
    process = start("a", "--snapshot", "3600")
    with rtmw.Publisher("a", domain=domain) as publisher:
        assert publisher.wait_for_subscribers(timeout=LONG_S)
        publisher.publish_many([b"x"] * 20)
        process.send_signal(signal.SIGUSR1)
        assert process.stderr is not None
        assert "snapshot: " in process.stderr.readline()
        publisher.publish_many([b"y"] * 5)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=LONG_S)
    written = len(payloads_of(files(tmp_path)))
    assert written == 20
    assert out.splitlines()[0] == "took 25 messages (25 B) of 1 topic, and wrote 20 messages in snapshots"


STATS = RecorderStats(3, 1000, 1 << 20, 1 << 19, 1, {Cause.OVERFLOWED: 7, Cause.EARLY: 9}, 0.25, 0, True)


def test_a_line_tells_rates_and_what_is_missing() -> None:
    before = RecorderStats(3, 500, 0, 0, 1, {}, 0.0, 0, False)
    assert line(STATS, before, 0.5) == (
        "1000 messages of 3 topics · 1000/s, 2.0 MiB/s · 512.0 KiB in 1 file · missing: 9 early, 7 overflowed"
        " · disk behind: 25 % of the buffer · paused"
    )


def test_the_summary_names_the_files() -> None:
    assert summary(STATS, [Path("run/run_0.mcap")]) == [
        "recorded 1000 messages (1.0 MiB) of 3 topics",
        "missing: 9 early, 7 overflowed",
        "run/run_0.mcap",
    ]
    assert json.dumps(STATS.missing)
    one = RecorderStats(1, 1, 8, 0, 1, {}, 0.0, 0, False)
    assert summary(one, []) == ["recorded 1 message (8 B) of 1 topic"]
    assert line(one, one, 1.0) == "1 message of 1 topic · 0/s, 0 B/s · 0 B in 1 file"
