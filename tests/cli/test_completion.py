"""`rtmw completion`: its script in real shells on a terminal, where a tab completes the line."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import select
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import rtmw
from tests.bus import LONG
from tests.cli.command import Run
from tests.conftest import free_number

TO_THE_BEGINNING = "\x01"
SHELLS = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], 'eval "$(rtmw completion bash)"'),
    "zsh": (["zsh", "-f", "-i"], 'bindkey -e; autoload -U compinit; compinit -u -D; eval "$(rtmw completion zsh)"'),
}
SHOW = "show() { printf '\\036%s' \"$@\"; echo; }"
ODD = "odd $(touch harm) 'name'"


class Shell:
    """A shell on a terminal that has read the script."""

    def __init__(self, name: str, folder: Path) -> None:
        command, begin = SHELLS[name]
        if shutil.which(name) is None:
            pytest.skip(f"needs {name}")
        program = folder / "bin" / "rtmw"
        program.parent.mkdir()
        program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m rtmw "$@"\n')
        program.chmod(0o755)
        self._ours, theirs = pty.openpty()
        self.said = ""
        self._process = subprocess.Popen(
            command,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            cwd=folder,
            start_new_session=True,
            env={
                **os.environ,
                "PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}",
                "PYTHONPATH": str(Path(rtmw.__file__).parents[1]),
                "TERM": "dumb",
                "COLUMNS": "500",
            },
        )
        os.close(theirs)
        self.type(f"{begin}; {SHOW}; echo be''gun\n")
        self._until("begun")

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def _until(self, pattern: str) -> str:
        """The first text like this that the shell shows from now on."""
        begin, end = len(self.said), time.monotonic() + 6 * LONG
        while (found := re.search(pattern, self.said[begin:])) is None:
            assert time.monotonic() < end, self.said
            if select.select([self._ours], [], [], 1)[0]:
                self.said += os.read(self._ours, 4096).decode()
        return found.group()

    def words(self, typed: str) -> list[str]:
        """The words of the line that the shell has made of what was typed."""
        self.type(f"{typed}\t{TO_THE_BEGINNING}show \n")
        return self._until("(\x1e[^\x1e\r\n]+)+\r").rstrip("\r").split("\x1e")[1:]

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        with contextlib.suppress(OSError):
            os.close(self._ours)


@pytest.fixture(params=SHELLS)
def shell(request: pytest.FixtureRequest, domain_id: int, tmp_path: Path) -> Iterator[Shell]:
    """A shell in the test's domain, and in a folder of its own."""
    opened = Shell(request.param, tmp_path)
    yield opened
    opened.end()


def test_a_tab_completes_commands_options_choices_files_and_topics(
    shell: Shell, domain: rtmw.Domain, tmp_path: Path
) -> None:
    (tmp_path / "monday.mcap").touch()
    with rtmw.Publisher("pump/speed", domain=domain), rtmw.Publisher("river/level", domain=domain):
        assert shell.words("rtmw topic ec") == ["rtmw", "topic", "echo"]
        assert shell.words("rtmw topic echo --cou") == ["rtmw", "topic", "echo", "--count"]
        assert shell.words("rtmw top --sort la") == ["rtmw", "top", "--sort", "latency"]
        assert shell.words("rtmw recording info mon") == ["rtmw", "recording", "info", "monday.mcap"]
        assert shell.words("rtmw topic echo pu") == ["rtmw", "topic", "echo", "pump/speed"]
        assert shell.words("rtmw topic echo -n 1 ri") == ["rtmw", "topic", "echo", "-n", "1", "river/level"]
        assert shell.words("rtmw topic hz pump/speed ri") == ["rtmw", "topic", "hz", "pump/speed", "river/level"]


def test_a_tab_completes_the_services_that_can_be_called(shell: Shell, domain: rtmw.Domain) -> None:
    with rtmw.Service("arm/move", str.upper, request=str, reply=str, domain=domain):
        assert shell.words("rtmw service call ar") == ["rtmw", "service", "call", "arm/move"]


def test_a_topic_is_completed_as_one_word_that_the_shell_does_not_expand(
    shell: Shell, domain: rtmw.Domain, tmp_path: Path
) -> None:
    with rtmw.Publisher(ODD, domain=domain):
        assert shell.words("rtmw topic info od") == ["rtmw", "topic", "info", ODD]
    assert not (tmp_path / "harm").exists()


def test_topics_are_those_of_the_domain_that_the_line_names(shell: Shell, domain: rtmw.Domain) -> None:
    shell.type(f"export RTMW_DOMAIN={free_number(with_dds=False)}\n")
    with rtmw.Publisher("pump/speed", domain=domain):
        assert shell.words("rtmw topic echo pu")[-1] == "pu"
        assert shell.words(f"rtmw topic echo --domain {domain.id} pu")[-1] == "pump/speed"


def test_where_there_is_no_domain_a_tab_says_nothing(shell: Shell) -> None:
    assert shell.words("rtmw topic echo pu") == ["rtmw", "topic", "echo", "pu"]
    assert "does not exist" not in shell.said


def test_without_shtab_the_command_says_how_to_install_it(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)  # as Python has what cannot be imported
    status, out, err = run("completion", "bash")
    assert (status, out) == (1, "")
    assert "pip install 'rtmw[completion]'" in err


def test_names_are_listed_one_a_line(run: Run, domain: rtmw.Domain) -> None:
    with rtmw.Publisher("b c", domain=domain), rtmw.Publisher("a", domain=domain):
        assert sorted(run("topic", "list", "--names")[1].splitlines()) == ["a", "b c"]


def test_names_of_services_are_listed_one_a_line(run: Run, domain: rtmw.Domain) -> None:
    with rtmw.Service("arm/move", str.upper, request=str, reply=str, domain=domain):
        assert run("service", "list", "--names")[1] == "arm/move\n"


def test_n_is_short_for_the_count_of_an_echo(run: Run, domain: rtmw.Domain) -> None:
    with rtmw.Publisher("t", domain=domain, history=3) as publisher:
        publisher.publish_many([b"1", b"2", b"3"])
        assert run("topic", "echo", "t", "-n", "2", "--history", "3")[1].count("---") == 2
