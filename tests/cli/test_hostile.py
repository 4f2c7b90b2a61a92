"""What files, programs and peers call themselves steers no terminal, in no command; and is seen as what it is."""

from __future__ import annotations

import argparse
import json
import xml.dom.minidom
from collections.abc import Iterator
from pathlib import Path

import pytest

from rtmw.cli import main
from rtmw.cli.command import build_parser
from rtmw.cli.parsing import commands_of
from rtmw.text.visible import visible
from tests.cli.hostile import EVIL, FOLDER, MEMBER, SHOWN, STUCK, TOPIC, World, hostile_world
from tests.cli.terminal import on_a_terminal

pytest.importorskip("matplotlib")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with hostile_world(tmp_path_factory.mktemp("hostile")) as made:
        yield made


ID = "not\u202ean id"
WINDOW = ("--window", "0.1", "--count", "1")
NOWHERE = ("--node", "not\u202ea-place:1")
RUNS: dict[str, tuple[tuple[str, ...], ...]] = {
    "top": (("--once", "--window", "0.1"),),
    "graph": ((), ("--dot",), ("--svg", "{new}.svg")),
    "trace": ((TOPIC, STUCK, "--for", "0.3"),),
    "metrics": ((),),
    "topic list": ((), ("--names",)),
    "topic info": ((TOPIC,), (ID,)),
    "topic queue": ((TOPIC,),),
    "topic clear": ((TOPIC,),),
    "topic hz": (WINDOW,),
    "topic bw": (WINDOW,),
    "topic delay": ((TOPIC, *WINDOW),),
    "topic echo": ((TOPIC, "--count", "1"), (ID,)),
    "topic pub": ((STUCK, "x", "--bytes", "--reliability", "RELIABLE"), (ID + "*", "x")),
    "log-lines": ((f"{TOPIC}/lines", "--count", "1"),),
    "service list": ((),),
    "service call": ((ID, "1"),),
    "node list": ((),),
    "node info": ((),),
    "node doctor": ((),),
    "node check": (("{settings}",), ("{folder}/none",)),
    "node explain": ((TOPIC, "--peer", "rtmw://plant/a", "--file", "{folder}/none"),),
    "node": (("--config", "{folder}/none"),),
    "node keys init": ((ID,),),
    "node keys request": ((ID,),),
    "node keys sign": (("{folder}/none", "--folder", "{folder}"),),
    "node keys install": (("{folder}/none", "--folder", "{folder}"),),
    "node keys renew": (("--folder", "{folder}"),),
    "node keys show": (("--folder", "{folder}/none"),),
    "send": (("{folder}/none", "--to", "ingest"),),
    "receive": (("files", "--into", "{folder}/in", "--count", "1"), (ID, "--into", "{folder}/in")),
    "relay frame": (("{folder}/none",),),
    "relay explain": ((ID, ID, "I", "--file", "{folder}/none"),),
    "relay check": (("{folder}/none",),),
    "relay audit show": (("{folder}/none",),),
    "relay audit verify": (("{folder}/none",),),
    "relay audit export": (("{folder}/none",),),
    "relay agents": (("--data", "{folder}/none"),),
    "relay queue": ((ID, "--data", "{folder}/none"),),
    "relay show": (("1", "--file", "{folder}/none"),),
    "relay hold": ((ID, "--data", "{folder}/none"),),
    "relay release": ((ID, "--data", "{folder}/none"),),
    "relay requeue": (("1", "--data", "{folder}/none"),),
    "relay resend": (("1", "--data", "{folder}/none"),),
    "relay drop": (("1", "--data", "{folder}/none"),),
    "transfers": ((), ("--watch", *WINDOW)),
    "transfers body": ((ID,),),
    "transfers cancel": ((ID,),),
    "transfers retry": ((ID,),),
    "transfers info": ((ID,),),
    "transfers restored": (("{folder}/none",),),
    "record": ((TOPIC, "-o", "{new}", "--for", "0.3"),),
    "replay": (("{recording}",),),
    "recording info": (("{recording}",), ("{folder}/none",)),
    "recording check": (("{recording}",),),
    "recording recover": (("{recording}", "-o", "{new}.mcap"),),
    "recording cut": (("{recording}", "-o", "{new}.mcap"),),
    "recording merge": (("{recording}", "-o", "{new}.mcap"),),
    "recording convert": (("{recording}", "-o", "{new}.mcap"),),
    "recording extract": (("{recording}",), ("{recording}", ID), ("{recording}", "--metadata", ID)),
    "recording attach": (("{recording}", "{folder}/none", "-o", "{new}.mcap"),),
    "recording export": (("{recording}", "--jsonl", "{new}.jsonl"), ("{recording}", "--csv", "{new}.csv")),
    "recording ingest": (("{recording}", "--to", "{new}", "--format", "parquet"),),
    "recording images": (("{folder}/none", "-o", "{new}"),),
    "recording sql": (("SELECT * FROM \u202enone", "{recording}"),),
    "report": (("{recording}", "-o", "{new}.html"),),
    "plot": ((f"topic{EVIL}.{MEMBER}", "{recording}"), (ID, "{recording}")),
    "log list": (("{folder}",),),
    "log info": (("{log}",), ("{folder}/none",)),
    "log tail": (("{log}",),),
    "log append": (("{log}", "x"),),
    "log check": (("{log}",),),
    "log salvage": (("{log}", "-o", "{new}"),),
    "log trim": (("{log}", "0"),),
    "log export": (("{log}", "--jsonl", "-"), ("{log}", "--jsonl", "{new}.jsonl")),
    "log store": ((TOPIC, "-o", "{new}", "--for", "0.3"),),
    "log replay": (("{folder}/none",),),
    "log create": ((ID, "--members", ID, *NOWHERE),),
    "log status": ((ID, *NOWHERE),),
    "log members": ((ID, "add", ID, *NOWHERE),),
    "log move": ((ID, ID, *NOWHERE),),
    "log drop": ((ID, "--yes", *NOWHERE),),
    "log rescue": ((ID, ID, "--yes", *NOWHERE),),
    "doctor": ((),),
    "clean": (("--yes",),),
}
"""How each command is run here, so that it shows something that others have chosen."""
NOT_RUN = {
    "completion": "it prints a script of its own words",
    "dashboard": "it serves until it is told to end: test_dashboard.py shows names that others have chosen",
    "foxglove": "it serves until it is told to end, and shows topics in Foxglove alone",
    "demo": "it shows programs of its own alone, for a minute",
}


