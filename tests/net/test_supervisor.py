"""What the node tells the program that runs it."""

from __future__ import annotations

import socket
from contextlib import suppress
from pathlib import Path

import pytest

from rtmw.net.process import notify


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
        supervisor.setblocking(False)
        waiting = 0
        with suppress(BlockingIOError):
            while supervisor.recv(100) == b"WATCHDOG=1":
                waiting += 1
        assert 0 < waiting < 10_000, "the socket was never full, and this shows nothing"


def test_without_a_supervisor_no_socket_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    made = socket_calls(monkeypatch)
    notify("READY=1")
    assert made == []


def test_a_supervisor_that_is_gone_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", f"{tmp_path}/nobody")
    made = socket_calls(monkeypatch)
    notify("READY=1")
    (tried,) = made
    assert tried.fileno() == -1, "its socket is open still"


def socket_calls(monkeypatch: pytest.MonkeyPatch) -> list[socket.socket]:
    """The sockets that are made from now on."""
    made: list[socket.socket] = []

    class Seen(socket.socket):
        def __init__(self, *arguments: int) -> None:
            super().__init__(*arguments)
            made.append(self)

    monkeypatch.setattr(socket, "socket", Seen)
    return made
