"""`rtmw send` and `rtmw receive`: files from the command line (T4)."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from textwrap import dedent

import pytest

import rtmw
from rtmw.cli.files import Line, progress_words, rest
from rtmw.cli.terminal import size
from rtmw.clock import CLOCK
from tests.child import Spawn
from tests.cli.command import Run
from tests.cli.terminal import on_a_terminal
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


def test_a_destination_outside_of_the_receivers_folder_is_refused_before_anything_is_sent(
    core: CoreProcess, run: Run
) -> None:
    where = ("--domain", str(core.domain))
    status, _, err = run("send", __file__, "--to", "ingest", "--into", "../up", *where)
    assert (status, "it has to be a path below the receiver's folder" in err) == (1, True)
    assert json.loads(run("transfers", "--json", *where)[1])["counters"]["accepted"] == 0


def test_a_file_that_was_cancelled_is_a_failure_at_any_level_until_it_was_touched(
    core: CoreProcess, run: Run, tmp_path: Path
) -> None:
    (tmp_path / "a").write_bytes(b"x")
    where = ("--domain", str(core.domain))
    send = ("send", str(tmp_path / "a"), "--to", "late", "--wait", "accepted", *where)
    status, out, _ = run(*send, "--json")
    (row,) = json.loads(out)
    assert (status, row["state"]) == (0, "ACCEPTED")
    assert run("transfers", "cancel", row["id"], *where)[0] == 0
    told = f"rtmw: {tmp_path / 'a'}: transfer {row['id']} is CANCELLED; once the file was touched, it is sent anew\n"
    assert run(*send) == (1, "", told)
    os.utime(tmp_path / "a", (1, 1))
    assert run(*send)[0] == 0


def test_who_ends_a_send_is_told_what_goes_on(core: CoreProcess, run: Run, spawn: Spawn, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x")
    where = ("--domain", str(core.domain))
    words = ["send", str(tmp_path / "a"), "--to", "late", "--wait", "consumed", *where]
    child = spawn(f"import sys\nfrom rtmw.cli import main\nprint(0)\nsys.exit(main({words!r}))")
    child.line()
    rows = list[dict[str, str]]()
    until = CLOCK.monotonic() + PATIENCE
    while not rows and CLOCK.monotonic() < until:
        rows = json.loads(run("transfers", "--json", *where)[1])["transfers"]
    child.signal(signal.SIGINT)
    assert child.wait() == 130
    (row,) = rows
    known = f"{tmp_path / 'a'} goes on; to end it: rtmw transfers cancel {row['id']}\n"
    assert known in child.stderr or f"{tmp_path / 'a'} may go on: see rtmw transfers\n" in child.stderr


@pytest.mark.parametrize(
    ("service", "into", "why"),
    [
        ("ingest/*", "in", "an inbox has the name of a service alone"),
        ("in gest", "in", "is no name of 1 to 64 letters"),
        ("ingest", "a/in", "Not a directory"),
        ("ingest", "a", "File exists"),
    ],
)
def test_what_cannot_receive_is_said_in_one_sentence(
    core: CoreProcess, run: Run, tmp_path: Path, service: str, into: str, why: str
) -> None:
    (tmp_path / "a").write_bytes(b"x")
    status, _, err = run("receive", service, "--into", str(tmp_path / into), "--domain", str(core.domain))
    assert (status, why in err, len(err.splitlines())) == (1, True, 1)


def test_a_letter_for_which_the_disk_has_no_room_is_given_back_and_nothing_of_it_stays(
    core: CoreProcess, spawn: Spawn, tmp_path: Path
) -> None:
    limit = "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))\n"
    child = spawn(limit + dedent(RECEIVER.format(str(tmp_path / "in"), core.domain)))
    with rtmw.Sender("gauge") as sender:
        sent = sender.send("ingest", bytes(300_000), delivery=rtmw.Delivery.LOG)
        assert child.wait() == 1
        assert child.stderr == f"rtmw: {tmp_path / 'in'}: File too large\n"
        assert [path.name for path in (tmp_path / "in").iterdir() if path.name != ".rtmw"] == []
        with rtmw.Inbox("ingest") as inbox:
            letter = inbox.take(PATIENCE)
            assert letter is not None
            letter.consume()
        assert sent.wait(rtmw.Level.CONSUMED, PATIENCE)


def test_on_a_terminal_a_send_shows_a_bar_and_why_a_file_waits(core: CoreProcess, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(bytes(300_000))
    (tmp_path / "in").mkdir()
    send = ("send", str(tmp_path / "a"), "--domain", str(core.domain), "--timeout")
    shown = on_a_terminal(300, 24, *send, "0.1", "--to", "ingest@nowhere", "--wait", "sent", status=1)
    why = "; this node has no sessions with others: node 'nowhere' needs [transfer] listen or connect"
    assert f"[{'-' * 20}]   0 % 0 of 1 file, 0 B of {size(300_000)}, 0 B/s{why}" in shown
    assert f"rtmw: {tmp_path / 'a'}: not SENT in time; it goes on" in shown
    with rtmw.Inbox("ingest", folder=tmp_path / "in"):
        shown = on_a_terminal(300, 24, *send, str(PATIENCE), "--to", "ingest", "--wait", "sent")
    assert any(line.startswith(f"[{'#' * 20}] 100 % 1 of 1 file, {size(300_000)} of") for line in shown)


@pytest.mark.parametrize("command", [("send", __file__, "--to", "x"), ("receive", "x", "--into", "."), ("transfers",)])
def test_where_there_is_no_domain_it_is_said_how_to_serve_transfers(
    domain_id: int, run: Run, command: tuple[str, ...]
) -> None:
    told = f"rtmw: no node serves the transfers of domain {domain_id}; start one: "
    status, out, err = run(*command, "--domain", str(domain_id))
    assert (status, out) == (1, "")
    assert err.startswith(f"{told}rtmw node --domain {domain_id} --serve transfer --data FOLDER; ")
    assert f"rtmw node doctor --domain {domain_id}" in err


def test_what_a_send_shows_never_falls_back(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rtmw.cli.files.LINES_S", 0.0)
    line = Line(is_quiet=False)
    for done in (50, 100, 0, 60):
        line.show((done, 200), (0, 1), "waits for an inbox")
    lines = capsys.readouterr().err.splitlines()
    assert [words.split(",")[1] for words in lines] == [" 50 B of 200 B", *[" 100 B of 200 B"] * 3]
    assert not any("-" in words.partition("of 1 file")[2] for words in lines)
    assert all(words.endswith("; waits for an inbox") for words in lines)


def test_a_file_of_which_the_receiver_has_taken_nothing_is_not_shown_as_sent(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(bytes(100))
    assert rest(tmp_path / "x", {"sent": 100, "received": 0}) == 100
    assert rest(tmp_path / "x", {"sent": None, "received": None}) == 100
    assert rest(tmp_path / "x", {"sent": 70, "received": 30}) == 30
    assert rest(tmp_path / "gone", {"sent": 70, "received": 30}) == 0


def test_progress_has_a_bar_rate_and_time_left() -> None:
    assert progress_words((0, 100), (0, 1), 0.0) == f"[{'-' * 20}]   0 % 0 of 1 file, 0 B of 100 B, 0 B/s"
    assert progress_words((1 << 20, 3 << 20), (1, 2), float(1 << 20)) == (
        f"[{'#' * 6}{'-' * 14}]  33 % 1 of 2 files, 1.0 MiB of 3.0 MiB, 1.0 MiB/s, 2 s left"
    )
    assert progress_words((5, 5), (1, 1), 5.0).startswith(f"[{'#' * 20}] 100 % 1 of 1 file")
