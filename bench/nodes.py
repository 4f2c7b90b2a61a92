"""Two hosts on this machine: two domains, each with a node. The nodes meet on one DDS domain, or over a link."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bench.cable import Place
from bench.certificates import SITE, node_keys
from bench.domain import domain
from bench.log_peers.server import free_port

READY = 20.0
"""Seconds in which a node has to be ready."""
END = 10.0
RULES = '[[allow]]\npeer = "{peers}"\npublish = ["*"]\nsubscribe = ["*"]\n'

Arguments = Sequence[str]
"""Of `rtmw node`."""


@contextmanager
def node(arguments: Arguments, environment: dict[str, str], place: Place) -> Iterator[Callable[[], None]]:
    """A node, which the function waits for; it ends with the block."""
    with tempfile.TemporaryDirectory(prefix="rtmw-bench-") as folder:
        supervisor = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        address = str(Path(folder, "notify"))
        supervisor.bind(address)
        supervisor.settimeout(READY)
        command = [*place.enter, sys.executable, "-m", "rtmw", "node", "--interface", place.interface, *arguments]
        process = subprocess.Popen(
            command, env=environment | {"NOTIFY_SOCKET": address}, stderr=subprocess.DEVNULL, start_new_session=True
        )
        try:
            yield lambda: _await_ready(supervisor)
        finally:
            supervisor.close()
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(END)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _await_ready(supervisor: socket.socket) -> None:
    supervisor.recv(100)  # READY=1


@contextmanager
def hosts(
    pool: str, environment: dict[str, str], places: tuple[Place, Place], link: tuple[Arguments, Arguments] | None = None
) -> Iterator[tuple[int, int]]:
    """Their domains. `link`: arguments of nodes that meet over a link alone. Both may run on every processor."""
    with ExitStack() as stack:
        numbers = [stack.enter_context(domain(pool)) for _ in range(2)]
        waits: list[Callable[[], None]] = []
        for at, (number, place) in enumerate(zip(numbers, places, strict=True)):
            arguments = ["--domain", str(number), "--dds-domain", str(number if link else numbers[0])]
            arguments += link[at] if link else ()
            waits.append(stack.enter_context(node(arguments, dict(os.environ) | environment, place)))
        for wait in waits:
            wait()
        yield numbers[0], numbers[1]


def linked(
    folder: Path, environment: dict[str, str], places: tuple[Place, Place], has_tls: bool, library: str = ""
) -> tuple[Arguments, Arguments]:
    """Arguments for the nodes of two hosts with a link; their settings lie in the folder. The first one listens.
    `library`: the libssl that has TLS; empty: the usual one."""
    address = f"{places[0].address}:{free_port()}"
    keys = node_keys(tuple(environment.items())) if has_tls else None
    found: list[Arguments] = []
    for at, where in enumerate((f'listen = "{address}"', f'connect = ["{address}"]')):
        who = f'keys = "{keys[at]}"' if keys else "insecure = true"
        who += f'\nopenssl = "{library}"' if library else ""
        rules = RULES.format(peers=f"rtmw://{SITE}/*" if keys else "*")
        file = folder / f"node-{at}.toml"
        file.write_text(f"[link]\n{where}\n{who}\n{rules}")
        found.append(("--config", str(file)))
    return found[0], found[1]
