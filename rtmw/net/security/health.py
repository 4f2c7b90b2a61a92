"""How the keys of a node are, for its status, its metrics and its doctor; files are read again when they change."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from rtmw.clock import CLOCK
from rtmw.errors import RtmwError
from rtmw.net.security.tables import Link
from rtmw.observe.node_status import Keys

if TYPE_CHECKING:
    from rtmw.net.security.certificates import Facts


class KeysHealth:
    """The health of the keys in the folder that the settings name. Not for several threads."""

    def __init__(self) -> None:
        self._seen: object = None
        self._found: Facts | str = ""

    def look(self, link: Link, now: float | None = None) -> Keys | None:
        """None without `[link] keys`."""
        if link.keys is None:
            return None
        now = CLOCK.wall() if now is None else now
        seen = (link, *(_stamp(link.keys / name) for name in (".", "node.pem", "ca.pem")))
        if seen != self._seen:
            self._seen, self._found = seen, _read(link.keys)
        facts = self._found
        if isinstance(facts, str):
            return Keys(warning=facts)
        warning = "revoked by the settings" if int(facts.serial, 16) in link.revoked else facts.warning(now)
        return Keys(facts.name, facts.serial, facts.valid_from, facts.expires, facts.fingerprint, warning)


def _stamp(path: Path) -> tuple[int, ...] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return (found.st_ino, found.st_mtime_ns, found.st_ctime_ns)


def _read(folder: Path) -> Facts | str:
    """The facts of the node's certificate, with the first expiry of its chain; a text: why the files cannot be used."""
    try:
        from rtmw.net.security.certificates import NODE
        from rtmw.net.security.identity import facts_of, read_node

        certificate, _ = read_node(folder)
        return facts_of(folder / NODE, certificate)
    except RtmwError as error:
        return str(error)
