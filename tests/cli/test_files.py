"""`rtmw send` and `rtmw receive`: files from the command line (T4)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import rtmw
from rtmw.cli.files import progress_words
from tests.child import Spawn
from tests.cli.command import Run
from tests.transfer.core_process import PATIENCE, CoreProcess

RECEIVER = """
    import sys
    from rtmw.cli import main
    sys.exit(main(["receive", "ingest", "--into", {!r}, "--json", "--domain", "{}"]))
"""


def test_t4_files_are_sent_received_and_consumed_and_sending_again_sends_nothing(
    core: CoreProcess, run: Run, spawn: Spawn, tmp_path: Path
) -> None:
    names = ["a.bin", "b.bin"]
    for name in names:
        (tmp_path / name).write_bytes(name.encode() * 50_000)
    where = ("--domain", str(core.domain))
    files = [str(tmp_path / name) for name in names]
    child = spawn(RECEIVER.format(str(tmp_path / "in"), core.domain))
    send = ("send", *files, "--to", "ingest", "--into", "sub", "--wait", "consumed", "--timeout", str(PATIENCE), *where)
    for _ in range(2):
        status, out, err = run(*send, "--json")
        assert (status, err) == (0, "")
        assert [row["state"] for row in json.loads(out)] == ["CONSUMED"] * 2
    told = sorted(json.loads(child.line())["files"] for _ in names)
    assert told == [[str(tmp_path / "in" / "sub" / name)] for name in names]
    for name in names:
        assert (tmp_path / "in" / "sub" / name).read_bytes() == name.encode() * 50_000
    with rtmw.Sender("gauge") as sender:
        sent = sender.send("ingest", b"no file", wait=rtmw.Level.CONSUMED, timeout=PATIENCE)
    (path,) = json.loads(child.line())["files"]
    assert Path(path).read_bytes() == b"no file"
    assert str(sent.id).replace(":", ".") == Path(path).name


def test_a_file_that_nobody_takes_in_time_goes_on(core: CoreProcess, run: Run, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x")
    words = ("--to", "late", "--wait", "delivered", "--timeout", "0.2", "--domain", str(core.domain))
    status, out, err = run("send", str(tmp_path / "a"), *words)
    assert (status, out) == (1, "")
    assert "not DELIVERED in time; it goes on" in err


@pytest.mark.parametrize(("name", "why"), [("missing", "is no file"), (".", "is no file")])
def test_what_is_no_file_is_said_before_anything_is_sent(core: CoreProcess, run: Run, name: str, why: str) -> None:
    status, _, err = run("send", name, "--to", "ingest", "--domain", str(core.domain))
    assert (status, why in err) == (1, True)


def test_progress_has_a_bar_rate_and_time_left() -> None:
    assert progress_words((0, 100), (0, 1), 0.0) == f"[{'-' * 20}]   0 % 0 of 1 file, 0 B of 100 B, 0 B/s"
    assert progress_words((1 << 20, 3 << 20), (1, 2), float(1 << 20)) == (
        f"[{'#' * 6}{'-' * 14}]  33 % 1 of 2 files, 1.0 MiB of 3.0 MiB, 1.0 MiB/s, 2 s left"
    )
    assert progress_words((5, 5), (1, 1), 5.0).startswith(f"[{'#' * 20}] 100 % 1 of 1 file")
