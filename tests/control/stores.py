"""Control stores of tests: files, and clusters of etcd on loopback, which end with the test."""

from __future__ import annotations

import os
import shutil
import signal
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from rtmw.replica.control.etcd import EtcdStore
from rtmw.replica.control.sqlite import SqliteStore
from rtmw.replica.control.store import Store
from tests.ports import free_ports

ETCD = os.environ.get("RTMW_ETCD") or shutil.which("etcd")
needs_etcd = pytest.mark.skipif(
    ETCD is None,
    reason="etcd is missing: apt-get download etcd-server, dpkg -x etcd-server_*.deb etcd, and "
    "RTMW_ETCD=etcd/usr/bin/etcd",
)


def store_of(spec: str, timeout: float = 2.0) -> Store:
    """`sqlite:PATH`, or endpoints with commas between."""
    if spec.startswith("sqlite:"):
        return SqliteStore(Path(spec.removeprefix("sqlite:")), timeout)
    return EtcdStore(spec.split(","), timeout=timeout)


class Member:
    """A process of etcd."""

    def __init__(self, command: list[str], endpoint: str, log: Path, tls: ssl.SSLContext | None) -> None:
        self._command, self.endpoint, self._log, self._tls = command, endpoint, log, tls
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        env = {"PATH": os.environ["PATH"]}
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log, env=env)

    def is_healthy(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.endpoint}/health", timeout=1, context=self._tls) as said:
                return b"true" in said.read()
        except (OSError, urllib.error.URLError):
            return False

    def signal(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(number)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        if self._process is not None:
            self._process.wait()


class Cluster:
    """Members of one cluster, in folders of their own."""

    def __init__(self, folder: Path, members: int = 3, *more: str, tls: ssl.SSLContext | None = None) -> None:
        assert ETCD is not None
        scheme = "https" if tls else "http"
        ports = free_ports(2 * members)
        peers = {f"m{number}": f"http://127.0.0.1:{ports[2 * number + 1]}" for number in range(members)}
        self.members: list[Member] = []
        for number, (name, peer) in enumerate(peers.items()):
            endpoint = f"{scheme}://127.0.0.1:{ports[2 * number]}"
            options = {
                "name": name, "data-dir": str(folder / name),
                "listen-client-urls": endpoint, "advertise-client-urls": endpoint,
                "listen-peer-urls": peer, "initial-advertise-peer-urls": peer,
                "initial-cluster": ",".join(f"{one}={where}" for one, where in peers.items()),
                "heartbeat-interval": "50", "election-timeout": "500", "log-level": "error",
            }  # fmt: skip
            command = [ETCD, *(f"--{key}={value}" for key, value in options.items()), *more]
            self.members.append(Member(command, endpoint, folder / f"{name}.log", tls))

    @property
    def spec(self) -> str:
        return ",".join(one.endpoint for one in self.members)

    def start(self) -> None:
        for one in self.members:
            one.start()
        until = time.monotonic() + 30
        while not all(one.is_healthy() for one in self.members):
            assert time.monotonic() < until, "the cluster of etcd does not come up"
            time.sleep(0.05)

    def close(self) -> None:
        for one in self.members:
            one.kill()
