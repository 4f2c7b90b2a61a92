"""What a log says when the disk does not do its part, and what is there afterwards."""

from __future__ import annotations

import errno
import re
import subprocess
import sys
from pathlib import Path

import pytest

import rtmw
from rtmw.log import _log as core
from rtmw.log.failures import failure
from tests import namespaces
from tests.child import Spawn
from tests.transfer.kill_at_call import killed_at_call
from tests.whole import IS_WHOLE


def test_after_a_failed_call_nothing_is_appended_and_the_log_opened_anew_has_all_that_was_answered(
    tmp_path: Path, spawn: Spawn
) -> None:
    """No file may be larger than the first segment, so that the next one cannot be made."""
    child = spawn(f"""
        import resource, signal
        import rtmw
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        log = rtmw.Log({str(tmp_path / "log")!r})
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, resource.RLIM_INFINITY))
        answered = 0
        try:
            while answered < 100_000:
                log.append(bytes(1000), key=answered)
                answered += 1
        except rtmw.LogFailed as error:
            print(error)
        try:
            log.append(b"more")
        except rtmw.LogFailed as error:
            print(error.start == error.end)
        log.close()
        print(answered)
    """)
    told = child.line()
    assert "log: write of spare failed: File too large. No call is tried again" in told
    assert "close the log and open it anew" in told
    assert child.line() == "True"
    answered = int(child.line())
    assert child.wait() == 0
    with rtmw.Log(tmp_path / "log") as log:
        found = [record.key for record in log.read()]
        assert found[:answered] == list(range(answered))
        log.append(bytes(1000), key="again")
        assert [record.key for record in log.read()][-1] == "again"


@pytest.mark.parametrize(
    ("code", "kind", "words"),
    [
        (
            core.FULL,
            rtmw.LogFull,
            "no room for another segment (8 bytes are needed; how many are free is not known: No such",
        ),
        (core.FAILED, rtmw.LogFailed, "fdatasync of 1.seg failed: No space left on device. No call is tried again"),
        (core.FAILED, rtmw.LogFailed, "Outcome unknown: records from position 8 up to 16 may be on the disk or not"),
        (core.DAMAGED, rtmw.LogDamaged, "records from position 8 up to 16 are concerned"),
        (core.TOO_LARGE, rtmw.MessageTooLarge, "open the log with a larger segment"),
        (core.VERSION, rtmw.LogError, "use the rtmw that wrote it"),
        (core.TRIMMED, rtmw.LogError, "read from rtmw.Start.EARLIEST"),
        (core.NO_RECORD, ValueError, "no record begins at position 8; the next one begins at 16"),
        (core.TIMEOUT, TimeoutError, "not on the disk within the timeout"),
        (core.CLOSED, rtmw.ClosedError, "used after close()"),
        (core.NO_MEMORY, MemoryError, "no memory"),
        (core.NO_LOG, rtmw.LogError, "there is no log in this folder"),
    ],
)
def test_each_code_has_an_error_that_says_what_happened_and_what_to_do(
    code: int, kind: type[Exception], words: str
) -> None:
    error = failure("orders", code, "fdatasync", "" if code == core.FULL else "1.seg", 28, 8, 16)
    assert type(error) is kind
    assert str(error).startswith("orders: ")
    assert words in str(error)


SMALL_DISK = """
import rtmw
with rtmw.Log({folder!r}, segment="64M") as log:
    log.append(b"small")
    try:
        log.append(bytes(30 << 20))
    except rtmw.LogFull:
        print("full")
    for _ in range(500):
        try:
            print(log.append(b"small again").position > 0)
            break
        except rtmw.LogFull:
            time.sleep(0.02)
"""


def test_what_is_too_large_for_the_disk_keeps_nothing_small_out(tmp_path: Path) -> None:
    mount = f'mount -t tmpfs -o size=20m tmpfs {tmp_path}/disk && exec "$@"'
    (tmp_path / "disk").mkdir()
    namespaces.require("unshare", "--mount", "sh", "-c", f"mount -t tmpfs -o size=64k tmpfs {tmp_path}/disk")
    source = "import time" + SMALL_DISK.format(folder=f"{tmp_path}/disk/log")
    program = namespaces.start(["unshare", "--mount", "sh", "-c", mount, "sh"], source, tmp_path / "small.py")
    out, _ = program.communicate(timeout=60)
    assert out == "full\nTrue\n"


