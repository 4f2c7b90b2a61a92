"""`rtmw doctor`: the checks of this machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from rtmw.cli import environment
from rtmw.cli.environment import checks


def test_the_machine_that_runs_the_tests_has_what_rtmw_needs() -> None:
    found = {check.name: check for check in checks()}
    assert not found["kernel"].advice
    assert "free of" in found["/dev/shm"].found
    for package in ("posix-ipc", "numpy", "cyclonedds", "psutil"):
        assert found[package].found[0].isdigit()


def test_too_little_shared_memory_is_said_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "ENOUGH_BYTES", 1 << 62)
    (check,) = [check for check in checks() if check.name == "/dev/shm"]
    assert "pool below" in check.advice


def test_a_machine_without_shared_memory_is_told_to_mount_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(environment, "SHARED_MEMORY", str(tmp_path / "none"))
    assert any("mount a tmpfs" in check.advice for check in checks())
