"""`rtmw relay frame|explain|check`: for people and for programs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rtmw.relay import Frame
from tests.cli.command import Run
from tests.cli.conftest import run
from tests.relay.test_policy import FILE

__all__ = ["run"]

STAMP = b"2026-11-29 13:44:12.12"


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "node.toml"
    path.write_text(FILE.replace("priority = 6\n", "priority = 4\n", 1))
    return str(path)


def test_a_capture_is_shown_frame_by_frame_and_what_is_none_is_counted(run: Run, tmp_path: Path) -> None:
    order = Frame.decode(Frame("AODB", "EWR", STAMP, "O", "I", "登机口 12".encode("gbk")).encode("B"))
    sent = [order, order.receipt(STAMP), order.alert(STAMP, "no answer")]
    (tmp_path / "capture").write_bytes(b"junk\n".join(one.encode("B") for one in sent) + b"\x02cut")
    status, out, complaint = run("relay", "frame", str(tmp_path / "capture"), "--charset", "gbk")
    assert status == 1
    assert out.startswith("3 frames, checksum B")
    assert "AODB  EWR" in out
    assert "登机口 12" in out
    assert [word for word in ("order", "receipt", "alert") if word not in out] == []
    assert "2 places with no frame: another header" in complaint
    assert "cut after 4 bytes" in complaint


def test_a_capture_is_json_for_programs(run: Run, tmp_path: Path) -> None:
    (tmp_path / "capture").write_bytes(Frame("AODB", "EWR", STAMP, "O", "I", b"x").encode())
    status, out, _ = run("relay", "frame", str(tmp_path / "capture"), "--json")
    assert status == 0
    (row,) = json.loads(out)["frames"]
    assert (row["from"], row["to"], row["what"], row["data"]) == ("AODB", "EWR", "order", "x")


def test_a_file_that_is_not_there_and_a_charset_that_there_is_not_are_errors_in_words(run: Run, tmp_path: Path) -> None:
    assert run("relay", "frame", str(tmp_path / "none"))[0] == 1
    (tmp_path / "capture").write_bytes(b"")
    said = run("relay", "frame", str(tmp_path / "capture"), "--charset", "klingon")[2]
    assert "--charset: there is no charset 'klingon'; there are utf-8, gbk" in said


def test_explain_says_the_verdict_the_terms_the_rule_and_who_gets_it(run: Run, file: str) -> None:
    status, out, _ = run("relay", "explain", "AODB", "GATE", "I", "--file", file)
    assert status == 0
    assert "allowed" in out
    assert "line 31" in out
    assert "priority 4 of at most 5, lifetime 60 s, 100 B an order, 100 orders a second" in out
    assert "denied" in run("relay", "explain", "AODB", "GATE", "U", "--file", file)[1]
    told = json.loads(run("relay", "explain", "AODB", "ALL", "U", "--file", file, "--json")[1])
    assert (told["allowed"], told["recipients"]) == (True, ["GATE", "baggage"])
    assert [row["says of this"] for row in told["rules"]] == ["allows it", "-"]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("NONE", "GATE", "I"), "have no agent 'NONE'; there are AODB, GATE, baggage"),
        (("AODB", "NONE", "I"), "have no agent or subject 'NONE'"),
        (("AODB", "GATE", "Insert"), "'Insert' is no command"),
    ],
)
def test_a_question_about_nobody_is_answered_with_who_there_is(
    run: Run, file: str, words: tuple[str, ...], complaint: str
) -> None:
    status, _, said = run("relay", "explain", *words, "--file", file)
    assert status == 1
    assert complaint in said


def test_check_shows_the_agents_and_gives_advice_with_status_1(run: Run, file: str) -> None:
    status, out, _ = run("relay", "check", file)
    assert status == 0
    assert "dialled at 127.0.0.1:7461" in out
    assert "FLTS" in out
    Path(file).write_text(Path(file).read_text().replace("GATE/U/tell", "GTE/U"))
    status, _, said = run("relay", "check", file)
    assert status == 1
    assert "order to GTE: there is no agent and no subject of this name" in said
    told = json.loads(run("relay", "check", file, "--json")[1])
    assert [row["name"] for row in told["agents"]] == ["AODB", "GATE", "baggage"]
    assert len(told["advice"]) == 1


def test_the_page_shows_what_the_command_says(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (Path(__file__).parents[2] / "docs" / "relay.md").read_text()
    (tmp_path / "node.toml").write_text(page.partition("```toml\n")[2].partition("```")[0])
    monkeypatch.chdir(tmp_path)
    shown = page.partition("$ rtmw relay explain ")[2].partition("```")[0]
    words, _, answer = shown.partition("\n")
    assert run("relay", "explain", *words.split())[1] == answer
    assert run("relay", "check", "node.toml")[0] == 0
