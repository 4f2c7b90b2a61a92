"""`rtmw node explain` and `rtmw node check FILE --as`: the rules of a file, for people and for their CI."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import Run, document
from tests.conftest import free_number
from tests.net.hosts import Host, wait_until

DOCUMENT = Path(__file__).parents[2] / "docs" / "links.md"
PRESS = "rtmw://plant/press-7"

RULE = f'[[allow]]\npeer = "{PRESS}"\npublish = ["{{node}}/*"]\n'


@pytest.fixture
def node(domain_id: int, tmp_path: Path) -> Iterator[Host]:
    """It runs, and has the rules of RULE from `node.toml`."""
    host, file = Host(domain_id, free_number(), tmp_path), tmp_path / "node.toml"
    file.write_text(RULE)
    try:
        host.start("--config", str(file))
        yield host
    finally:
        host.end()


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The settings that the document shows; its folder is the current one."""
    (text,) = re.findall(r"```toml\n(\[link\].*?)```", DOCUMENT.read_text(), re.DOTALL)
    (tmp_path / "node.toml").write_text(text)
    monkeypatch.chdir(tmp_path)
    return "node.toml"


def test_the_document_shows_what_the_command_says(run: Run, file: str) -> None:
    shown = re.findall(r"```\n\$ rtmw (node explain .*)\n((?:.*\n)*?)```", DOCUMENT.read_text())
    ((words, text),) = shown
    assert run(*words.split()) == (0, text, "")


def test_both_directions_are_explained_with_file_and_line(run: Run, file: str) -> None:
    status, out, _ = run("node", "explain", "press-7/secret", "--peer", PRESS, "--file", file, "--json")
    told = json.loads(out)
    assert status == 0
    assert {verb: one["cause"] for verb, one in told["verdicts"].items()} == {"publish": "deny", "subscribe": "deny"}
    assert told["verdicts"]["publish"]["rule"] == "node.toml, line 17"
    assert told["rules"] == [{"rule": "node.toml, line 17", "publish": "yes", "subscribe": "-", "deny": "denies"}]


def test_what_a_peer_may_send_to_a_service_is_explained_with_its_rule(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "node.toml"
    path.write_text(f'[[allow]]\npeer = "{PRESS}"\nsend = ["ingest@centre"]\nmax_size = "1M"\n')
    _, out, _ = run("node", "explain", "ingest@centre", "--peer", PRESS, "--file", str(path), "--json")
    told = json.loads(out)
    assert (told["verdicts"]["send"]["allowed"], told["verdicts"]["send"]["rule"]) == (True, f"{path}, line 1")
    assert told["rules"][0]["send"] == "yes"
    _, out, _ = run("node", "explain", "orders@centre", "--peer", PRESS, "--file", str(path))
    assert re.search(r"transfers that the peer sends +denied +no rule allows this peer to send", out)


@pytest.mark.parametrize(
    ("words", "status"),
    [
        ((PRESS, "publish", "press-7/speed"), 0),
        ((PRESS, "publish", "press-7/speed", "--priority", "5", "--size", "64M"), 0),
        ((PRESS, "publish", "press-7/speed", "--priority", "6"), 1),
        ((PRESS, "publish", "press-7/speed", "--size", "65M"), 1),
        ((PRESS, "publish", "press-8/speed"), 1),
        (("rtmw://plant/hub", "subscribe", "alarm/a"), 1),
        ((PRESS, "fly", "x"), 2),
        (("plant/press-7", "publish", "x"), 2),
    ],
)
def test_the_status_of_a_check_is_the_verdict(run: Run, file: str, words: tuple[str, ...], status: int) -> None:
    found, out, err = run("node", "check", file, "--as", *words)
    assert found == status
    assert (err != "") is (status == 2)
    assert ("denied" in out, "allowed" in out.split("\n")[-2] if out else False) != (True, True)


def test_a_check_of_a_broken_file_is_a_mistake_and_names_the_line(run: Run, file: str) -> None:
    Path(file).write_text('[[allow]]\npeer = "*"\npublsih = ["a"]\n')
    status, out, err = run("node", "check", file, "--as", PRESS, "publish", "a")
    assert (status, out) == (2, "")
    assert err == "rtmw: node.toml, line 3: a rule has no publsih; did you mean publish?\n"
    assert run("node", "check", "none.toml", "--as", PRESS, "publish", "a")[0] == 2


def test_without_a_file_or_a_node_the_question_is_turned_back(run: Run, domain_id: int) -> None:
    status, _, err = run("node", "explain", "x", "--peer", PRESS)
    assert (status, err) == (1, f"rtmw: no node of domain {domain_id} has rules: name the settings with --file\n")


def test_a_check_needs_neither_the_interface_nor_the_keys_of_the_node(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "node.toml"
    path.write_text('interface = "none7"\n[link]\nkeys = "none"\n[[allow]]\npeer = "*"\npublish = ["*"]\n')
    assert run("node", "check", str(path), "--as", "uid:1000", "publish", "a")[0] == 0


def asked(run: Run) -> dict[str, Any]:
    """Without a file: of the node."""
    found: dict[str, Any] = document(run, "node", "explain", "press-7/a", "--peer", PRESS)
    return found


def test_of_a_node_that_holds_the_rules_of_its_file_no_warning_is_said(run: Run, node: Host) -> None:
    told = asked(run)
    assert told["verdicts"]["publish"]["allowed"]
    assert (told["held"], told["warning"]) == (told["version"], None)
    assert told["held"] == node.info()["rules"]["version"]
    assert "Warning" not in run("node", "explain", "press-7/a", "--peer", PRESS)[1]


def test_rules_that_the_node_has_not_read_yet_are_told_apart_from_those_that_it_holds(
    run: Run, node: Host, tmp_path: Path
) -> None:
    held, path = asked(run)["held"], tmp_path / "node.toml"
    path.write_text(RULE + 'deny = ["*/a"]\n')
    told = asked(run)
    assert not told["verdicts"]["publish"]["allowed"]
    assert told["held"] == held != told["version"]
    warning = (
        f"the node holds other rules, {held}: {path} has changed since it read them. It takes these in once you send "
        f"SIGHUP to process {node.node.pid}; if it refuses them, rtmw node check {path} says why"
    )
    assert told["warning"] == warning
    assert run("node", "explain", "press-7/a", "--peer", PRESS)[1].endswith(f"\nWarning: {warning}.\n")
    node.node.send_signal(signal.SIGHUP)
    wait_until(lambda: asked(run)["warning"] is None, "SIGHUP takes them in")
    assert asked(run)["held"] == told["version"]


def test_of_a_file_that_cannot_be_used_the_rules_that_the_node_goes_on_with_are_named(
    run: Run, node: Host, tmp_path: Path
) -> None:
    held, path = asked(run)["held"], tmp_path / "node.toml"
    goes_on = f"; the node goes on with the rules {held}, which it read before: mend the file, then send SIGHUP to "
    path.write_text(RULE + "deny = 3\n")
    status, out, err = run("node", "explain", "press-7/a", "--peer", PRESS)
    assert (status, out) == (1, "")
    assert err.startswith(f"rtmw: {path}, line 4: deny cannot be used")
    assert err.endswith(f"{goes_on}process {node.node.pid}\n")
    path.unlink()
    err = run("node", "explain", "press-7/a", "--peer", PRESS)[2]
    assert err == f"rtmw: {path}: No such file or directory{goes_on}process {node.node.pid}\n"
