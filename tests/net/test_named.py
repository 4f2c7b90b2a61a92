"""A topic that a command names comes from another host, though nothing of it was here; a pattern brings none."""

from __future__ import annotations

import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import rtmw
from tests.net.hosts import PATIENCE, Host


def test_commands_bring_the_topics_that_they_name_from_another_host(pair: tuple[Host, Host], tmp_path: Path) -> None:
    here, there = pair
    patience = f"{PATIENCE:g}"
    commands = [
        ["topic", "echo", "far/a", "--wait", "-n", "1", "--timeout", patience],
        ["log-lines", "log/far", "-n", "1", "--timeout", patience],
        ["record", "far/b", "far/*", "-o", str(tmp_path / "run"), "--for", patience],
    ]
    line = rtmw.LogLine(1.8e9, 20, "INFO", "a", "now", "", "pump.py", 7, "pump.py", 1, 0)
    with ExitStack() as open_:
        publishers = [
            open_.enter_context(rtmw.Publisher(name, type, history=1, domain=here.domain))
            for name, type in (("far/a", str), ("log/far", rtmw.LogLine), ("far/b", str), ("far/unnamed", str))
        ]
        for publisher, value in zip(publishers, ("x", line, "x", "x"), strict=True):
            publisher.publish(value)
        echo, lines, recorder = (
            open_.enter_context(
                subprocess.Popen(
                    [sys.executable, "-m", "rtmw", *command, "--domain", str(there.number)],
                    stdout=subprocess.PIPE,
                    text=True,
                )
            )
            for command in commands
        )
        assert "far/a" in echo.communicate(timeout=2 * PATIENCE)[0]
        assert "pump.py[7] a: now" in lines.communicate(timeout=2 * PATIENCE)[0]
        assert (echo.returncode, lines.returncode) == (0, 0)
        assert publishers[2].wait_for_subscribers(timeout=PATIENCE)
        recorder.terminate()
        recorder.communicate(timeout=2 * PATIENCE)
        assert publishers[3].subscribers == 0, "the pattern does not reach to another host"
