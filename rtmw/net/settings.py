"""What a node is told: on the command line, in a TOML file, or both; the command line wins.

domain = 0
pool = "256M"             # of the domain, if the node is the first there; default: 64M
group = "plant"           # whose users may attach to it, too, if the node is the first there; default: none
dds_domain = 0            # default: the domain
interface = "eth0"        # or several, "eth0, eth1"; default: loopback, which reaches this host only
peers = ["10.0.0.7"]      # hosts to look for where multicast does not reach
topics_out = ["river/*"]  # patterns of topics that leave; default: all
topics_in = ["*"]         # patterns of topics that may come in; default: all
max_rate = "10M"          # bytes a second that may leave; default: no limit
topic_rates = ["camera/*=2M"]  # the same, of each topic that fits a pattern; the first that fits counts
peer_rates = ["10.0.0.7=2M"]   # the same, towards each host whose address or name fits a pattern
lease = 10.0              # seconds of silence after which a peer is gone
handover = 5.0            # seconds that RELIABLE topics wait for the next node when this one was stopped; 0: not
ros2 = false              # name topics and types as ROS 2 does
metrics_port = 9464       # Prometheus; default: none
metrics_address = "::"    # where it listens; default: 127.0.0.1, this host only
serve = ["transfer"]      # services that it hosts; default: none
data = "/var/lib/rtmw"    # folder of what services keep; needed where it serves
name = "plant"            # of this node, in addresses such as service@plant; default: the name of the host

The tables [link], [transfer] and [[allow]] of the file are read by rtmw.net.security (tables.py).
"""

from __future__ import annotations

import os
import re
import socket
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final, cast

from rtmw.addresses import parts
from rtmw.domain import LARGEST_ID
from rtmw.errors import RtmwError
from rtmw.net.security.rules import NO_RULES, RuleTable
from rtmw.net.security.tables import NO_LINK, TABLES, Link, take_tables
from rtmw.patterns import OWN_PREFIX, is_among, is_meant, is_own
from rtmw.shm import parse_group, parse_size
from rtmw.units import seconds_of, some_bytes

LOOPBACK: Final = "lo"
"""Topics of rtmw itself: they stay where they are."""
STATUS_TOPIC: Final = OWN_PREFIX + "node"
"""Where a node says once a second how it is: JSON, kept for late subscribers."""
SERVICES: Final = ("transfer",)
"""What a node can host."""
LONGEST_NAME: Final = 64
WITH_NODES: Final = "nodes"
WITH_PLAIN: Final = "plain programs"
"""With whom a topic crosses: `with` in the rows of that document. Nodes that know no partitions (partitions.py) are
plain programs here."""


class SettingsError(RtmwError):
    """A setting is not one, or its value cannot be; the message names the file, the line and the key."""


@dataclass(frozen=True)
class Settings:
    """See the head of this file."""

    domain: int = 0
    pool: int = 64 << 20
    """Bytes; a domain that exists keeps its own."""
    group: int | None = None
    """Whose users may attach to it, too; a domain that exists keeps its own."""
    dds_domain: int | None = None
    interface: str | None = None
    peers: tuple[str, ...] = ()
    topics_out: tuple[str, ...] = ("*",)
    topics_in: tuple[str, ...] = ("*",)
    max_rate: int = 0
    """Bytes a second; 0: no limit."""
    topic_rates: tuple[tuple[str, int], ...] = ()
    """Patterns of topics, and bytes a second of each topic that fits."""
    peer_rates: tuple[tuple[str, int], ...] = ()
    """Patterns of addresses and names of hosts, and bytes a second towards each host that fits."""
    lease: float = 10.0
    handover: float = 5.0
    ros2: bool = False
    metrics_port: int | None = None
    metrics_address: str = "127.0.0.1"
    serve: tuple[str, ...] = ()
    """Services that it hosts."""
    data: Path | None = None
    """The folder of what they keep."""
    name: str | None = None
    link: Link = NO_LINK
    transfer: Link = NO_LINK
    """Sessions of the service of this name."""
    allow: RuleTable = NO_RULES

    @property
    def wire_domain(self) -> int:
        """The DDS domain."""
        return self.domain if self.dds_domain is None else self.dds_domain

    @property
    def node_name(self) -> str:
        """By which other nodes, and addresses, mean this one."""
        return self.name or re.sub(r"[^A-Za-z0-9_.-]", "-", socket.gethostname()).lstrip("-.")[:LONGEST_NAME] or "node"

    @property
    def wire_interfaces(self) -> tuple[str, ...]:
        """The network interfaces by name; none: the one that leads to the peers, as the DDS library finds it."""
        named = self.interface or ("" if self.peers else LOOPBACK)
        return tuple(part.strip() for part in named.split(",") if part.strip())

    def leaves(self, topic: str) -> bool:
        """May it be carried to other hosts?"""
        return not is_own(topic) and is_among(topic, self.topics_out)

    def rate_of(self, topic: str) -> int:
        """Bytes a second of a topic that may leave, beside what is left to all; 0: no limit."""
        return next((rate for pattern, rate in self.topic_rates if is_meant(topic, pattern)), 0)

    def enters(self, topic: str) -> bool:
        """May it be brought here from other hosts?"""
        return not is_own(topic) and is_among(topic, self.topics_in)


