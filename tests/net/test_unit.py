"""The node as a systemd service: its unit, and what systemd does with it."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from configparser import RawConfigParser
from pathlib import Path

import pytest

import rtmw
from rtmw.cli import main
from rtmw.cli.command import build_parser
from rtmw.net.process import systemd_unit
from tests import warm
from tests.net.hosts import PATIENCE

ROOT = Path(rtmw.__file__).parents[1]


def unit(config: Path, *more: str, domain: str | None = None) -> str:
    """As `rtmw node --systemd-unit` prints it. `domain`: what the environment says."""
    env = {name: value for name, value in os.environ.items() if name != "RTMW_DOMAIN"}
    env |= {"RTMW_DOMAIN": domain} if domain else {}
    return warm.run("node", "--systemd-unit", "--config", str(config), *more, check=True, env=env).stdout


def parsed(text: str) -> RawConfigParser:
    parser = RawConfigParser(comment_prefixes=("#",), strict=True)
    parser.optionxform = str  # type: ignore[method-assign,assignment]
    parser.read_string(text)
    return parser


def test_nothing_in_it_is_left_to_fill_in(tmp_path: Path) -> None:
    service = parsed(unit(tmp_path / "node.toml"))["Service"]
    assert service["ExecReload"] == "/bin/kill -HUP $MAINPID"
    assert service["ExecStart"] == f"{sys.executable} -m rtmw node --config {tmp_path / 'node.toml'}"
    assert "$" not in service["User"] + service["ExecStart"]
    assert "Environment" not in service


def test_it_starts_the_node_with_every_setting_that_was_given(tmp_path: Path) -> None:
    given = "--domain 7 --pool 1G --dds-domain 8 --interface lo --peers ::1 10.0.0.7 --topics-out a/* b --topics-in c"
    given += " --max-rate 10M --lease 2.5 --ros2 --metrics-port 0 --json"
    service = parsed(unit(tmp_path / "node.toml", *given.split(), domain="9"))["Service"]
    assert service["Environment"] == "RTMW_DOMAIN=9"
    started = shlex.split(service["ExecStart"])[3:]
    same = build_parser().parse_args(["node", "--config", str(tmp_path / "node.toml"), *given.split()])
    assert build_parser().parse_args(started) == same


def test_a_setting_that_cannot_be_used_makes_no_unit(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["node", "--systemd-unit", "--max-rate", "fast"]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert "--max-rate: max_rate cannot be used" in said.err


def test_what_systemd_would_replace_is_quoted() -> None:
    text = systemd_unit(Path("/etc/my 5%/$HOME.toml"), {})
    assert "--config '/etc/my 5%%/$$HOME.toml'" in text


def test_its_command_is_ready_reports_being_alive_and_ends_as_systemd_expects(domain_id: int, tmp_path: Path) -> None:
    config = tmp_path / "node.toml"
    config.write_text(f"domain = {domain_id}\n")
    command = shlex.split(parsed(unit(config))["Service"]["ExecStart"])
    address = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as supervisor:
        supervisor.bind(address)
        supervisor.settimeout(PATIENCE)
        with subprocess.Popen(command, env={"NOTIFY_SOCKET": address}, cwd=ROOT, stderr=subprocess.PIPE) as node:
            try:
                assert [supervisor.recv(100) for _ in range(2)] == [b"READY=1", b"WATCHDOG=1"]
                node.send_signal(signal.SIGHUP)
                node.send_signal(signal.SIGTERM)
                while (said := supervisor.recv(100)) == b"WATCHDOG=1":
                    continue
                assert said == b"STOPPING=1"
                assert node.wait(PATIENCE) == 0
            finally:
                node.kill()


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd-analyze is not installed")
def test_systemd_finds_nothing_wrong_with_it(tmp_path: Path) -> None:
    path = tmp_path / "rtmw-node.service"
    path.write_text(unit(tmp_path / "node.toml"))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(path)], capture_output=True, text=True, timeout=PATIENCE
    )
    assert [line for line in done.stderr.splitlines() if "rtmw-node" in line] == []
