"""`rtmw replay`: what it plays, says and answers."""

from __future__ import annotations

import argparse
import json
import os
import pty
import signal
import subprocess
import sys
import time
from datetime import datetime
from pathlib import Path

import pytest

import rtmw
from rtmw.cli.parsing import moment, rate
from rtmw.cli.replay import quality, renaming
from tests.cli.command import Run
from tests.recordings import SECOND, Maker, numbered

pytestmark = pytest.mark.usefixtures("domain")


def test_it_plays_a_recording_and_says_how_many_messages(run: Run, tmp_path: Path) -> None:
    path = numbered(tmp_path / "a.mcap", ["t"], 20)
    with rtmw.Subscriber("t") as taker:
        status, out, err = run("replay", str(path), "--rate", "max")
        assert len(list(iter(taker.take, None))) == 20
    assert (status, err) == (0, "")
    assert out.startswith("published 20 messages, 160 B, in ")


def test_replay_tells_its_figures_in_json(run: Run, tmp_path: Path) -> None:
    path = numbered(tmp_path / "a.mcap", ["a", "b"], 20)
    status, out, _ = run("replay", str(path), "--topics", "a", "--remap", "a=c", "--rate", "10", "--json")
    facts = json.loads(out)
    assert (status, facts["published"], facts["dropped"], facts["lateness"]["count"]) == (0, 10, {}, 10)


def test_without_a_spin_it_sleeps_until_each_message_is_due(run: Run, tmp_path: Path) -> None:
    path = numbered(tmp_path / "a.mcap", ["a"], 20)
    status, out, _ = run("replay", str(path), "--spin", "0", "--json")
    facts = json.loads(out)
    assert (status, facts["published"], facts["spun"]) == (0, 20, 0.0)
    assert facts["overslept"]["count"] <= 19


def test_what_is_not_played_is_said(run: Run, tmp_path: Path) -> None:
    with Maker(tmp_path / "a.mcap") as maker:
        maker.write(maker.writer.channel("plan", 0, "json"), 0, b"{}")
        maker.write(maker.channel("t"), 0, b"x")
    status, _, err = run("replay", str(maker.path))
    assert status == 0
    assert err.startswith("rtmw: plan is not played: ")


def test_a_start_behind_the_end_is_refused_or_said_where_kept_messages_are_published(run: Run, tmp_path: Path) -> None:
    path = numbered(tmp_path / "a.mcap", ["t"], 3, apart_ns=SECOND)
    told = "a replay from 2.5 s has no message: the recording began at 2023-11-14 22:13:20 and is 2 s long"
    assert run("replay", str(path), "--start", "2.5")[::2] == (1, f"rtmw: {told}\n")
    assert run("replay", str(path), "--start", "2")[2] == ""
    told = "rtmw: the recording ends 2 s after it began, before --start: only what was valid then is published.\n"
    assert run("replay", str(path), "--start", "2.5", "--qos", "t:history=1")[::2] == (0, told)


def test_where_there_is_nothing_to_play_it_says_why(run: Run, tmp_path: Path) -> None:
    empty = Maker(tmp_path / "a.mcap").close()
    told = f"rtmw: There is nothing to play in {empty}: no topics, or only those of rtmw.\n"
    assert run("replay", str(empty)) == (1, "", told)
    with Maker(tmp_path / "b.mcap") as maker:
        maker.write(maker.writer.channel("plan", 0, "json"), 0, b"{}")
    status, _, err = run("replay", str(maker.path))
    assert status == 1
    assert err.endswith(f"rtmw: There is nothing to play in {maker.path}: none of the topics can be played.\n")


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("{}/none.mcap",), "no recording"),
        (("{}/a.mcap", "--topics", "nothing"), "has no topic nothing"),
        (("{}/a.mcap", "--wait", "1", "--timeout", "0.01"), "1 subscriber after"),
        (("{}/a.mcap", "--end", "1e9"), "no moment"),
    ],
)
def test_what_cannot_be_is_told_in_one_sentence(
    run: Run, tmp_path: Path, arguments: tuple[str, ...], word: str
) -> None:
    numbered(tmp_path / "a.mcap", ["t"], 1)
    status, out, err = run("replay", *(argument.format(tmp_path) for argument in arguments))
    assert (status, out) == (1, "")
    assert word in err
    assert len(err.splitlines()) == 1


