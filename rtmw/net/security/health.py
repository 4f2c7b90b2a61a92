"""How the keys of a node are, for its status, its metrics and its doctor; files are read again when they change."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from rtmw.clock import CLOCK
from rtmw.errors import RtmwError
from rtmw.net.security.tables import Link


class KeysHealth:
    """The health of the keys in the folder that the settings name. Not for several threads."""

    def __init__(self) -> None:
        self._seen: object = None
        self._row: dict[str, Any] = {}

    def row(self, link: Link, now: float | None = None) -> dict[str, Any] | None:
        """None without `[link] keys`; else `warning`, None where all is well, and, if the files can be used, the
        facts of the node's certificate with the first expiry of its chain."""
        if link.keys is None:
            return None
        now = CLOCK.wall() if now is None else now
        seen = (link, *(_stamp(link.keys / name) for name in (".", "node.pem", "ca.pem")))
        if seen != self._seen:
            self._seen, self._row = seen, _read(link.keys)
        if "expires" not in self._row:
            return self._row
        from rtmw.net.security.certificates import Facts

        facts = Facts(**self._row)
        is_revoked = int(facts.serial, 16) in link.revoked
        return {**self._row, "warning": "revoked by the settings" if is_revoked else facts.warning(now)}


def _stamp(path: Path) -> tuple[int, ...] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return (found.st_ino, found.st_mtime_ns, found.st_ctime_ns)


def _read(folder: Path) -> dict[str, Any]:
    try:
        from rtmw.net.security.certificates import NODE
        from rtmw.net.security.identity import facts_of, read_node

        certificate, _ = read_node(folder)
        return vars(facts_of(folder / NODE, certificate)).copy()
    except RtmwError as error:
        return {"warning": str(error)}
