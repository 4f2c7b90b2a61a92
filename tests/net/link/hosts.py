"""Hosts whose nodes meet over a link and not over DDS, for tests of what is promised whichever way a topic takes."""

from __future__ import annotations

import subprocess
from collections import Counter
from pathlib import Path

from tests.conftest import free_number
from tests.net.hosts import HERE, Host, Place
from tests.ports import free_port

TO_LINKS = {"--lease": "lease", "--max-rate": "max_rate"}
"""Settings that [link] has for links, where DDS has them at the top of the file."""


class LinkHost(Host):
    """A host whose node has a DDS domain of its own, and `[link]`: one of two listens, the other one dials."""

    def __init__(self, folder: Path, link: str, place: Place = HERE, pool: str = "8M") -> None:
        """`link`: a line of [link], listen or connect."""
        number = free_number()
        super().__init__(number, number, folder, place, pool)
        self._file, self._link = folder / f"link_{self.number}.toml", link

    def crossed(self, way: str, topic: str, audience: str = "") -> Counter[str]:
        """Over the link, if nothing else is said: of a topic that nobody reads over DDS there is a row, too."""
        return super().crossed(way, topic, audience or "the node of domain ")

    def launch(self, *arguments: str, notify: str = "") -> subprocess.Popen[bytes]:
        table, rest = [self._link], list[str]()
        given = iter(arguments)
        for word in given:
            if word in TO_LINKS:
                value = next(given)
                table.append(f"{TO_LINKS[word]} = {value if word == '--lease' else repr(value)}")
            else:
                rest.append(word)
        rule = '[[allow]]\npeer = "*"\npublish = ["*"]\nsubscribe = ["*"]\n'
        self._file.write_text("\n".join(["[link]", *table, rule]))
        return super().launch("--config", str(self._file), *rest, notify=notify)


def linked_hosts(folder: Path, pool: str = "8M") -> tuple[LinkHost, LinkHost]:
    """Two on loopback. Not started."""
    port = free_port()
    here = LinkHost(folder, f'listen = "127.0.0.1:{port}"', pool=pool)
    return here, LinkHost(folder, f'connect = ["127.0.0.1:{port}"]', pool=pool)
