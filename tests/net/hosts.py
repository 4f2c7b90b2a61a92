"""Hosts for tests: rtmw domains of this machine, each with a node, that meet on a DDS domain of their own."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import rtmw
from rtmw.net.settings import STATUS_TOPIC
from tests import warm

Node = subprocess.Popen[bytes] | warm.Process

PATIENCE = 60.0
"""Seconds after which something that has to happen has not."""


@dataclass(frozen=True)
class Place:
    """Where a node runs: on this machine's loopback, or in a network namespace (namespaces.py)."""

    enter: tuple[str, ...] = ()
    """What to put before a command, so that it runs there."""
    arguments: tuple[str, ...] = ()
    """For `rtmw node`: its interface, say."""


HERE = Place()


class Host:
    """A domain, and the node that carries it."""

    def __init__(self, number: int, dds_domain: int, folder: Path, place: Place = HERE, pool: str = "8M") -> None:
        self.number, self.dds_domain, self._folder, self.place = number, dds_domain, folder, place
        self.domain = rtmw.Domain(number, pool=pool)
        self.log = folder / f"node_{number}.log"
        self.wire = ""
        """More settings for the DDS library: XML."""
        self.code = Path(rtmw.__file__).parents[1]
        """The folder of the package that the node runs; it runs there, for Python looks first where it was started."""
        self.begins_warm = True
        """False: a test claims something of how long a node takes to start (warm.py)."""
        self._node: Node | None = None

    def start(self, *arguments: str, seconds: float = PATIENCE) -> None:
        """Start the node, and wait until it says that it is ready."""
        address = f"{self._folder}/notify_{self.number}"
        Path(address).unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as supervisor:
            supervisor.bind(address)
            os.chmod(address, 0o777)  # also for a node of another user
            supervisor.setblocking(False)
            node = self.launch(*arguments, notify=address)
            until = time.monotonic() + seconds
            while not select.select([supervisor], [], [], 0.1)[0]:
                assert node.poll() is None, f"the node ended with status {node.returncode}: {self.said}"
                assert time.monotonic() < until, f"the node is not ready within {seconds} s: {self.said}"
            assert supervisor.recv(100) == b"READY=1", self.said

    def launch(self, *arguments: str, notify: str = "") -> Node:
        """Start the node, and wait for nothing."""
        words = ["node", "--domain", str(self.number), "--dds-domain", str(self.dds_domain)]
        words += [*self.place.arguments, *arguments]
        env = {**os.environ, "PYTHONPATH": str(self.code), "NOTIFY_SOCKET": notify}
        env["CYCLONEDDS_URI"] = self.wire
        is_ours = not self.place.enter and self.code == warm.ROOT
        with self.log.open("ab") as log:
            if self.begins_warm and is_ours and warm.can_start(env):
                self._node = warm.start("rtmw", words, env, (0, log.fileno(), log.fileno()))
            else:
                command = [*self.place.enter, sys.executable, "-m", "rtmw", *words]
                self._node = subprocess.Popen(command, stdout=log, stderr=log, env=env, cwd=self.code)
        return self._node

    @property
    def node(self) -> Node:
        assert self._node is not None, "no node was started"
        return self._node

    @property
    def said(self) -> str:
        """The node's log."""
        return self.log.read_text() if self.log.exists() else ""

    def info(self) -> Any:
        """What `rtmw node info --json` shows."""
        with rtmw.Subscriber(STATUS_TOPIC, history=1, domain=self.domain) as status:
            return json.loads(status.receive(timeout=PATIENCE).value)

    def crossed(self, way: str, topic: str, audience: str = "") -> Counter[str]:
        """The counters of a topic with one type, `out` or `in`; empty where it has no route. `audience`: for nodes or
        plain programs only, where it crosses with both."""
        rows = [row for row in self.info()[way] if row["topic"] == topic and audience in row["with"]]
        assert len(rows) <= 1
        return Counter({name: value for row in rows for name, value in row.items() if isinstance(value, int)})

    def stop(self) -> int:
        """End the node as systemd does; its exit status."""
        self.node.send_signal(signal.SIGTERM)
        return self.node.wait(PATIENCE)

    def kill(self) -> None:
        self.node.kill()
        self.node.wait(PATIENCE)

    def end(self) -> None:
        """Leave nothing behind."""
        if self._node is not None and self._node.poll() is None:
            self.kill()
        sys.stderr.write(f"\n--- node of domain {self.number}:\n{self.said}")
        self.domain.close()
        rtmw.Domain.unlink(self.number)


def halt(host: Host) -> None:
    """SIGSTOP to the node, and wait until it stands."""
    host.node.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, host.node.pid, os.WSTOPPED | os.WNOWAIT)


def go_on(host: Host) -> None:
    host.node.send_signal(signal.SIGCONT)


def wait_until(condition: Callable[[], bool], what: str, seconds: float = PATIENCE) -> None:
    """Wait for a condition that has to come true."""
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, f"{what}: not within {seconds} s"
        time.sleep(0.02)
