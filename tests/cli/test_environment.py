"""`rtmw doctor`: the checks of this machine."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rtmw import shm
from rtmw.cli import environment
from rtmw.cli.environment import checks, shortage


def test_the_machine_that_runs_the_tests_has_what_rtmw_needs() -> None:
    found = {check.name: check for check in checks()}
    assert not found["kernel"].advice
    assert "free of" in found["/dev/shm"].found
    for package in ("numpy", "cyclonedds", "psutil"):
        assert found[package].found[0].isdigit()


@pytest.mark.parametrize("free", [40 << 20, 10 << 20, 64 << 20])
def test_where_little_shared_memory_is_free_the_pool_that_is_advised_fits(free: int) -> None:
    (advised,) = re.findall(r'pool="(\w+)"', shortage(free))
    pool = shm.parse_size(advised)
    assert shm.domain_bytes(pool) <= free < shm.domain_bytes(pool + (1 << 20))


@pytest.mark.parametrize("free", [0, 4096, 1 << 16])
def test_where_no_domain_fits_no_pool_is_advised(free: int) -> None:
    assert "no further domain fits" in shortage(free)
    assert "pool" not in shortage(free)


def test_where_a_usual_domain_fits_there_is_no_advice() -> None:
    enough = shm.domain_bytes(64 << 20)
    assert shortage(enough) == ""
    assert shortage(enough - 1)


def test_a_machine_without_shared_memory_is_told_to_mount_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(environment, "SHARED_MEMORY", str(tmp_path / "none"))
    assert any("mount a tmpfs" in check.advice for check in checks())
