"""The process of a service, as its node and its user see it: how it ends, and what it says then."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.bus import LONG

AGENTS = """
[relay]
listen = "unix:relay.sock"
[[agent]]
name = "AODB"
address = "AODB"
uid = 0
"""


def relay(*arguments: str) -> subprocess.CompletedProcess[str]:
    """A relay whose standard input has ended, so that it ends as soon as it is at work."""
    command = [sys.executable, "-m", "rtmw.relay", *arguments]
    return subprocess.run(command, input="", capture_output=True, text=True, timeout=LONG)


def test_a_service_whose_node_is_gone_ends_with_status_0(tmp_path: Path) -> None:
    (tmp_path / "node.toml").write_text(AGENTS)
    done = relay("--data", str(tmp_path), "--config", str(tmp_path / "node.toml"))
    assert (done.returncode, "relay at" in done.stderr) == (0, True), done.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "--config FILE"),
        (["--config", "missing.toml"], "missing.toml: No such file"),
        (["--config", "node.toml"], "the folder of data cannot be used: "),
    ],
)
def test_a_service_that_cannot_begin_says_why_in_its_last_line(
    tmp_path: Path, arguments: list[str], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("node.toml").write_text(AGENTS)
    Path("data").write_text("a file, where a folder should be")
    done = relay("--data", "data", *arguments)
    assert done.returncode == 1
    assert words in done.stderr.splitlines()[-1]
