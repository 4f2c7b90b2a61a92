"""The settings of a node that serves replicated logs: `[log]` and `[control]`; `[[allow]]` is read with them."""

from __future__ import annotations

import asyncio
import os
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from rtmw.net.security.rules import RuleTable
from rtmw.net.security.tables import NO_LINK, PEERS, Link, link_of, read_tables
from rtmw.replica.control.etcd import EtcdStore
from rtmw.replica.control.sqlite import SqliteStore
from rtmw.replica.control.store import Store
from rtmw.settings import Declaration, Setting, SettingsError, SettingsFile, values
from rtmw.text.addresses import is_loopback

SQLITE: Final = "sqlite:"
_TIMES: Final = values.seconds(0.01, 3600)


@dataclass(frozen=True)
class Control:
    """`[control]`."""

    store: Path | tuple[str, ...]
    """A SQLite file, or endpoints of etcd."""
    ca: Path | None = None
    cert: Path | None = None
    key: Path | None = None

    def open(self) -> Store:
        """Raises OSError, which names the file: one of the certificates cannot be read."""
        if isinstance(self.store, Path):
            return SqliteStore(self.store)
        return EtcdStore(self.store, self._tls())

    def tried(self) -> tuple[str, str]:
        """What the store is, and why it does not answer; a file that the first log makes is not made. Raises OSError as
        `open`."""
        if isinstance(self.store, Path) and not self.store.exists():
            folder = self.store.parent
            fault = "" if os.access(folder, os.W_OK | os.X_OK) else f"this user cannot make a file in {folder}"
            return f"{self.store}, made with the first log", fault
        store = self.open()
        try:
            asyncio.run(store.read("tried"))
            return store.where, store.fault.removeprefix(f"{store.where}: ")
        finally:
            store.close()

    def _tls(self) -> ssl.SSLContext:
        made = ssl.create_default_context(cafile=self.ca)
        if self.cert is not None:
            made.load_cert_chain(self.cert, self.key)
        return made


@dataclass(frozen=True)
class LogSettings:
    """`[log]`, and what is read with it. Times in seconds; those and `min_insync` hold for a log that names no own."""

    link: Link
    rules: RuleTable
    control: Control
    min_insync: int = 2
    sync_timeout: float = 0.5
    lag: float = 2.0
    suspect: float = 1.0


def _store(value: Any) -> str | tuple[str, ...]:
    if isinstance(value, str) and value.startswith(SQLITE):
        if value == SQLITE:
            raise ValueError(f"it is {value!r}; the name of a file is missing, as in 'sqlite:control.db'")
        return value
    try:
        found = values.texts([value] if isinstance(value, str) else value)
        urls = [urlsplit(one) for one in found]
        is_right = all(url.hostname and url.port for url in urls)
    except ValueError:
        found, urls, is_right = (), [], False
    if not is_right or {url.scheme for url in urls} not in ({"http"}, {"https"}):
        raise ValueError(
            f"it is {value!r}; it must be a file, such as 'sqlite:control.db', or a list of endpoints of etcd, such as "
            "['https://a:2379', 'https://b:2379'], all http or all https"
        )
    return found


LOG: Final = Declaration(
    (
        *PEERS,
        Setting("min_insync", values.count, "NUMBER", "members that keep each record, at least", "2"),
        Setting("sync_timeout", _TIMES, "SECONDS", "how long a record waits for a member before it is cached", "0.5s"),
        Setting("lag", _TIMES, "SECONDS", "a member that is so far behind leaves the in-sync set", "2s"),
        Setting("suspect", _TIMES, "SECONDS", "silence after which a master is replaced", "1s"),
    ),
    "log",
)
CONTROL: Final = Declaration(
    (
        Setting("store", _store, "STORE", "`sqlite:FILE` for nodes of one host, or a list of endpoints of etcd"),
        Setting("ca", values.folder, "FILE", "who signs the certificates of etcd", "the authorities of the host"),
        Setting("cert", values.folder, "FILE", "certificate of this node, for etcd"),
        Setting("key", values.folder, "FILE", "its key"),
    ),
    "control",
)


def read_log(path: Path) -> LogSettings:
    """The service of logs of a settings file; other tables are not looked at. All or nothing: raises SettingsError or
    RulesError, with file and line."""
    return log_of(SettingsFile.read(path))


def log_of(file: SettingsFile) -> LogSettings:
    """Reads the service of logs from a settings file that is open already. Raises as `read_log` does."""
    tables = read_tables(file, only=("link", "allow"))
    link, others = link_of(file, LOG, tables.get("link", NO_LINK))
    control = _control(file, may_be_plain=link.insecure)
    return LogSettings(link, tables.get("allow", RuleTable(source=str(file.path))), control, **others)


def _control(file: SettingsFile, *, may_be_plain: bool) -> Control:
    checked = CONTROL.of(file)
    if "store" not in checked:
        raise SettingsError(
            f"{file.place('control')}: a node that serves logs needs [control] with a store, such as "
            'store = "sqlite:control.db"'
        )
    paths = {name: file.path.parent / checked[name] for name in ("ca", "cert", "key") if name in checked}
    store, place = checked["store"], file.place("store", "control")
    if isinstance(store, str):
        store = (file.path.parent / store.removeprefix(SQLITE)).absolute()
    elif store[0].startswith("http:") and not may_be_plain:
        _check_loopback(store, place)
    if paths and (isinstance(store, Path) or store[0].startswith("http:")):
        name = next(iter(paths))
        raise SettingsError(
            f"{file.place(name, 'control')}: {name} is for https, and store is {file.values['control']['store']!r}"
        )
    if ("cert" in paths) != ("key" in paths):
        raise SettingsError(f"{file.place('cert', 'control')}: cert and key go together; one of them is missing")
    made = Control(store, **paths)
    try:
        made.open().close()
    except OSError as error:  # also SSLError
        raise SettingsError(
            f"{file.place(next(iter(paths), 'store'), 'control')}: certificates for etcd cannot be used: "
            f"{', '.join(map(str, paths.values()))}: {error.strerror or error}"
        ) from None
    return made


def _check_loopback(endpoints: tuple[str, ...], place: str) -> None:
    for one in endpoints:
        if not is_loopback(urlsplit(one).hostname or ""):
            raise SettingsError(
                f"{place}: {one} is not on loopback, and by http anybody on the way could say who is master of a log: "
                "give etcd certificates and use https, or say insecure = true under [log]"
            )
