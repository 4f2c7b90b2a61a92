"""The lines of docs/links.md, as a new user types them, on two hosts that are network namespaces."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import rtmw
from rtmw import Reliability
from tests.conftest import free_number
from tests.net.hosts import PATIENCE, wait_until
from tests.net.namespaces import Network, obstacle

pytestmark = pytest.mark.skipif(obstacle() is not None, reason=str(obstacle()))

PAGE = (Path(__file__).parents[3] / "docs" / "links.md").read_text()
RUNS = "rtmw node --config node.toml"
"""The line that runs a node until it is stopped."""


def lines_of(title: str) -> list[str]:
    """The shell blocks of a section."""
    section = PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    return re.findall(r"^```(?:sh|bash)\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)


class User:
    """Somebody at a host, in a folder."""

    def __init__(self, enter: tuple[str, ...], folder: Path, number: int) -> None:
        self._enter, self._folder = enter, folder
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        self._env = {**os.environ, "PATH": path, "RTMW_DOMAIN": str(number), "COLUMNS": "300"}
        self._log = folder / "said"

    def types(self, lines: str) -> str:
        """What it says; the last of the lines may be one that fails."""
        command = [*self._enter, "bash", "-ec", lines]
        done = subprocess.run(
            command, cwd=self._folder, env=self._env, capture_output=True, text=True, timeout=PATIENCE, check=False
        )
        assert done.returncode == 0, f"{lines}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def runs(self, lines: str) -> subprocess.Popen[bytes]:
        """The node that they start last."""
        with self._log.open("wb") as log:
            command = [*self._enter, "bash", "-ec", lines.replace(RUNS, f"exec {RUNS}")]
            return subprocess.Popen(command, cwd=self._folder, env=self._env, stdout=log, stderr=log)

    @property
    def said(self) -> str:
        return self._log.read_text()


@pytest.fixture
def network() -> Iterator[Network]:
    made = Network(2)
    yield made
    made.close()


def end(user: User, node: subprocess.Popen[bytes]) -> None:
    node.send_signal(signal.SIGTERM)
    node.wait(PATIENCE)
    sys.stderr.write(user.said)


# Proves G250.
def test_the_lines_of_the_page_take_two_hosts_from_nothing_to_an_encrypted_bus(
    network: Network, tmp_path: Path
) -> None:
    (keys,) = lines_of("Two hosts, from nothing to two signed nodes")
    hub_lines, press_lines = lines_of("From two signed nodes to an encrypted bus")
    assert len(keys.splitlines()) == 10
    with ExitStack() as stack:
        User((), tmp_path, free_number()).types(keys)
        network.name_hosts(1, {"hub": network.address(0)})
        domains, users = list[rtmw.Domain](), list[User]()
        for host, folder in enumerate(("hub", "press")):
            number = free_number()
            domains.append(stack.enter_context(rtmw.Domain(number, pool="8M")))
            stack.callback(rtmw.Domain.unlink, number)
            users.append(User(network.place(host).enter, tmp_path / folder, number))
        hub, press = users
        stack.callback(end, hub, hub.runs(hub_lines))
        wait_until(lambda: "links are accepted" in hub.said, "the hub listens")
        shutil.copy(tmp_path / "hub" / "node.toml", tmp_path / "press" / "hub.toml")
        start, _, rest = press_lines.partition(RUNS + "\n")
        stack.callback(end, press, press.runs(start + RUNS))
        wait_until(lambda: "the link with rtmw://plant/hub is up" in press.said, "the link")
        reliable = Reliability.RELIABLE
        taker = stack.enter_context(rtmw.Subscriber("speed", reliability=reliable, domain=domains[0]))
        out = stack.enter_context(
            rtmw.Publisher("speed", reliability=reliable, max_blocking=PATIENCE, domain=domains[1])
        )
        assert out.wait_for_subscribers(1, timeout=PATIENCE)
        assert out.publish(b"over the link")
        assert taker.receive(timeout=PATIENCE).value == b"over the link"
        wait_until(lambda: "speed" in press.types(rest), "info shows what crosses")
        told = press.types(rest)
        for words in ("rtmw://plant/hub", "TLS_AES_128_GCM_SHA256", "up"):
            assert words in told
