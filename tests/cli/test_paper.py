"""T1: `rtmw send --paper` and `rtmw receive --paper`, for programs that write and read the paper's form."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import rtmw
from rtmw.transfer.address import Address
from rtmw.transfer.header import Content, Delivery, File, Header, Kind, Level, pack_paper, unpack_paper
from tests.child import Spawn
from tests.cli.command import Run
from tests.transfer.core_process import PATIENCE, CoreProcess

RECEIVER = """
    import sys
    from rtmw.cli import main
    sys.exit(main(["receive", "ingest", "--into", {!r}, "--paper", "--json", "--domain", "{}"]))
"""


def header(kind: Kind = Kind.BUF, to: str = "ingest", level: Level = Level.ACCEPTED) -> Header:
    return Header(Address.parse(to), kind, 1, level, Delivery.LOG, 0, 60 * 10**9, 0)


@pytest.mark.parametrize("content", [b"level 4.2", (b"head", b"tail")])
def test_t1_what_a_program_has_written_in_the_papers_form_comes_in_that_form(
    core: CoreProcess, run: Run, spawn: Spawn, tmp_path: Path, content: Content
) -> None:
    data = pack_paper(header(), content)
    (tmp_path / "one").write_bytes(data)
    where = ("--domain", str(core.domain))
    status, out, err = run("send", "--paper", str(tmp_path / "one"), "--json", *where)
    assert (status, err) == (0, "")
    (row,) = json.loads(out)
    child = spawn(RECEIVER.format(str(tmp_path / "in"), core.domain))
    (path,) = json.loads(child.line())["files"]
    assert Path(path).name == row["id"].replace(":", ".") + ".paper"
    assert Path(path).read_bytes() == data


def test_t1_a_file_of_the_papers_form_arrives_and_its_source_is_where_it_lies(
    core: CoreProcess, run: Run, spawn: Spawn, tmp_path: Path
) -> None:
    (tmp_path / "run.mcap").write_bytes(b"run")
    (tmp_path / "one").write_bytes(pack_paper(header(), File(str(tmp_path / "run.mcap"), "in/run.mcap")))
    assert run("send", "--paper", str(tmp_path / "one"), "--domain", str(core.domain))[0] == 0
    child = spawn(RECEIVER.format(str(tmp_path / "in"), core.domain))
    (path,) = json.loads(child.line())["files"]
    _, content = unpack_paper(Path(path).read_bytes())
    assert content == File(str(tmp_path / "in" / "in" / "run.mcap"), "in/run.mcap")
    assert Path(content.source).read_bytes() == b"run"


def test_t1_a_transfer_is_read_from_the_standard_input(
    core: CoreProcess, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = io.BytesIO(pack_paper(header(level=Level.SENT), b"piped"))
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=data))
    status, out, _ = run("send", "--paper", "-", "--domain", str(core.domain))
    assert (status, out.startswith("-: ACCEPTED, transfer ")) == (0, True)
    with rtmw.Inbox("ingest") as inbox:
        letter = inbox.take(PATIENCE)
        assert letter is not None
        assert (letter.body, letter.header.level, letter.header.lifetime_ns) == (b"piped", Level.SENT, 60 * 10**9)


def test_t1_a_letter_that_the_papers_form_cannot_say_is_refused_with_the_reason(
    core: CoreProcess, spawn: Spawn, tmp_path: Path
) -> None:
    child = spawn(RECEIVER.format(str(tmp_path / "in"), core.domain))
    with rtmw.Sender("gauge") as sender:
        urgent = sender.send("ingest", b"urgent", delivery=Delivery.LOG, priority=7)
        with pytest.raises(rtmw.TransferRefused, match="no priorities"):
            urgent.wait(Level.CONSUMED, PATIENCE)
        sender.send("ingest", b"x", delivery=Delivery.LOG)
    assert Path(json.loads(child.line())["files"][0]).exists()


@pytest.mark.parametrize(
    ("data", "more", "why"),
    [
        (b"x", (), "transfer in the paper's form"),
        (None, (), "No such file or directory"),
        (pack_paper(header(), b"x"), ("--to", "ingest"), "each transfer says them in its header"),
        (pack_paper(header(to="ingest/4711"), b"x"), (), "means nobody|is no receiver|4711"),
    ],
)
def test_t1_what_cannot_be_sent_is_said_and_nothing_is(
    core: CoreProcess, run: Run, tmp_path: Path, data: bytes | None, more: tuple[str, ...], why: str
) -> None:
    if data is not None:
        (tmp_path / "one").write_bytes(data)
    where = ("--domain", str(core.domain))
    status, out, err = run("send", "--paper", str(tmp_path / "one"), *more, *where)
    assert (status, out) == (1, "")
    assert any(one in err for one in why.split("|")), err
    assert json.loads(run("transfers", "--json", *where)[1])["counters"]["accepted"] == 0


def test_a_file_without_a_receiver_is_no_send(core: CoreProcess, run: Run) -> None:
    status, _, err = run("send", __file__, "--domain", str(core.domain))
    assert (status, "say to whom: --to SERVICE" in err) == (1, True)
