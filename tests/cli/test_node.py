"""`rtmw node` on the command line: what it says when it cannot start."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

import pytest

from rtmw.net.process import HEARD
from tests.cli.command import Run

NOWHERE = ("node", "--interface", "nowhere0")


def test_an_interface_that_does_not_exist_is_named_with_those_that_do(run: Run) -> None:
    status, out, err = run(*NOWHERE)
    assert (status, out) == (1, "")
    assert err.startswith("rtmw: --interface: interface cannot be used: there is no interface 'nowhere0'")
    assert "it has lo" in err


def test_with_json_every_line_is_an_object_the_one_that_says_why_it_ends_too(run: Run) -> None:
    status, out, err = run(*NOWHERE, "--json")
    assert (status, out) == (1, "")
    (line,) = (json.loads(line) for line in err.splitlines())
    assert line["level"] == "critical"
    assert "there is no interface 'nowhere0'" in line["message"]


def test_a_node_that_cannot_start_leaves_the_signals_of_its_process_as_they_were(run: Run) -> None:
    """Programs that it starts afterwards would have them blocked."""
    assert run(*NOWHERE)[0] == 1
    assert not HEARD & signal.pthread_sigmask(signal.SIG_BLOCK, ())


@pytest.mark.parametrize("more", [(), ("--systemd-unit",)])
def test_an_environment_that_names_no_domain_is_said(
    more: tuple[str, ...], run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RTMW_DOMAIN", "x")
    status, out, err = run("node", *more)
    assert (status, out) == (1, "")
    assert err == "rtmw: the environment says RTMW_DOMAIN='x'; it must be a number from 0 to 232\n"


def test_the_first_line_comes_before_the_libraries_of_dds_are_loaded(domain_id: int) -> None:
    numbers = [f"--domain={domain_id}", f"--dds-domain={domain_id}"]
    command = [sys.executable, "-X", "importtime", "-m", "rtmw", "node", *numbers]  # which says each import
    said = list[str]()
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as node:
        assert node.stderr is not None
        for line in node.stderr:
            said.append(line.rstrip())
            if line.rpartition("|")[2].strip() == "cyclonedds":
                break
        node.kill()
    assert said[-1].endswith(" cyclonedds")
    assert [line for line in said if f"process {node.pid} begins, with the settings of the command line" in line]
