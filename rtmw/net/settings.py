"""The settings of a node: NODE declares them (rtmw.settings), and docs/node.md has them as a table.

The tables [link], [transfer] and [[allow]] of the file are read by rtmw.net.security (tables.py). What services read of
the file is looked at, too, so that a mistake in it is said before they are started.
"""

from __future__ import annotations

import re
import socket
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rtmw.domain import LARGEST_ID
from rtmw.net.security.rules import NO_RULES, RuleTable
from rtmw.net.security.tables import NO_LINK, TABLES, Link, read_tables
from rtmw.observe.views import NODE_TOPIC
from rtmw.settings import Declaration, Setting, SettingsError, SettingsFile, values
from rtmw.shm import parse_group, parse_size
from rtmw.text.addresses import parts
from rtmw.text.patterns import is_among, is_meant, is_own
from rtmw.text.units import size

if TYPE_CHECKING:
    from rtmw.observe.node_status import Patterns

__all__ = ["NODE", "STATUS_TOPIC", "Settings", "SettingsError", "check_reload", "make_settings", "place_of"]

LOOPBACK: Final = "lo"
"""Topics of rtmw itself: they stay where they are."""
STATUS_TOPIC: Final = NODE_TOPIC
SERVICES: Final = ("transfer", "relay", "log")
"""The services that a node can host."""
OF_RELAY: Final = ("relay", "agent", "subject")
"""Tables that a relay reads."""
OF_LOGS: Final = ("log", "control")
"""Tables that replicated logs read."""
WITH_NODES: Final = "nodes"
WITH_PLAIN: Final = "plain programs"
"""With whom a topic crosses: `with` in the rows of that document. Nodes that know no partitions (dds/wire.py) are
plain programs here."""


def other_pool(pool: int, asked: int) -> tuple[str, str]:
    """What to say where a domain has another pool than a node was to make it with, and what to do."""
    found = f"it has {size(pool)}, and {size(asked)} is asked for"
    return (
        found,
        "a domain that exists keeps its own pool: end its programs, run `rtmw clean`, and start the node first",
    )


@dataclass(frozen=True)
class Settings:
    """The settings of a node. NODE declares each of them and its bounds."""

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
    dds_topics: tuple[str, ...] | None = None
    """None: all without keys, none with keys."""
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
    def pool_asked(self) -> int | None:
        """None: no pool is asked for, so that any is right."""
        return None if self.pool == Settings.pool else self.pool

    @property
    def wire_domain(self) -> int:
        """The DDS domain."""
        return self.domain if self.dds_domain is None else self.dds_domain

    @property
    def node_name(self) -> str:
        """By which other nodes, and addresses, mean this one."""
        return (
            self.name
            or re.sub(r"[^A-Za-z0-9_.-]", "-", socket.gethostname()).lstrip("-.")[: values.LONGEST_NAME]
            or "node"
        )

    @property
    def wire_interfaces(self) -> tuple[str, ...]:
        """The network interfaces by name; none: the one that leads to the peers, as the DDS library finds it."""
        named = self.interface or ("" if self.peers else LOOPBACK)
        return tuple(part.strip() for part in named.split(",") if part.strip())

    def leaves(self, topic: str) -> bool:
        """May it be carried to other hosts?"""
        return not is_own(topic) and is_among(topic, self.topics_out)

    @property
    def on_dds(self) -> tuple[str, ...]:
        """Patterns of topics that DDS may carry, and whose names everybody on the network may see."""
        if self.dds_topics is not None:
            return self.dds_topics
        return () if self.link.keys else ("*",)

    def is_on_dds(self, topic: str) -> bool:
        """May DDS carry it, as far as it leaves or enters? Else it crosses by link only."""
        return is_among(topic, self.on_dds)

    @property
    def patterns(self) -> Patterns:
        """Patterns of the topics that may leave, that may come in, and that DDS may carry."""
        from rtmw.observe.node_status import Patterns  # few that read settings tell of them

        return Patterns(self.topics_out, self.topics_in, self.on_dds)

    def rate_of(self, topic: str) -> int:
        """Bytes a second of a topic that may leave, beside what is left to all; 0: no limit."""
        return next((rate for pattern, rate in self.topic_rates if is_meant(topic, pattern)), 0)

    def enters(self, topic: str) -> bool:
        """May it be brought here from other hosts?"""
        return not is_own(topic) and is_among(topic, self.topics_in)


