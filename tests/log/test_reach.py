"""Recovery removes what a killed writer may have left, and looks no further: a mark says how far it has written."""

from __future__ import annotations

from pathlib import Path

import pytest

import rtmw
from rtmw.log import _log as core
from rtmw.log.check import look_into
from tests.child import Spawn

MIB = 1 << 20
REACH_MOST = 8 * MIB
"""Behind the last record."""


def written() -> int:
    """Bytes that this process has handed to write calls."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("wchar"))


def kill_a_writer(spawn: Spawn, folder: Path, appends: str) -> None:
    """Of a log whose last segment, of 32 MiB, has just begun."""
    child = spawn(f"""
        import os, signal
        import rtmw
        log = rtmw.Log({str(folder)!r}, segment="32M")
        while log.end < 31 << 20:
            log.append(bytes(1 << 19))
        {appends}
        os.kill(os.getpid(), signal.SIGKILL)
    """)
    child.wait()


# Proves G127.
def test_recovery_of_a_segment_that_has_just_begun_writes_no_more_than_its_reach(tmp_path: Path, spawn: Spawn) -> None:
    kill_a_writer(spawn, tmp_path / "log", 'log.append(b"the last one")')
    before = written()
    with rtmw.Log(tmp_path / "log") as log:
        assert written() - before < REACH_MOST + 2 * MIB
        assert [record.data for record in log.read()][-1] == b"the last one"


@pytest.mark.parametrize("size", [5 * MIB, 9 * MIB, 20 * MIB])
# Proves G127.
def test_what_is_longer_than_the_reach_is_there_after_a_kill(size: int, tmp_path: Path, spawn: Spawn) -> None:
    kill_a_writer(
        spawn, tmp_path / "log", f'log.append(b"small"); log.append(bytes({size})); log.append(b"the last one")'
    )
    with rtmw.Log(tmp_path / "log") as log:
        assert [len(record.data) for record in log.read()][-3:] == [5, size, 12]


def test_a_mark_says_a_reach_behind_each_record_of_its_segment(tmp_path: Path, spawn: Spawn) -> None:
    kill_a_writer(spawn, tmp_path / "log", 'log.append(b"the last one")')
    base = max(int(path.stem) for path in (tmp_path / "log").glob("*.seg"))
    with look_into(tmp_path / "log") as folder:
        size, _, flags, *_ = core.segment(folder.path, folder.descriptor, folder.uuid, base)
        reach, end = 4096 * (flags >> 8), core.SEGMENT_DATA + folder.bounds()[1] - base
    assert end + 4 * MIB <= reach <= end + REACH_MOST < size


def test_the_watermark_follows_the_records_while_appends_go_on(tmp_path: Path) -> None:
    """Within 512 KiB here: it is written with a batch every 10 ms, and no reach is too short before 4 MiB."""
    with rtmw.Log(tmp_path / "log", segment="32M") as log, look_into(tmp_path / "log") as folder:
        first, durable = log.append(b"the first one").position, 0
        while durable <= first and log.end < MIB // 2:
            log.append(b"another one")
            _, durable, *_ = core.segment(folder.path, folder.descriptor, folder.uuid, 0)
        assert durable > first
