"""What begins warm begins as what is started."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests import warm

WITNESS = "tests.witness"
WORDS = ["--flag", "a b", "", "Ä"]


def test_a_program_cannot_tell_whether_it_was_started_or_began_warm(tmp_path: Path) -> None:
    env = {**os.environ, "PYTHONPATH": str(warm.ROOT), "ONLY": "this"}
    asked, out, err = (tmp_path / name for name in ("asked", "out", "err"))
    asked.write_text("a question")

    def seen() -> tuple[dict[str, Any], str]:
        return json.loads(out.read_text()), err.read_text()

    with asked.open("rb") as stdin, out.open("wb") as stdout, err.open("wb") as stderr:
        command = [sys.executable, "-m", WITNESS, *WORDS]
        done = subprocess.run(command, stdin=stdin, stdout=stdout, stderr=stderr, env=env, cwd=warm.ROOT, check=False)
    started = seen()
    with asked.open("rb") as stdin, out.open("wb") as stdout, err.open("wb") as stderr:
        streams = (stdin.fileno(), stdout.fileno(), stderr.fileno())
        assert warm.start(WITNESS, WORDS, env, streams).wait(60.0) == done.returncode == 7
    assert seen() == started


def test_what_began_warm_is_a_child_that_can_be_stopped_and_killed() -> None:
    child = warm.start_with_pipes("rtmw", ["topic", "echo", "a", "--wait"], os.environ)
    child.send_signal(signal.SIGSTOP)
    assert os.waitid(os.P_PID, child.pid, os.WSTOPPED) is not None
    assert child.poll() is None
    with pytest.raises(AssertionError, match="does not end"):
        child.wait(0.01)
    child.kill()
    assert child.wait(60.0) == -signal.SIGKILL
    assert child.stdin is not None
    assert child.stderr is not None
    child.stdin.close()
    child.stderr.close()


@pytest.mark.parametrize("words", [("topic", "--help"), ("topic", "list", "--domain", "none"), ("topic", "info", "a")])
def test_a_command_that_began_warm_answers_as_one_that_was_started(words: tuple[str, ...]) -> None:
    command = [sys.executable, "-m", "rtmw", *words]
    started = subprocess.run(command, capture_output=True, text=True, cwd=warm.ROOT, check=False)
    done = warm.run(*words)
    assert (done.returncode, done.stdout, done.stderr) == (started.returncode, started.stdout, started.stderr)
    with pytest.raises(subprocess.CalledProcessError):
        warm.run("no such command", check=True)


@pytest.mark.parametrize("name", ["LD_PRELOAD", "MALLOC_ARENA_MAX", "PYTHONMALLOC"])
def test_what_is_read_at_the_start_of_a_program_needs_a_start(name: str) -> None:
    assert warm.can_start({**os.environ, "RTMW_DOMAIN": "7", "PYTHONPATH": "elsewhere"})
    assert not warm.can_start({**os.environ, name: "1"})


def test_what_a_test_sets_for_all_processes_that_begin_from_now_on_is_read_by_one_that_is_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LD_PRELOAD", "")
    assert not warm.can_start(os.environ)