NEW_ON_A_FULL_DISK = """
import os
import rtmw

DISK = {disk!r}
BLOCK = os.statvfs(DISK).f_frsize


def leave(blocks):
    with open(DISK + "/rest", "wb") as rest:
        os.posix_fallocate(rest.fileno(), 0, (os.statvfs(DISK).f_bavail - blocks) * BLOCK)


def tell(what):
    try:
        what()
    except rtmw.LogFull as error:
        print(error)
    else:
        print("there was room")


def append():
    with rtmw.Log(DISK + "/log", segment="64K") as log:
        return log.append(b"first").position


for blocks in range(1, 24):
    leave(blocks)
    tell(append)
    print(*sorted(name for name in os.listdir(DISK + "/log") if name != "lock"))
    os.unlink(DISK + "/rest")
    append()
    with rtmw.Log(DISK + "/log") as log:
        print([record.data for record in log.read()])
    for name in os.listdir(DISK + "/log"):
        os.unlink(DISK + "/log/" + name)
print("cursor")
append()
with rtmw.Log(DISK + "/log") as log:
    leave(2)
    tell(lambda: log.read(cursor="reader"))
    print(*(name for name in os.listdir(DISK + "/log") if "reader" in name), list(log.cursors()))
    os.unlink(DISK + "/rest")
    with log.read(cursor="reader") as records:
        print([record.data for record in records])
"""


# Proves G136.
def test_a_new_log_and_a_new_cursor_on_a_full_disk_say_what_is_needed_and_leave_nothing_half_made(
    tmp_path: Path,
) -> None:
    (tmp_path / "disk").mkdir()
    mount = f'mount -t tmpfs -o size=2m tmpfs {tmp_path}/disk && exec "$@"'
    namespaces.require("unshare", "--mount", "sh", "-c", f"mount -t tmpfs -o size=64k tmpfs {tmp_path}/disk")
    source = NEW_ON_A_FULL_DISK.format(disk=str(tmp_path / "disk"))
    program = namespaces.start(["unshare", "--mount", "sh", "-c", mount, "sh"], source, tmp_path / "new.py")
    out, _ = program.communicate(timeout=60)
    made, cursor = out.split("cursor\n", 1)
    lines = made.splitlines()
    assert len(lines) == 3 * 23, out
    for said, names, found in zip(lines[::3], lines[1::3], lines[2::3], strict=True):
        if "for a new log (" in said:
            assert "(86016 bytes are needed, and" in said
            assert "None was made" in said
            assert not names
        elif said != "there was room":
            assert re.search(r"[(]\d+ bytes are needed, and \d+ are free[)]\. Nothing was (appended|changed)", said), (
                said
            )
        assert found in ("[b'first']", "[b'first', b'first']")
    assert "None was made" in lines[0]
    assert re.fullmatch(
        r"\S+/log: the disk has no room for its file reader.cursor [(]12288 bytes are needed, and \d+ are free[)]\. "
        r"Nothing was changed, and what is appended already is safe\. Free some room, and try again\n"
        r"\[\]\n\[b'first'\]\n",
        cursor,
    ), cursor


MAKES = """
import sys
import rtmw

for _ in range(2):
    try:
        with rtmw.Log(sys.argv[1], segment="64K") as log:
            log.append(b"first")
        break
    except (rtmw.RtmwError, OSError) as error:
        print(error)
"""


def test_a_log_can_be_made_after_any_call_of_its_making_has_found_the_disk_full(tmp_path: Path) -> None:
    program, told = tmp_path / "makes.py", 0
    program.write_text(MAKES)
    for call in range(1, 30) if IS_WHOLE else range(20, 27):  # the file `log`, and what is made last
        command = [*killed_at_call(tmp_path, call, errno.ENOSPC), sys.executable, "-B", str(program)]
        folder = tmp_path / f"log{call}"
        done = subprocess.run([*command, str(folder)], capture_output=True, text=True, timeout=60, check=True)
        told += bool(done.stdout)
        with rtmw.Log(folder) as log:
            assert [record.data for record in log.read()] == [b"first"], (call, done.stdout)
    assert told >= 5