_DEFAULTS: Final = Settings()


def _domain(value: Any) -> int:
    if type(value) is not int or not 0 <= value <= LARGEST_ID:
        raise ValueError(f"it is {value!r}; domains have numbers from 0 to {LARGEST_ID}")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(f"it is {value!r}; it must be a text")
    return value


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list | tuple):
        raise ValueError(f"it is {value!r}; it must be a list of texts")
    items = cast("list[Any]", value)
    return tuple(_text(item) for item in items)


def _peers(value: Any) -> tuple[str, ...]:
    found = _texts(value)
    for peer in found:
        parts(peer)
    return found


def _interface(value: Any) -> str:
    names = [name for _, name in socket.if_nameindex()]
    for one in _text(value).split(","):
        if one.strip() not in names:
            raise ValueError(f"there is no interface {one.strip()!r} on this machine; it has {', '.join(names)}")
    return str(value)


def parse_rate(value: Any) -> int:
    """Bytes a second from a number, or from a text such as `10M`. Raises ValueError."""
    try:
        return some_bytes(value)
    except ValueError:
        raise ValueError(f"it is {value!r}; it must be bytes a second, such as 500000, '500K' or '10M'") from None


def _rates(value: Any, of: str, example: str) -> tuple[tuple[str, int], ...]:
    found = list[tuple[str, int]]()
    for text in _texts(value):
        pattern, _, rate = text.rpartition("=")
        if not pattern:
            raise ValueError(f"{text!r} is no rate of a {of}; it must be PATTERN=RATE, such as '{example}'")
        found.append((pattern, parse_rate(rate)))
    return tuple(found)


def _topic_rates(value: Any) -> tuple[tuple[str, int], ...]:
    return _rates(value, "topic", "camera/*=2M")


def _peer_rates(value: Any) -> tuple[tuple[str, int], ...]:
    return _rates(value, "host", "10.0.0.7=2M")


def _seconds(value: Any) -> float:
    seconds = seconds_of(value)
    if not 0.1 <= seconds <= 3600:
        raise ValueError(f"it is {value!r}; it must be from 0.1 to 3600 seconds")
    return seconds


def _wait(value: Any) -> float:
    seconds = seconds_of(value)
    if not 0 <= seconds <= 3600:
        raise ValueError(f"it is {value!r}; it must be from 0 to 3600 seconds")
    return seconds


def _flag(value: Any) -> bool:
    if type(value) is not bool:
        raise ValueError(f"it is {value!r}; it must be true or false")
    return value


def _address(value: Any) -> str:
    try:
        return str(ip_address(_text(value)))
    except ValueError:
        raise ValueError(f"it is {value!r}; it must be an address of this host, such as 127.0.0.1 or ::") from None


def _port(value: Any) -> int:
    if type(value) is not int or not 0 <= value <= 65535:
        raise ValueError(f"it is {value!r}; ports have numbers from 0 to 65535 (0: any that is free)")
    return value


