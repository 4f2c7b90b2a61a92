"""The tables of a node's settings file that are about other nodes: `[link]`, `[transfer]` and `[[allow]]`.

[link]
keys = "keys"                      # the folder of keys; from the folder of this file on
revoked = ["5f2a…"]                # serial numbers of certificates that are refused, as `keys show` has them
connect = ["hub.plant:7447"]       # nodes to have a link with
listen = "0.0.0.0:7447"            # where others may connect, or a list of such places; default: nowhere
insecure = true                    # without keys, also beyond this host: anybody may read, change and send. Beside
                                   # keys: nodes without keys are met, too
max_rate = "10M"                   # bytes a second that may leave over a link; default: by what the line takes
lease = 10.0                       # seconds that a link may be cut until the peer is gone
max_topics = 20000                 # topics that a peer may want, and as many that it may publish
max_types = 64                     # types that a peer may bring, of which no subscriber here asks for
max_publishers = 1024              # slots for publishers that a peer may take; default: half of the domain's
max_subscribers = 1024             # the same of subscribers
max_names = "32M"                  # bytes of all that a peer names: topics, types and what it wants of them
openssl = "/opt/ssl/libssl.so.3"   # whose OpenSSL has TLS; default: that of Python, else the system's
find = false                       # with keys: link with no node but by connect and listen; default: true

A place of [link] may also be a Unix socket of this host, "unix:/run/rtmw/a.sock", which needs no keys.

[transfer] has the same keys but openssl, find and those that begin with max_, for sessions between cores of transfers;
without keys and revoked, those of [link]. Its table [transfer.limits] is read by rtmw.transfer.limits.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final, cast

from rtmw.net.security import RulesError
from rtmw.net.security.rules import RuleTable, make_rule
from rtmw.settings import Declaration, Setting, SettingsFile, values
from rtmw.text.addresses import is_loopback, place_to_listen, place_to_reach, unix_path

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
    """Without keys, beyond this host, too. Beside keys: nodes without keys are met, too."""
    max_rate: int = 0
    """Bytes a second that may leave over all links of an interface; 0: as the line takes."""
    lease: float = 10.0
    """Seconds that a link may be cut until the peer is gone."""
    max_topics: int = 20_000
    """What a peer may take of this host: topics that it wants, and as many that it publishes."""
    max_types: int = 64
    """Types that it brings, and that no subscriber of this host asks for by name."""
    max_publishers: int = 0
    max_subscribers: int = 0
    """Slots of the domain; 0: half of those that there are."""
    max_names: int = 32 << 20
    """Bytes of all that it names."""
    openssl: str = ""
    """The libssl that has TLS: a path, or a name that the host's linker finds; "": that of Python, or the system's."""
    find: bool = True
    """Link with the nodes with keys that DDS discovery shows, too."""

    @property
    def is_used(self) -> bool:
        """May this node have links?"""
        return bool(self.connect or self.listen)

    @property
    def is_found(self) -> bool:
        """Do nodes with keys find this one by DDS discovery, and does it find them?"""
        return self.keys is not None and self.find

    @property
    def may_link(self) -> bool:
        """May this node have links with other nodes, whoever of the two begins?"""
        return self.is_used or self.keys is not None

    @property
    def meets_users(self) -> bool:
        """May it have links at Unix sockets?"""
        return any(unix_path(place) for place in (*self.connect, *self.listen))


NO_LINK: Final = Link()
"""A node without keys."""


def read_tables(file: SettingsFile, only: Collection[str] = TABLES) -> dict[str, Any]:
    """TABLES, as far as the file has them: a Link for each of the first two, and a RuleTable. All or nothing: raises
    RulesError, which names file and line, for the first mistake. `only`: names of those that are looked at."""
    found = dict[str, Any]()
    if "link" in file.values and "link" in only:
        found["link"] = link_of(file, LINK)[0]
    if "transfer" in file.values and "transfer" in only:
        found["transfer"] = link_of(file, TRANSFER, found.get("link", NO_LINK))[0]
    if "allow" in file.values and "allow" in only:
        found["allow"] = _rules(file)
    return found


def read_rules(path: Path) -> RuleTable:
    """The rules of a settings file; its other settings are not looked at. Raises RulesError."""
    return read_transfer(path)[1]


def read_transfer(path: Path) -> tuple[Link, RuleTable]:
    """`[transfer]` and the rules of a settings file; its other settings are not looked at. Raises RulesError."""
    found = read_tables(SettingsFile.read(path, RulesError))
    return found.get("transfer", NO_LINK), found.get("allow", RuleTable(source=str(path)))


def link_of(file: SettingsFile, declared: Declaration, base: Link = NO_LINK) -> tuple[Link, dict[str, Any]]:
    """The table of a declaration, and what it has beside the settings of a Link. `base`: whose keys it has, if it names
    none. Raises RulesError."""
    given = declared.of(file)
    checked: dict[str, Any] = {"keys": base.keys, "revoked": base.revoked} | given
    if "keys" in given:
        checked["keys"] = file.path.parent / given["keys"]
    others = {key: checked.pop(key) for key in checked.keys() - {one.name for one in fields(Link)}}
    link = Link(**checked)
    if link.keys is None and not link.insecure:
        _check_plain(link, lambda key: file.place(key, declared.table))
    return link, others


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


def _keys(value: Any) -> Path:
    if not isinstance(value, str) or not value:
        raise ValueError(f"it is {value!r}; it must be the name of a folder")
    return values.folder(value)


def _revoked(value: Any) -> frozenset[int]:
    if not isinstance(value, list | tuple):
        raise ValueError(f"it is {value!r}; it must be a list of serial numbers")
    return frozenset(_serial(one) for one in cast("list[Any]", value))


def _openssl(value: Any) -> str:
    if not isinstance(value, str) or not value or ("/" in value and not value.startswith("/")):
        raise ValueError(f"it is {value!r}; it must be the path of a libssl from / on, such as '/opt/ssl/libssl.so.3'")
    return value


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


def _connect(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        raise ValueError(f"it is {value!r}; it must be a list of HOST:PORT, such as ['hub.plant:7447']")
    return _places(value, place_to_reach, "HOST:PORT, such as ['hub.plant:7447']")


def _listen(value: Any) -> tuple[str, ...]:
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


def _over_tcp(check: Callable[[Any], tuple[str, ...]]) -> Callable[[Any], tuple[str, ...]]:
    """Makes a check that also refuses Unix sockets."""

    def checked(value: Any) -> tuple[str, ...]:
        found = check(value)
        if any(map(unix_path, found)):
            raise ValueError("transfers cross over TCP; Unix sockets are for [link]")
        return found

    return checked


KEYS: Final = (Setting("keys", _keys, "FOLDER"), Setting("revoked", _revoked, "SERIAL"))
_INSECURE: Final = Setting("insecure", values.flag, "")
PEERS: Final = (
    *KEYS,
    Setting("connect", _connect, "HOST:PORT"),
    Setting("listen", _listen, "ADDRESS:PORT"),
    _INSECURE,
)
"""The settings of a service that meets its peers over sessions, at Unix sockets, too."""
_LEASE: Final = Setting("lease", values.seconds(0.1, 3600), "SECONDS")
LINK: Final = Declaration(
    (
        *PEERS,
        Setting("max_rate", values.rate, "BYTES"),
        _LEASE,
        Setting("openssl", _openssl, "FILE"),
        Setting("find", values.flag, ""),
        *(Setting(f"max_{what}", values.count, "NUMBER") for what in ("topics", "types", "publishers", "subscribers")),
        Setting("max_names", values.size, "BYTES"),
    ),
    "link",
    error=RulesError,
)
TRANSFER: Final = Declaration(
    (
        *KEYS,
        Setting("connect", _over_tcp(_connect), "HOST:PORT"),
        Setting("listen", _over_tcp(_listen), "ADDRESS:PORT"),
        _INSECURE,
        _LEASE,
    ),
    "transfer",
    others=("limits",),
    error=RulesError,
)


def _rules(file: SettingsFile) -> RuleTable:
    rules = [
        make_rule(entry, lambda key, at=at: file.at(file.lines.key(at, key)), file.at(at))  # type: ignore[misc]
        for entry, at in file.entries("allow", "rules", RulesError)
    ]
    return RuleTable(tuple(rules), str(file.path))