_DEFAULTS: Final = Settings()


def _peers(value: Any) -> tuple[str, ...]:
    found = values.texts(value)
    for peer in found:
        parts(peer)
    return found


def _interface(value: Any) -> str:
    names = [name for _, name in socket.if_nameindex()]
    for one in values.text(value).split(","):
        if one.strip() not in names:
            raise ValueError(f"there is no interface {one.strip()!r} on this machine; it has {', '.join(names)}")
    return str(value)


_domain: Final = values.number(LARGEST_ID, "domains")

# fmt: off
NODE: Final = Declaration(
    (
        Setting("domain", _domain, "N", "the domain of this host that is carried", "`RTMW_DOMAIN`, else 0"),
        Setting("pool", parse_size, "BYTES",
            'memory for messages, such as `"256M"`, if the node is the first in the domain', "64M"),
        Setting("group", parse_group, "GROUP",
            "Unix group whose users may attach to the domain, too, if the node is the first there "
            "([memory.md](memory.md#several-users))"),
        Setting("dds_domain", _domain, "N", "the DDS domain on which nodes and DDS programs meet", "the domain"),
        Setting("interface", _interface, "NAME",
            'network interface, by name; several with a comma between, `"eth0, eth1"`',
            "loopback; with `peers`, those by which the kernel reaches them: `info` says which"),
        Setting("peers", _peers, "HOST", "hosts to look for where multicast does not reach; multicast is off then",
            is_list=True, is_reloaded=True),
        Setting("topics_out", values.patterns, "PATTERN", "patterns of topics that may leave",
            "all", is_list=True, is_reloaded=True),
        Setting("topics_in", values.patterns, "PATTERN", "patterns of topics that may come in",
            "all", is_list=True, is_reloaded=True),
        Setting("dds_topics", values.patterns, "PATTERN",
            "patterns of topics that DDS carries, so that everybody on the network may see them; others cross by "
            "[links](links.md) only", "all; with `keys` none", is_list=True, is_reloaded=True),
        Setting("max_rate", values.rate, "BYTES", 'bytes a second that may leave, such as `"10M"`',
            "no limit", is_reloaded=True),
        Setting("topic_rates", values.rates("topic", "camera/*=2M"), "PATTERN=RATE",
            'the same of each topic that fits a pattern, such as `["camera/*=2M"]`; the first pattern that '
            "fits counts", "no limit", is_list=True, is_reloaded=True),
        Setting("peer_rates", values.rates("host", "10.0.0.7=2M"), "PATTERN=RATE",
            'the same towards each host whose address or name fits a pattern, such as `["10.0.0.7=2M"]`; the '
            "first pattern that fits counts", "no limit", is_list=True, is_reloaded=True),
        Setting("lease", values.seconds(0.1, 3600), "SECONDS", "seconds of silence after which a peer is gone", "10"),
        Setting("handover", values.seconds(0, 3600), "SECONDS",
            "seconds that RELIABLE topics wait for the next node when this one, or one that they are sent "
            "to, was stopped, at most 3600; 0: they do not", "5", is_reloaded=True),
        Setting("ros2", values.flag, "", "name topics and types as ROS 2 does: `rt/NAME`, `dds_::NAME_`", "false"),
        Setting("metrics_port", values.port, "PORT",
            "Prometheus (`/metrics`) and `/health`; 0: any free port, which the log and `info` name"),
        Setting("metrics_address", values.address, "ADDRESS",
            'where that listens; `"::"`: on all interfaces, without a password', "127.0.0.1"),
        Setting("serve", values.some_of(SERVICES, "service"), "SERVICE",
            "services that it hosts, each a process of its own: `transfer`, `relay`, `log`", is_list=True),
        Setting("data", values.folder, "FOLDER",
            "folder of what services keep; in a file, from the folder of that file on", "none; needed with `serve`"),
        Setting("name", values.name, "NAME", "of this node, in addresses such as `service@plant`",
            "the name of the host"),
    ),
    others=TABLES,
    of_services=(*OF_RELAY, *OF_LOGS),
)
# fmt: on

