"""The process of a service, as its node and its user see it: how it ends, and what it says then."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest

from rtmw.net import service
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


class Ending:
    """Work that takes a few turns of the loop to end."""

    def __init__(self) -> None:
        self.stopping = asyncio.Event()
        self.heard = 0

    async def run(self) -> None:
        await self.stopping.wait()
        for _ in range(20):
            await asyncio.sleep(0.001)


def test_a_service_hears_once_that_its_node_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may take a while to end, and the end of its input would be there to be read all the time."""
    hear, (at_end, other) = service._hear, os.pipe()
    os.close(other)

    def counted(work: Ending, loop: asyncio.AbstractEventLoop) -> None:
        work.heard += 1
        hear(work, loop)

    async def run() -> int:
        work = Ending()
        asked = service.Asked(-1, tmp_path, "a", None)
        await service._serve(asked, lambda _: nullcontext(work), lambda _, again: None)
        return work.heard

    monkeypatch.setattr(service, "_hear", counted)
    with os.fdopen(at_end) as nothing:
        monkeypatch.setattr(sys, "stdin", nothing)
        assert asyncio.run(run()) == 1