def test_arguments_are_read_as_they_are_meant() -> None:
    assert (rate("max"), rate("2.5")) == (None, 2.5)
    assert (moment("2.5"), moment("2min"), moment("2026-01-31T12:00")) == (2.5, 120.0, datetime(2026, 1, 31, 12))
    assert renaming("a=b=c") == ("a", "b=c")
    assert quality("a:lifetime=500ms,priority=7") == ("a", {"lifetime": 0.5, "priority": 7})
    assert quality("a:*:reliability=reliable,lifetime=none,depth=3") == (
        "a:*",
        {"reliability": rtmw.Reliability.RELIABLE, "lifetime": None, "depth": 3},
    )


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (rate, "0"),
        (rate, "fast"),
        (moment, "noon"),
        (moment, "-1"),
        (renaming, "a"),
        (quality, "a"),
        (quality, "a:spin=1"),
        (quality, "a:depth=x"),
        (quality, "a:lifetime=0"),
        (quality, "a:reliability=perfect"),
    ],
)
def test_arguments_that_mean_nothing_are_refused(read: type, text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=text.partition("=")[0].partition(":")[2] or text):
        read(text)


def test_it_heeds_sigint_also_where_a_shell_has_it_ignored(domain: rtmw.Domain, tmp_path: Path) -> None:
    path = numbered(tmp_path / "a.mcap", ["t"], 1000, apart_ns=SECOND // 100)
    command = ["sh", "-c", 'trap "" INT; exec "$@"', "sh", sys.executable, "-m", "rtmw", "replay", str(path), "--loop"]
    environment = {**os.environ, "PYTHONPATH": str(Path(rtmw.__file__).parents[1]), "RTMW_DOMAIN": str(domain.id)}
    with rtmw.Subscriber("t", domain=domain, depth=10) as subscriber:
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
        try:
            assert subscriber.receive(timeout=60) is not None
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=20)
        finally:
            process.kill()
            process.communicate()
    assert (process.returncode, "Traceback" in err) == (130, False)


class Terminal:
    """`rtmw replay` at a terminal of the test's own."""

    def __init__(self, *arguments: str) -> None:
        self._master, slave = pty.openpty()
        command = [sys.executable, "-m", "rtmw", "replay", *arguments]
        environment = {**os.environ, "PYTHONPATH": str(Path(rtmw.__file__).parents[1]), "COLUMNS": "200"}
        self.process = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, env=environment)
        os.close(slave)
        os.set_blocking(self._master, False)
        self.shown = ""

    def press(self, text: str) -> None:
        os.write(self._master, text.encode())

    def read(self) -> None:
        try:
            self.shown += os.read(self._master, 65536).decode(errors="replace")
        except OSError:  # nothing there, or its other end was closed
            time.sleep(0.01)

    def wait_for(self, word: str) -> None:
        self.shown, end = "", time.monotonic() + 60
        while word not in self.shown:
            assert time.monotonic() < end, self.shown
            self.read()

    def end(self) -> int:
        end = time.monotonic() + 60
        while self.process.poll() is None and time.monotonic() < end:
            self.read()
        status = self.process.wait(1)
        os.close(self._master)
        return status


def test_keys_pause_and_jump_and_end(tmp_path: Path) -> None:
    path = numbered(tmp_path / "a.mcap", ["t"], 20, apart_ns=5 * SECOND)
    with rtmw.Subscriber("t") as taker:
        terminal = Terminal(str(path), "--paused")
        terminal.wait_for("paused, 0 messages")
        terminal.press(".")
        terminal.wait_for("paused, 1 message,")
        terminal.press("\x1b[C")
        terminal.wait_for("10.0 of 95.0 s")
        terminal.press("\x1b[A")
        terminal.press(" ")
        terminal.wait_for("× 2, 2 messages")
        terminal.press("q")
        assert terminal.end() == 0
        numbers = [int.from_bytes(sample.value, "little") for sample in iter(taker.take, None)]
    assert numbers[:2] == [0, 2]


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_ends_it_with_what_it_has_done(tmp_path: Path, number: signal.Signals, status: int) -> None:
    path = numbered(tmp_path / "a.mcap", ["t"], 2, apart_ns=3600 * SECOND)
    terminal = Terminal(str(path))
    terminal.wait_for("1 message,")
    terminal.process.send_signal(number)
    terminal.wait_for("published 1 message,")
    assert terminal.end() == status


def test_a_signal_ends_it_where_no_terminal_is_with_what_it_has_done(domain: rtmw.Domain, tmp_path: Path) -> None:
    path = numbered(tmp_path / "a.mcap", ["t"], 2, apart_ns=3600 * SECOND)
    with rtmw.Subscriber("t", domain=domain) as taker:
        process = subprocess.Popen(
            [sys.executable, "-m", "rtmw", "replay", str(path)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(Path(rtmw.__file__).parents[1])},
        )
        assert taker.receive(60)
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (143, "")
    assert out.startswith("published 1 message,")