def commands(parser: argparse.ArgumentParser, words: tuple[str, ...] = ()) -> Iterator[tuple[str, bool]]:
    """Each command that `rtmw` has, and whether it has --json."""
    for name, inner in commands_of(parser).items():
        yield from commands(inner, (*words, name))
    kinds = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    if not kinds or not kinds[0].required:
        yield " ".join(words), "--json" in parser._option_string_actions


COMMANDS = dict(commands(build_parser()))


# Proves G107.
def test_this_file_runs_every_command_there_is() -> None:
    assert COMMANDS.keys() == RUNS.keys() | NOT_RUN.keys()


def is_harmless(text: str) -> bool:
    return all(visible(line) == line for line in text.split("\n"))


@pytest.mark.parametrize(
    ("command", "turn"), [(command, turn) for command, runs in RUNS.items() for turn in range(len(runs))]
)
# Proves G107.
def test_a_command_shows_what_others_chose_as_visible_text(
    command: str,
    turn: int,
    world: World,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("RTMW_DOMAIN", str(world.number))
    places = {"folder": world.folder, "recording": world.recording, "log": world.log, "settings": world.settings}
    if command.startswith("node "):
        world.wait_heard()
    for form in ([], ["--json"]) if COMMANDS[command] else ([],):
        places["new"] = tmp_path / f"{FOLDER}{len(form)}"
        words = [word.format(**places) if word.startswith("{") else word for word in RUNS[command][turn]]
        capsys.readouterr()
        main([*command.split(), *words, *form])
        out, err = capsys.readouterr()
        assert is_harmless(out)
        assert is_harmless(err)
        if not form or not out:
            assert SHOWN in out + err or "svg" in str(words)
        for line in out.splitlines() if form else ():
            json.loads(line)
        for made in [*tmp_path.glob("*.svg"), *tmp_path.glob("*.html")]:
            assert is_harmless(made.read_text())
            assert SHOWN in made.read_text()
            assert "<script" not in made.read_text()


def test_a_picture_is_valid_xml(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RTMW_DOMAIN", str(world.number))
    for words in (["graph", "--svg"], ["plot", f"topic{EVIL}.n", str(world.recording), "-o"]):
        assert main([*words, str(tmp_path / "a.svg")]) == 0
        xml.dom.minidom.parse(str(tmp_path / "a.svg"))
        assert is_harmless((tmp_path / "a.svg").read_text())


# Proves G107.
def test_strings_of_graphviz_end_where_they_should(
    world: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RTMW_DOMAIN", str(world.number))
    assert main(["graph", "--dot"]) == 0
    told = capsys.readouterr().out
    assert r"\\u202e" in told
    for line in told.splitlines():
        outside = line.replace("\\\\", "").replace('\\"', "").split('"')[::2]
        assert not any("evil" in part or "script" in part for part in outside), line


@pytest.mark.parametrize("words", [("topic", "list"), ("recording", "info", "{recording}"), ("top", "--once")])
# Proves G107.
def test_on_a_terminal_it_is_the_same(words: tuple[str, ...], world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RTMW_DOMAIN", str(world.number))
    for columns in (40, 200):  # a paragraph a row, and a table
        lines = on_a_terminal(columns, 50, *(word.format(recording=world.recording) for word in words))
        assert all(map(is_harmless, lines))
        assert SHOWN in "".join(lines)
    assert all(len(line) <= columns for line in lines)