def _services(value: Any) -> tuple[str, ...]:
    found = _texts(value)
    for one in found:
        if one not in SERVICES:
            raise ValueError(f"there is no service {one!r}; there are {', '.join(SERVICES)}")
    return found


def _folder(value: Any) -> Path:
    return Path(_text(value)).absolute()


def _name(value: Any) -> str:
    if not re.fullmatch(rf"[A-Za-z0-9_][A-Za-z0-9_.-]{{0,{LONGEST_NAME - 1}}}", _text(value)):
        raise ValueError(f"it is {value!r}; it must have 1 to {LONGEST_NAME} letters, digits, '_', '-' and '.'")
    return str(value)


_CHECKS: Final[dict[str, Callable[[Any], Any]]] = {
    "domain": _domain,
    "pool": parse_size,
    "group": parse_group,
    "dds_domain": _domain,
    "interface": _interface,
    "peers": _peers,
    "topics_out": _texts,
    "topics_in": _texts,
    "max_rate": parse_rate,
    "topic_rates": _topic_rates,
    "peer_rates": _peer_rates,
    "lease": _seconds,
    "handover": _wait,
    "ros2": _flag,
    "metrics_port": _port,
    "metrics_address": _address,
    "serve": _services,
    "data": _folder,
    "name": _name,
}


def check(values: dict[str, Any], place: Callable[[str], str]) -> dict[str, Any]:
    """The values as Settings takes them; `place` says where a key was given. Raises SettingsError."""
    checked: dict[str, Any] = {}
    for key, value in values.items():
        if key not in _CHECKS:
            if isinstance(value, dict):
                raise SettingsError(f"{place(key)}: [{key}] is a table; settings stand at the top of the file, in none")
            raise SettingsError(f"{place(key)}: there is no setting {key}; there are {', '.join(_CHECKS)}")
        try:
            checked[key] = _CHECKS[key](value)
        except ValueError as error:
            raise SettingsError(f"{place(key)}: {key} cannot be used: {error}") from None
    return checked


def read_file(path: Path) -> dict[str, Any]:
    """The settings of a TOML file, checked. Raises SettingsError or RulesError, which name file, line and key."""
    try:
        text = path.read_text(encoding="utf-8")
        values = tomllib.loads(text)
    except OSError as error:
        raise SettingsError(f"{path}: {os.strerror(error.errno or 0)}") from error
    except ValueError as error:
        raise SettingsError(f"{path}: not TOML: {error}") from error
    tables = take_tables(path, text, values)
    return {**check(values, lambda key: _place(path, text, key)), **tables}


def place_of(path: Path, key: str) -> str:
    """Where a file that was read says something: `node.toml, line 3`; without the line where it does not say it."""
    return _place(path, path.read_text(encoding="utf-8"), key)


def _place(path: Path, text: str, key: str) -> str:
    names_key = re.compile(rf"\s*\[?\s*[\"']?{re.escape(key)}[\"']?\s*[=.\]]")
    number = next((n for n, line in enumerate(text.splitlines(), 1) if names_key.match(line)), None)
    return f"{path}, line {number}" if number else str(path)


def make_settings(path: Path | None, given: dict[str, Any], base: Settings = _DEFAULTS) -> Settings:
    """From a file, if there is one, and what was given on the command line. Raises SettingsError or RulesError."""
    settings = replace(base, **read_file(path)) if path else base
    named = {key: value for key, value in given.items() if value is not None}
    made = replace(settings, **check(named, lambda key: f"--{key.replace('_', '-')}"))
    if made.serve and made.data is None:
        raise SettingsError(
            f"a node that serves {', '.join(made.serve)} needs a folder to keep things in; give data, as --data FOLDER"
        )
    if made.transfer.is_used and "transfer" not in made.serve:
        raise SettingsError(
            '[transfer] says where nodes meet for transfers, and this one serves none; add serve = ["transfer"]'
        )
    return made


GIVEN: Final = tuple(_CHECKS)
"""Settings by their names on the command line and at the top of a file; the others are tables."""

assert {*GIVEN, *TABLES} == {field.name for field in fields(Settings)}
