"""What the node tells the program that runs it."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from rtmw.net.supervisor import notify


@pytest.mark.parametrize("place", ["file", "abstract"])
def test_a_state_reaches_the_supervisor(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"{tmp_path}/notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as supervisor:
        supervisor.bind(name if place == "file" else f"\0{name}")
        monkeypatch.setenv("NOTIFY_SOCKET", name if place == "file" else f"@{name}")
        notify("READY=1")
        assert supervisor.recv(100) == b"READY=1"


def test_a_supervisor_that_does_not_listen_stops_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as supervisor:
        supervisor.bind(f"{tmp_path}/notify")
        monkeypatch.setenv("NOTIFY_SOCKET", f"{tmp_path}/notify")
        for _ in range(10_000):
            notify("WATCHDOG=1")


def test_without_a_supervisor_nothing_happens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    notify("READY=1")
    monkeypatch.setenv("NOTIFY_SOCKET", f"{tmp_path}/nobody")
    notify("READY=1")
