"""Settings that a daemon declares are read, refused with their line, reloaded, options of its command, and shown."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from rtmw.cli.parsing import add_settings
from rtmw.settings import Changes, Declaration, Setting, SettingsError, SettingsFile, values


@dataclass(frozen=True)
class Settings:
    """Of a relay."""

    port: int = 7000
    sites: tuple[str, ...] = ()
    max_rate: int = 0
    patience: float = 2.0
    verbose: bool = False
    limits: int = 0
    """A table of its file."""


RELAY = Declaration(
    (
        Setting("port", values.port, "PORT", "where it listens", "7000"),
        Setting("sites", values.texts, "SITE", "whom it serves ([more](relay.md#sites))", "all", is_list=True),
        Setting("max_rate", values.rate, "BYTES", "what may pass a second, 100 % of it", "no limit", is_reloaded=True),
        Setting("patience", values.seconds(0, 60), "SECONDS", "how long it waits", "2", is_reloaded=True),
        Setting("verbose", values.flag, "", "say more: `DEBUG`", "false", is_reloaded=True),
    ),
    others=("limits",),
)


def limits(file: SettingsFile) -> dict[str, Any]:
    return {"limits": len(file.values["limits"])} if "limits" in file.values else {}


def written(folder: Path, text: str) -> Path:
    path = folder / "relay.toml"
    path.write_text(text)
    return path


def read(path: Path | None, **given: Any) -> Settings:
    return RELAY.read(Settings(), path, given, limits)


def test_settings_come_from_the_file_and_from_the_command_line_which_wins(tmp_path: Path) -> None:
    path = written(tmp_path, 'port = 1\nmax_rate = "2K"\nsites = ["a", "b"]\npatience = "500ms"\n[limits]\na = 1\n')
    found = read(path, port=2, verbose=True, patience=None)
    assert found == Settings(2, ("a", "b"), 2048, 0.5, verbose=True, limits=1)
    assert read(None) == Settings()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("port = 1\nmax_rat = 5", "relay.toml, line 2: there is no setting max_rat; there are port, sites, max_rate,"),
        ("\n\npatience = 61", "relay.toml, line 3: patience cannot be used: it is 61; it must be from 0 to 60 seconds"),
        ("# port = 1\nport = -1", "relay.toml, line 2: port cannot be used: it is -1; ports have numbers from 0 to"),
        ("sites = 'a'", "relay.toml, line 1: sites cannot be used: it is 'a'; it must be a list of texts"),
        ("verbose = 1", "relay.toml, line 1: verbose cannot be used: it is 1; it must be true or false"),
        ("\n[port]\nis = 1", "relay.toml, line 2: port cannot be used: it is {'is': 1}"),
        ("\n[relay]\nport = 1", "relay.toml, line 2: [relay] is a table; settings stand at the top of the file"),
        ("port", "relay.toml: not TOML"),
    ],
)
def test_what_cannot_be_used_is_named_with_file_line_and_key(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(SettingsError) as refusal:
        read(written(tmp_path, text))
    assert str(refusal.value).startswith(f"{tmp_path}/{words}")


def test_all_mistakes_at_the_top_of_a_file_are_named_at_once_with_the_first_of_its_tables(tmp_path: Path) -> None:
    def wrong(file: SettingsFile) -> dict[str, Any]:
        raise SettingsError(f"{file.place('limits')}: [limits] is wrong")

    path = written(tmp_path, "port = -1\nmax_rat = 5\npatience = 61\n[limits]\n")
    with pytest.raises(SettingsError) as refusal:
        RELAY.read(Settings(), path, {}, wrong)
    lines = str(refusal.value).splitlines()
    assert [line.partition(":")[0] for line in lines] == [f"{path}, line {number}" for number in (1, 2, 3, 4)]
    with pytest.raises(SettingsError) as refusal:
        RELAY.read(Settings(), path, {}, limits)
    assert str(refusal.value).splitlines() == lines[:3]


def test_a_table_is_read_by_a_declaration_of_its_own(tmp_path: Path) -> None:
    file = SettingsFile.read(written(tmp_path, "port = 1\n[limits]\nport = 2\nsize = 3\n"))
    inner = Declaration(RELAY.settings, "limits")
    with pytest.raises(SettingsError, match=r"relay\.toml, line 4: \[limits\] has no size; there are port, sites,"):
        inner.check(file.values["limits"], lambda key: file.place(key, "limits"))


def test_a_reload_takes_in_what_is_declared_so_and_names_what_needs_a_new_start() -> None:
    changes = RELAY.changes(Settings(), Settings(port=1, sites=("a",), patience=5.0, limits=4))
    assert changes == Changes({"patience": 5.0, "limits": 4}, ("port", "sites"))
    assert RELAY.changes(Settings(), Settings()) == Changes({}, ())


def parsed(words: Sequence[str]) -> dict[str, Any]:
    parser = argparse.ArgumentParser()
    add_settings(parser, RELAY, {"port": int})
    return vars(parser.parse_args(words))


def test_each_setting_is_an_option_of_the_command_and_none_where_it_is_not_given() -> None:
    assert set(parsed([]).values()) == {None}
    given = parsed(["--port", "5", "--sites", "a", "b", "--max-rate", "1K", "--verbose"])
    assert read(None, **given) == Settings(5, ("a", "b"), 1024, verbose=True)
    with pytest.raises(SettingsError, match=r"^--max-rate: max_rate cannot be used: it is 'fast'"):
        read(None, **parsed(["--max-rate", "fast"]))


def test_the_help_of_an_option_is_what_is_declared_without_markdown(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parsed(["--help"])
    shown = " ".join(capsys.readouterr().out.split())
    assert "--sites SITE [SITE ...] whom it serves (default: all)" in shown
    assert "what may pass a second, 100 % of it (default: no limit)" in shown
    assert "say more: DEBUG (default: false)" in shown


def test_the_documents_have_a_row_for_each_setting() -> None:
    rows = RELAY.documented().splitlines()
    assert rows[0] == "| key | meaning | default | SIGHUP |"
    assert "| `port` | where it listens | 7000 | |" in rows
    assert "| `patience` | how long it waits | 2 | taken in |" in rows
    assert len(rows) == 2 + len(RELAY.settings)


@pytest.mark.parametrize(("text", "rate"), [("500", 500), ("2K", 2048), ("10M", 10 << 20), ("1G", 1 << 30), (7, 7)])
def test_rates_are_bytes_a_second(text: object, rate: int) -> None:
    assert values.rate(text) == rate
