"""A peer that has a certificate, and says of itself what is not so: a node's links, as a program of their own.

    python -m tests.net.link.liar DOMAIN KEYS PORT

The first line of its input are its claims in JSON: fields of the hello; `now`, what its clock says when it reads its
keys; `garbage`, controls that it says once it has a link. It prints `up` when it has a link for the first time, why it
has none, and ends when its input does.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID, uuid5

import rtmw
from rtmw.net.link.links import Links
from rtmw.net.neighbours import Neighbours, origin
from rtmw.net.security.identity import Identity
from rtmw.net.settings import make_settings
from rtmw.net.topics import Ended
from tests import warm
from tests.net.link.nodes import ALL

STEP_S = 0.02
SPACE = UUID(int=17)


class Liar:
    """In another process, until `close`."""

    def __init__(self, domain: rtmw.Domain, keys: Path, port: int, **claims: object) -> None:
        words = [str(domain.id), str(keys), str(port)]
        self._child = warm.start_with_pipes(__name__, words, os.environ, tells=True)
        assert self._child.stdin
        self._child.stdin.write(f"{json.dumps(claims, default=str)}\n".encode())

    def wait_up(self) -> None:
        assert self.says() == "up"

    def says(self) -> str:
        """The next line."""
        assert self._child.stdout
        return self._child.stdout.readline().decode().rstrip()

    def close(self) -> None:
        assert self._child.stdin
        assert self._child.stdout
        self._child.stdin.close()
        self._child.wait()
        self._child.stdout.close()


async def run(domain: rtmw.Domain, keys: Path, port: int, claims: dict[str, Any]) -> None:
    file = keys / "liar.toml"
    file.write_text(f'[link]\nkeys = "{keys}"\nconnect = ["127.0.0.1:{port}"]\n{ALL}')
    settings, ended = make_settings(file, {}), {"out": Ended(), "in": Ended()}
    identity = Identity.load(keys, now=claims.pop("now", None))
    garbage: list[str] = claims.pop("garbage", [])
    links = Links(uuid5(SPACE, origin(domain)), domain, settings, identity, ended, lambda _: None)
    said = {name: UUID(value) if name == "node" else value for name, value in claims.items()}
    links.register.mine = replace(links.register.mine, **said)
    links.open()
    bus, told = Neighbours(domain), set[str]()
    over = asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    while not over.done():
        changed = bus.look()
        links.step(bus.topics, changed)
        lines = [session.linked.line for session in links.sessions.values() if session.linked.is_up]
        for words in {*links.why.values(), *(["up"] if lines else [])} - told:
            print(words, flush=True)
            told.add(words)
        for line in lines:
            for control in garbage:
                line.say(control.encode())
        await asyncio.sleep(STEP_S)
    links.close()


if __name__ == "__main__":
    number, folder, port = sys.argv[1:]
    claims = json.loads(sys.stdin.readline())
    with rtmw.Domain(int(number)) as domain:
        asyncio.run(run(domain, Path(folder), int(port), claims))
