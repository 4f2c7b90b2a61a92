"""Keys, where a shell moves a command to the background and back."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import rtmw
from rtmw.cli.terminal import split_keys
from tests.recordings import SECOND, numbered

pytestmark = pytest.mark.usefixtures("domain")

LONG_S = 60.0

SHELL = """
import os, subprocess, sys
os.setsid()
os.close(os.open(os.ttyname(0), os.O_RDWR))  # controls us from now on, as a terminal does a shell
job = subprocess.Popen([sys.executable, "-m", "rtmw", *sys.argv[1:]], process_group=0)
def wait():
    _, status = os.waitpid(job.pid, os.WUNTRACED)
    if os.WIFSTOPPED(status):
        job.kill()
        return f"stopped by signal {os.WSTOPSIG(status)}"
    return f"ended with status {os.waitstatus_to_exitcode(status)}"
if os.environ["FRONT"] == "later":
    sys.stdin.readline()
    os.tcsetpgrp(0, job.pid)
print("the job", wait(), flush=True)
"""


class Shell:
    """Starts a command of rtmw in the background of a terminal; a line that is typed brings it to the front."""

    def __init__(self, front: str, *arguments: str) -> None:
        self._master, slave = pty.openpty()
        environment = {**os.environ, "PYTHONPATH": str(Path(rtmw.__file__).parents[1]), "FRONT": front}
        command = [sys.executable, "-c", SHELL, *arguments]
        self.process = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, env=environment)
        os.close(slave)
        os.set_blocking(self._master, False)
        self.shown = ""

    def wait_for(self, word: str, press: str = "") -> None:
        """Until this is shown, also with the key between its letters, which is pressed now and then meanwhile."""
        end = time.monotonic() + LONG_S
        while word not in (self.shown.replace(press, "") if press else self.shown):
            assert time.monotonic() < end, self.shown
            try:
                self.shown += os.read(self._master, 65536).decode(errors="replace")
            except OSError:  # nothing there, or its other end was closed
                os.write(self._master, press.encode())
                time.sleep(0.02)

    def type(self, text: str) -> None:
        self.shown = ""
        os.write(self._master, text.encode())

    def close(self) -> None:
        os.close(self._master)  # which hangs up on all that it controls
        self.process.kill()
        self.process.wait(LONG_S)


@pytest.fixture
def shells() -> Iterator[list[Shell]]:
    started: list[Shell] = []
    yield started
    for shell in started:
        shell.close()


def test_keys_have_names() -> None:
    assert split_keys(" q\x1b[C\x1b[A.") == ["space", "q", "right", "up", "."]


def test_a_replay_in_the_background_is_not_stopped(shells: list[Shell], tmp_path: Path) -> None:
    path = numbered(tmp_path / "a.mcap", ["t"], 3)
    shells.append(Shell("never", "replay", str(path)))
    shells[0].wait_for("the job ended with status 0")


def test_a_recorder_in_the_background_is_not_stopped_and_names_signals(
    shells: list[Shell], domain: rtmw.Domain, tmp_path: Path
) -> None:
    shells.append(Shell("never", "record", "-o", str(tmp_path / "run"), "t", "--for", "0.5"))
    shells[0].wait_for("SIGINT ends it")
    shells[0].wait_for("the job ended with status 0")


def test_what_is_typed_is_for_the_shell_until_the_command_is_in_front(shells: list[Shell], tmp_path: Path) -> None:
    path = numbered(tmp_path / "a.mcap", ["t"], 2, apart_ns=3600 * SECOND)
    shells.append(Shell("later", "replay", str(path), "--paused"))
    shells[0].wait_for("paused, 0 messages")
    shells[0].type("fg\n")
    shells[0].wait_for("the job ended with status 0", press="q")


@pytest.mark.parametrize(
    "command", [["top"], ["topic", "hz"], ["topic", "bw"], ["topic", "delay", "t"]], ids=lambda words: words[-1]
)
def test_q_ends_a_command_that_shows_windows_also_in_the_middle_of_one(
    shells: list[Shell], domain: rtmw.Domain, command: list[str]
) -> None:
    with rtmw.Publisher("t", domain=domain):
        shells.append(Shell("later", *command, "--window", "3600"))
        shells[0].type("fg\n")
        shells[0].wait_for("the job ended with status 0", press="q")
