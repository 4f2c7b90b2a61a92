"""Two hosts of this machine whose nodes meet over a link alone: each has a DDS domain of its own."""

from __future__ import annotations

import signal
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import rtmw
from rtmw.net.link.links import Links
from rtmw.net.security.identity import Identity
from rtmw.net.settings import make_settings
from rtmw.net.topics import Ended
from tests.conftest import free_number
from tests.net.hosts import Host, wait_until
from tests.net.security.site import Site
from tests.ports import free_port

ALL = '[[allow]]\npeer = "*"\npublish = ["*"]\nsubscribe = ["*"]\n'


def links_of(domain: rtmw.Domain, path: Path, line: str, identity: Identity | None = None) -> Links:
    """The links of a node, in this process and its loop. `path`: of the settings; `line`: of [link]."""
    path.write_text(f"[link]\n{line}\n{ALL}")
    ended = {"out": Ended(), "in": Ended()}
    return Links(uuid4(), domain, make_settings(path, {}), identity, ended, lambda _: None)


@dataclass
class LinkedPair:
    """`hub` listens, `press` dials. Settings are written when a node is started."""

    folder: Path
    pool: str = "8M"
    port: int = field(default_factory=free_port)
    dial: int = 0
    """Where press connects, if that is not `port`."""
    unix: Path | None = None
    """The Unix socket where they meet, in place of `port`."""
    dds_domains: tuple[int, int] = field(default_factory=lambda: (free_number(), free_number()))
    """The same twice: the nodes meet over DDS, too."""
    top: str = ""
    """Lines of both files that stand in no table."""
    link: dict[str, str] = field(default_factory=dict)
    """More lines of [link], by the name of a host."""
    rules: dict[str, str] = field(default_factory=dict)
    """The tables of rules, by the name of a host."""

    def __post_init__(self) -> None:
        names = zip(("hub", "press"), self.dds_domains, strict=True)
        self.hosts = {name: Host(free_number(), dds, self.folder, pool=self.pool) for name, dds in names}
        self.hub, self.press = self.hosts["hub"], self.hosts["press"]
        self.site: Site | None = None

    def with_keys(self) -> LinkedPair:
        """Keys for both, signed by one authority."""
        self.site = Site(self.folder / "site")
        for name in self.hosts:
            self.link[name] = f'keys = "{self.site.keys(f"rtmw://plant/{name}")}"\n'
        return self

    def settings(self, name: str) -> Path:
        """Write the settings of a host."""
        path = self.folder / f"{name}.toml"
        listens = name == "hub"
        place = f"unix:{self.unix}" if self.unix else f"127.0.0.1:{self.port if listens else self.dial or self.port}"
        where = f'listen = ["{place}"]' if listens else f'connect = ["{place}"]'
        path.write_text(f"{self.top}[link]\n{where}\n{self.link.get(name, '')}\n{self.rules.get(name, ALL)}")
        return path

    def start(self, *names: str) -> LinkedPair:
        """Start these nodes, or both."""
        for name in names or self.hosts:
            self.hosts[name].start("--config", str(self.settings(name)))
        return self

    def peers(self, name: str) -> list[dict[str, Any]]:
        """What a node says of its links."""
        links = self.hosts[name].info()["links"]
        return links["peers"] if links else []

    def wait_up(self) -> LinkedPair:
        for name in self.hosts:
            wait_until(partial(self.is_up, name), f"the link of {name}")
        return self

    def is_up(self, name: str) -> bool:
        return [peer["up"] for peer in self.peers(name)] == [True]

    def reload(self, name: str, rules: str | None = None) -> None:
        """Write the settings again, with these rules, and have the node read them."""
        if rules is not None:
            self.rules[name] = rules
        self.settings(name)
        read = self.hosts[name].said.count("settings")
        self.hosts[name].node.send_signal(signal.SIGHUP)
        wait_until(lambda: self.hosts[name].said.count("settings") > read, "SIGHUP")

    def crossed(self, name: str, way: str, topic: str) -> Counter[str]:
        """The counters of a topic on a link of a node, `out` or `in`; empty where it has no route."""
        audience = "uid:" if self.unix else "rtmw://" if self.site else "the node of domain "
        return self.hosts[name].crossed(way, topic, audience)

    def end(self) -> None:
        for host in self.hosts.values():
            host.end()
