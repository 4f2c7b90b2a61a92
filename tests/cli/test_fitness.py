"""`rtmw doctor`: is this machine fit for real time?"""

from __future__ import annotations

from pathlib import Path

import pytest

from rtmw.cli import doctor as checked
from rtmw.cli.doctor import fitness


def found(name: str, mapped_bytes: int | None = None) -> tuple[str, str]:
    return next((check.found, check.advice) for check in fitness(mapped_bytes) if check.name == name)


def test_every_check_says_what_it_found_also_where_the_kernel_has_no_such_file() -> None:
    checks = fitness(100_000_000)
    assert len({check.name for check in checks}) == len(checks) >= 9
    assert all(check.found for check in checks)


def test_a_clock_that_is_a_system_call_to_read_is_advised_against(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    clock = tmp_path / "clock"
    monkeypatch.setattr(checked, "CLOCK_SOURCE", clock)
    clock.write_text("hpet\n")
    assert found("clock source") == (
        "hpet",
        "reading this clock is a system call, at each publish and take; use tsc",
    )
    clock.write_text("tsc\n")
    assert found("clock source") == ("tsc", "")


def test_throttling_and_huge_pages_are_advised_against_where_they_are_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    throttle, pages = tmp_path / "throttle", tmp_path / "pages"
    monkeypatch.setattr(checked, "THROTTLE", throttle)
    monkeypatch.setattr(checked, "HUGE_PAGES", pages)
    assert (found("real-time throttling")[0], found("transparent huge pages")[0]) == ("off", "none")
    throttle.write_text("950000\n")
    pages.write_text("[always] madvise never\n")
    assert found("real-time throttling")[0] == "950000 of 1000000 µs"
    assert "spin=0" in found("real-time throttling")[1]
    assert found("transparent huge pages")[0] == "always"
    assert "madvise" in found("transparent huge pages")[1]


def test_memory_that_could_not_be_locked_is_told_before_it_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checked.os, "geteuid", lambda: 1000)
    monkeypatch.setattr(checked.realtime, "memory_limit", lambda: 8 << 20)
    assert found("locked memory", 100 << 20) == (
        "up to 8.0 MiB",
        "lock_memory needs 100.0 MiB; memlock in limits.conf, or LimitMEMLOCK=",
    )
    assert found("locked memory", 1 << 20)[1] == ""
    assert found("locked memory", None)[1] == ""
