"""The node as a systemd service: its unit, and what systemd does with it."""

from __future__ import annotations

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
from rtmw.net.unit import systemd_unit
from tests.net.hosts import PATIENCE

ROOT = Path(rtmw.__file__).parents[1]


def unit(config: Path) -> str:
    """As `rtmw node --systemd-unit` prints it."""
    command = [sys.executable, "-m", "rtmw", "node", "--systemd-unit", "--config", str(config)]
    return subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout


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


def test_a_folder_with_a_space_or_a_percent_sign_is_quoted() -> None:
    assert "--config '/etc/my 5%%/node.toml'" in systemd_unit(Path("/etc/my 5%/node.toml"))


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
