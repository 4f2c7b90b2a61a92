"""Nodes that serve transfers, for as long as a block lasts: what programs with letters need."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import rtmw
from bench.domain import domain as new_domain
from bench.log_peers.server import free_port, server

SIZE = 200


def answers(domain: int) -> bool:
    """Its core lets a program join."""
    try:
        with rtmw.Sender("ready", domain=domain):
            return True
    except rtmw.CoreNotRunning:
        return False


@contextmanager
def serving(domain: int, folder: Path) -> Generator[None]:
    command = [sys.executable, "-m", "rtmw", "node", "--domain", str(domain)]
    command += ["--serve", "transfer", "--data", str(folder / "transfers")]
    with server(command, folder, lambda: answers(domain)):
        yield


@dataclass(frozen=True)
class Two:
    """Two hosts: their domains, and the port at which the second one's node is reached."""

    here: int
    there: int
    port: int


@contextmanager
def serving_two(
    here: int, folder: Path, keys: tuple[Path, Path] | None = None, through: Callable[[int], int] | None = None
) -> Generator[Two]:
    """Nodes "here" and "there", on loopback. `keys`: of both, for TLS. `through`: from the port of the second one to
    that to which the first one connects."""
    port = free_port()
    reached = port if through is None else through(port)
    with (
        new_domain() as there,
        _node("there", there, folder, f'listen = "127.0.0.1:{port}"', keys and keys[1]),
        _node("here", here, folder, f'connect = ["127.0.0.1:{reached}"]', keys and keys[0]),
    ):
        yield Two(here, there, port)


@contextmanager
def _node(name: str, domain: int, folder: Path, where: str, keys: Path | None) -> Generator[None]:
    mine = folder / name
    mine.mkdir()
    how = "insecure = true" if keys is None else f'keys = "{keys}"'
    about = f'domain = {domain}\nname = "{name}"\nserve = ["transfer"]\ndata = "{mine / "data"}"\n'
    settings = mine / "node.toml"
    settings.write_text(f'{about}[transfer]\n{how}\n{where}\n[[allow]]\npeer = "*"\nsend = ["*"]\n')
    command = [sys.executable, "-m", "rtmw", "node", "--config", str(settings)]
    with server(command, mine, lambda: answers(domain)):
        yield
