"""The log's questions: each peer syncs before it answers, on a disk, and a server ends with who started it."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bench import disk
from bench.cases import (
    FDATASYNC,
    GROUP_COMMIT,
    GROWING,
    PAGE_CACHE,
    PREPARED,
    RTMW,
    RTMW_BATCHES,
    RTMW_C,
    CannotMeasure,
    Case,
)
from bench.log_peers import PEERS
from bench.log_peers.server import server
from bench.questions import log_append, log_bulk, log_delay, log_read, question
from bench.run import Plan, turns
from bench.stage import ROOT, Failed, Part, Stage

SHORT = {"seconds": 0.1}
APPENDS = 30
APPENDER = """
import sys
from pathlib import Path
from bench.log_peers import opened
with opened(sys.argv[1], Path(sys.argv[2])) as store, store.appender() as append:
    for _ in range(int(sys.argv[3])):
        append(bytes(200))
"""


def syncs(system: str, folder: Path, appends: int) -> int:
    """Calls of fsync and fdatasync that succeeded, of the client and of all that it has started."""
    folder.mkdir()
    folder.chmod(0o755)
    traced = folder.with_suffix(".trace")
    words = ["strace", "-f", "-qq", "-o", str(traced), "-e", "trace=fsync,fdatasync"]
    done = subprocess.run(
        [*words, sys.executable, "-c", APPENDER, system, str(folder), str(appends)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    if "ModuleNotFoundError" in done.stderr or "ImportError" in done.stderr:
        pytest.skip(f"{system} is not installed here")
    assert done.returncode == 0, done.stderr
    return len(re.findall(r"f(?:data)?sync[ (].*= 0$", traced.read_text(), re.MULTILINE))


@pytest.mark.parametrize("system", [RTMW, *PEERS])
def test_one_writer_is_answered_after_a_sync_of_its_own(system: str) -> None:
    if not shutil.which("strace"):
        pytest.skip("needs strace")
    with disk.new_folder() as folder:
        syncs(system, folder / "first", 0)  # PostgreSQL makes what the next ones use again
        idle = syncs(system, folder / "idle", 0)
        assert syncs(system, folder / "busy", APPENDS) - idle >= APPENDS


@pytest.mark.parametrize("system", [RTMW, "SQLite", RTMW_C])
def test_threads_are_answered(system: str) -> None:
    case = Case("4 threads", (system,), {**SHORT, "part": "threads", "writers": 4})
    assert log_append.measure(Stage("1M"), system, case)[system].value > 0


def test_a_thread_that_fails_says_how() -> None:
    case = Case("2 threads", (RTMW,), {**SHORT, "part": "threads", "writers": 2, "folder": "/proc/none"})
    with pytest.raises(Failed, match="/proc/none"):
        Stage("1M").play("log_append", RTMW, [Part("threads", case.options)])


def test_appends_under_load_and_what_is_beside_them_have_a_99th_of_a_hundred() -> None:
    case = Case("4 threads", (RTMW, RTMW_C, GROUP_COMMIT, FDATASYNC), {**SHORT, "part": "threads", "writers": 4})
    for system in case.systems:
        assert log_delay.measure(Stage("1M"), system, case)[system].value > 0


def test_appends_and_a_sync_that_runs_beside_them_have_each_a_99th_of_a_hundred() -> None:
    case = Case("4 threads", (RTMW,), {**SHORT, "part": "beside", "writers": 4})
    figures = log_delay.measure(Stage("1M"), RTMW, case)
    assert figures[RTMW].value > 0
    assert figures[FDATASYNC].percentiles["p50"] > 0


@pytest.mark.parametrize("system", [RTMW, GROWING, PREPARED])
def test_appends_of_64_kib_are_measured_beside_plain_files(system: str) -> None:
    assert log_bulk.measure(Stage("1M"), system, Case("1 writer", (system,), SHORT))[system].value > 0


@pytest.mark.parametrize(
    ("part", "system"),
    [
        ("recovers", RTMW),
        ("reads", RTMW),
        ("reads", RTMW_BATCHES),
        ("reads", "SQLite"),
        ("reads", RTMW_C),
        ("reads", PAGE_CACHE),
    ],
)
def test_a_log_is_read_and_recovered(part: str, system: str) -> None:
    case = Case(part, (system,), {"part": part, "size": 200, "segment": 1 << 20, "is_full": True})
    assert log_read.measure(Stage("1M"), system, case)[system].value > 0


def test_a_folder_in_memory_is_refused_in_words() -> None:
    if disk.file_system(Path("/dev/shm")) not in disk.IN_MEMORY:
        pytest.skip("/dev/shm is not in memory here")
    with pytest.raises(CannotMeasure, match=r"/dev/shm \(tmpfs\); set TMPDIR"):
        disk.on_disk([Path("/dev/shm")])


def test_a_server_that_does_not_start_says_its_last_line(tmp_path: Path) -> None:
    command = ["sh", "-c", "echo first; echo the disk is gone; exit 3"]
    with (
        pytest.raises(RuntimeError, match=r"sh ended \(3\): the disk is gone"),
        server(command, tmp_path, lambda: False),
    ):
        pass


def test_a_server_ends_with_the_block_and_with_a_process_that_is_killed_in_it(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    program = (
        "import os, signal, sys; from pathlib import Path; from bench.log_peers.server import server\n"
        "pid = Path(sys.argv[1])\n"
        "with server(['sh', '-c', 'echo $$ > \"$0\"; exec sleep 600', str(pid)], pid.parent, "
        "lambda: pid.exists() and pid.read_text().endswith('\\n')):\n"
        "    if sys.argv[2] == 'killed': os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    for how, status in (("left", 0), ("killed", -signal.SIGKILL)):
        pid.unlink(missing_ok=True)
        done = subprocess.run([sys.executable, "-c", program, str(pid), how], cwd=ROOT, timeout=60)
        assert done.returncode == status
        end = time.monotonic() + 30
        while is_alive(int(pid.read_text())):
            assert time.monotonic() < end, f"the server goes on after its starter was {how}"


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"


def test_questions_that_start_servers_have_fewer_rounds() -> None:
    plan = Plan(("log_append", "typed"), (), False, 7, 1.0, "")
    assert {name for name, *_ in turns(plan, log_append.ROUNDS - 1)} == {"log_append", "typed"}
    assert {name for name, *_ in turns(plan, log_append.ROUNDS)} == {"typed"}


def test_peers_are_asked_wherever_python_is() -> None:
    for case in question("log_append").cases(quick=True):
        assert set(case.systems) >= {RTMW, *PEERS}
