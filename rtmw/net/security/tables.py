"""The tables of a node's settings file that are about other nodes: `[link]`, `[transfer]` and `[[allow]]`.

[link]
keys = "keys"                      # the folder of keys; from the folder of this file on
revoked = ["5f2a…"]                # serial numbers of certificates that are refused, as `keys show` has them
connect = ["hub.plant:7447"]       # nodes to have a link with
listen = "0.0.0.0:7447"            # where others may connect, or a list of such places; default: nowhere
insecure = true                    # without keys, also beyond this host: anybody may read, change and send
max_rate = "10M"                   # bytes a second that may leave over a link; default: by what the line takes
lease = 10.0                       # seconds that a link may be cut until the peer is gone

A place of [link] may also be a Unix socket of this host, "unix:/run/rtmw/a.sock", which needs no keys.

[transfer] has the same keys but max_rate, for sessions between cores of transfers; without keys and revoked, those of
[link].
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from rtmw.addresses import is_loopback, place_to_listen, place_to_reach, unix_path
from rtmw.net.security.errors import RulesError
from rtmw.net.security.rules import RuleTable, make_rule
from rtmw.net.security.toml_lines import TomlLines
from rtmw.units import seconds_of, some_bytes

TABLES: Final = ("link", "transfer", "allow")


@dataclass(frozen=True)
class Link:
    """`[link]`, or `[transfer]`."""

    keys: Path | None = None
    """The folder of keys; None: this node has none."""
    revoked: frozenset[int] = frozenset()
    """Serial numbers."""
    connect: tuple[str, ...] = ()
    """Nodes to have a link with: HOST:PORT, or unix:PATH."""
    listen: tuple[str, ...] = ()
    """Where others may connect: ADDRESS:PORT, or unix:PATH."""
    insecure: bool = False
    """Without keys, beyond this host, too."""
    max_rate: int = 0
    """Bytes a second that may leave over one link; 0: as the line takes."""
    lease: float = 10.0
    """Seconds that a link may be cut until the peer is gone."""

    @property
    def is_used(self) -> bool:
        """May this node have links?"""
        return bool(self.connect or self.listen)

    @property
    def meets_users(self) -> bool:
        """May it have links at Unix sockets?"""
        return any(unix_path(place) for place in (*self.connect, *self.listen))


NO_LINK: Final = Link()
"""A node without keys."""


def take_tables(path: Path, text: str, values: dict[str, Any]) -> dict[str, Any]:
    """Take TABLES out of what `text` of the file `path` says: a Link for each of the first two and a RuleTable, as far
    as they are there. All or nothing: raises RulesError, which names file and line, for the first mistake."""
    lines, found = TomlLines(text), dict[str, Any]()
    if "link" in values:
        found["link"] = _link(path, lines, "link", values.pop("link"))
    if "transfer" in values:
        found["transfer"] = _link(path, lines, "transfer", values.pop("transfer"), found.get("link", NO_LINK))
    if "allow" in values:
        found["allow"] = _rules(path, lines, values.pop("allow"))
    return found


def read_rules(path: Path) -> RuleTable:
    """The rules of a settings file; its other settings are not looked at. Raises RulesError."""
    return read_transfer(path)[1]


def read_transfer(path: Path) -> tuple[Link, RuleTable]:
    """`[transfer]` and the rules of a settings file; its other settings are not looked at. Raises RulesError."""
    text, values = _read(path)
    taken = take_tables(path, text, values)
    return taken.get("transfer", NO_LINK), taken.get("allow", RuleTable(source=str(path)))


def _read(path: Path) -> tuple[str, dict[str, Any]]:
    try:
        text = path.read_text(encoding="utf-8")
        return text, tomllib.loads(text)
    except OSError as error:
        raise RulesError(f"{path}: {os.strerror(error.errno or 0)}") from error
    except ValueError as error:
        raise RulesError(f"{path}: not TOML: {error}") from error


def _link(path: Path, lines: TomlLines, name: str, table: Any, base: Link = NO_LINK) -> Link:
    """`base`: whose keys it has, if it names none."""
    at = (lines.headers(name) or [0])[0]
    if not isinstance(table, dict):
        raise RulesError(f"{_place(path, lines.key(0, name))}: {name} must be a table, [{name}]")
    known = [key for key in _LINK if name == "link" or key != "max_rate"]
    checked: dict[str, Any] = {"keys": base.keys, "revoked": base.revoked}
    for key, value in cast("dict[str, Any]", table).items():
        place = _place(path, lines.key(at, key))
        if key not in known:
            raise RulesError(f"{place}: [{name}] has no {key}; there are {', '.join(known)}")
        try:
            checked[key] = _LINK[key](path, value)
        except ValueError as error:
            raise RulesError(f"{place}: {key} cannot be used: {error}") from None
        if name == "transfer" and key in ("connect", "listen") and any(map(unix_path, checked[key])):
            raise RulesError(f"{place}: {key}: transfers cross over TCP; Unix sockets are for [link]")
    link = Link(**checked)
    if link.keys is None and not link.insecure:
        _check_plain(link, lambda key: _place(path, lines.key(at, key)))
    return link


def _check_plain(link: Link, place: Callable[[str], str]) -> None:
    """Without keys, links stay on loopback. Raises RulesError."""
    hosts = [("connect", one, place_to_reach(one)[0]) for one in link.connect if not unix_path(one)]
    hosts += [("listen", one, place_to_listen(one)[0]) for one in link.listen if not unix_path(one)]
    for key, where, host in hosts:
        if not is_loopback(host):
            raise RulesError(
                f"{place(key)}: {key}: {where} is not on loopback, and without keys anybody on the way could read and "
                'change what is sent: make keys (rtmw node keys) and name them, keys = "keys"; or say insecure = true'
            )


def _keys(path: Path, value: Any) -> Path:
    if not isinstance(value, str) or not value:
        raise ValueError(f"it is {value!r}; it must be the name of a folder")
    return path.parent / value


def _revoked(_path: Path, value: Any) -> frozenset[int]:
    if not isinstance(value, list | tuple):
        raise ValueError(f"it is {value!r}; it must be a list of serial numbers")
    return frozenset(_serial(one) for one in cast("list[Any]", value))


def _serial(value: Any) -> int:
    try:
        if not isinstance(value, str):
            raise ValueError
        number = int(value.replace(":", ""), 16)
    except ValueError:
        number = 0
    if number <= 0:
        raise ValueError(f"{value!r} is no serial number; write it as text, as rtmw node keys show has it")
    return number


def _connect(_path: Path, value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        raise ValueError(f"it is {value!r}; it must be a list of HOST:PORT, such as ['hub.plant:7447']")
    return _places(value, place_to_reach, "HOST:PORT, such as ['hub.plant:7447']")


def _listen(_path: Path, value: Any) -> tuple[str, ...]:
    given = [value] if isinstance(value, str) else value
    return _places(given, place_to_listen, "ADDRESS:PORT of this host, such as '0.0.0.0:7447'")


def _places(value: Any, check: Callable[[str], object], what: str) -> tuple[str, ...]:
    found = cast("list[Any]", value) if isinstance(value, list | tuple) else [None]
    if not all(isinstance(one, str) for one in found):
        raise ValueError(f"it is {value!r}; it must be a list of {what}")
    for one in map(str, found):
        if unix_path(one) is None:  # raises
            check(one)
    return tuple(dict.fromkeys(map(str, found)))


def _insecure(_path: Path, value: Any) -> bool:
    if type(value) is not bool:
        raise ValueError(f"it is {value!r}; it must be true or false")
    return value


def _rate(_path: Path, value: Any) -> int:
    try:
        return some_bytes(value)
    except ValueError:
        raise ValueError(f"it is {value!r}; it must be bytes a second, such as 500000, '500K' or '10M'") from None


def _lease(_path: Path, value: Any) -> float:
    seconds = seconds_of(value)
    if not 0.1 <= seconds <= 3600:
        raise ValueError(f"it is {value!r}; it must be from 0.1 to 3600 seconds")
    return seconds


_LINK: Final[dict[str, Callable[[Path, Any], Any]]] = {
    "keys": _keys,
    "revoked": _revoked,
    "connect": _connect,
    "listen": _listen,
    "insecure": _insecure,
    "max_rate": _rate,
    "lease": _lease,
}


def _rules(path: Path, lines: TomlLines, tables: Any) -> RuleTable:
    headers = lines.headers("allow")
    entries = cast("list[Any]", tables) if isinstance(tables, list | tuple) else [None]
    if not all(isinstance(one, dict) for one in entries):
        at = headers[0] if headers else lines.key(0, "allow")
        raise RulesError(f"{_place(path, at)}: rules are [[allow]], in two brackets: there may be many")
    if len(headers) != len(entries):
        headers = [lines.key(0, "allow")] * len(entries)  # as a list of tables in one line
    rules = [
        make_rule(entry, lambda key, at=at: _place(path, lines.key(at, key)), _place(path, at))  # type: ignore[misc]
        for entry, at in zip(entries, headers, strict=True)
    ]
    return RuleTable(tuple(rules), str(path))


def _place(path: Path, line: int) -> str:
    return f"{path}, line {line}" if line else str(path)