assert {*NODE.by_name, *NODE.others} == {field.name for field in fields(Settings)}


def place_of(path: Path, key: str, table: str = "") -> str:
    """Where a file that was read says something: `node.toml, line 3`; without the line where it does not say it."""
    return SettingsFile.read(path).place(key, table)


def _read_tables(file: SettingsFile) -> dict[str, Any]:
    """Reads the tables of a node's file as `read_tables` does. What services read is checked and not returned. Raises
    SettingsError, too."""
    found = read_tables(file)
    if "limits" in file.values.get("transfer", {}):
        from rtmw.transfer.limits import read_limits  # imports all of transfers, which few nodes need

        read_limits(file)
    serve = file.values.get("serve", ())
    if "relay" in serve:
        from rtmw.relay.settings import relay_of

        relay_of(file)
    if "log" in serve:
        from rtmw.replica.control.settings import log_of

        log_of(file)
    for service, what, tables in (("relay", "a relay", OF_RELAY), ("log", "replicated logs", OF_LOGS)):
        found_one = next((name for name in tables if name in file.values), None)
        if found_one is not None and service not in serve:
            raise SettingsError(
                f"{file.place(found_one)}: {found_one} is of {what}, and this node serves none; add serve = "
                f'["{service}"]'
            )
    return found


def make_settings(source: Path | SettingsFile | None, given: dict[str, Any], base: Settings = _DEFAULTS) -> Settings:
    """From a file, if there is one, and what was given on the command line. Raises SettingsError or RulesError."""
    made = NODE.read(base, source, given, _read_tables)
    path = source.path if isinstance(source, SettingsFile) else source
    if made.data is not None:
        base_folder = path.parent if path and given.get("data") is None else Path()
        made = replace(made, data=(base_folder / made.data).absolute())
    if made.serve and made.data is None:
        raise SettingsError(
            f"a node that serves {', '.join(made.serve)} needs a folder to keep things in; give data, as --data FOLDER"
        )
    if made.transfer.is_used and "transfer" not in made.serve:
        raise SettingsError(
            '[transfer] says where nodes meet for transfers, and this one serves none; add serve = ["transfer"]'
        )
    return made


_MEANT: Final = "put back what it had; if this is meant, say so under [link]: insecure = true"


def check_reload(file: SettingsFile, held: Settings, new: Settings) -> None:
    """Raises SettingsError if a reload would take protection away by accident, as when an editor leaves a file empty or
    halved for a moment. A file that has `insecure = true` under [link] says that it is meant."""
    if new == held or new.link.insecure:
        return
    if not file.values:
        raise SettingsError(f"{file.path}: it is empty; {_MEANT}")
    lost = _lost(held, new)
    if lost:
        raise SettingsError(f"{file.path}: it has no {' and no '.join(lost)} any more, which it had; {_MEANT}")


def _lost(held: Settings, new: Settings) -> list[str]:
    """The parts of settings that keep others out, and that the new ones do not have."""
    keys, sessions = held.link.keys, new.transfer
    parts = {
        "keys under [link]": keys and not new.link.keys,
        "[link] with connect or listen": held.link.is_used and not keys and not new.link.is_used,
        "keys under [transfer]": held.transfer.keys and sessions.is_used and not (sessions.keys or sessions.insecure),
        "[[allow]]": held.allow.rules and not new.allow.rules,
    }
    return [name for name, is_lost in parts.items() if is_lost]
