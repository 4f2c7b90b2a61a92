"""The settings of a relay: `[relay]`, `[[agent]]` and `[[subject]]` of a node's file; `[[allow]]` is read with them.

An agent has a name, by which rules and people mean it, and the four bytes of its address in frames. A subject is an
address that no agent has: a group is a list of agents, and any other subject goes to whoever is subscribed to it.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final

from rtmw.net.security.names import AGENT as AGENT_PEER
from rtmw.net.security.names import parse_name
from rtmw.net.security.rules import NO_RULES, RuleTable
from rtmw.net.security.tables import KEYS, NO_LINK, read_tables
from rtmw.relay.frame import END, FORM, HEAD, LETTER, N1_MOST, SUMS, Form, FrameError, address_of, readable
from rtmw.settings import Declaration, Setting, SettingsError, SettingsFile, values
from rtmw.text.addresses import UNIX, is_loopback, place_to_listen, place_to_reach

__all__ = ["AGENT", "RELAY", "SUBJECT", "Agent", "Relay", "Subject", "read_relay", "relay_of"]

OWN_NAME: Final = "relay"
"""The source of orders that a relay makes itself."""
ABSENT: Final = ("alert", "keep")
ON_FAILURE: Final = ("next", "hold")
IDS: Final = ("content", "stamp")
TLS_BEGINS: Final = 22
"""The first byte of a TLS handshake."""
_YEARS: Final = 100 * 365 * 86400.0
_WINDOW_MOST: Final = 65536
_LONGEST_LEAST: Final = HEAD + 64
_COMMAND: Final = re.compile(rf"{LETTER}|0x[0-9a-f]{{2}}|.*[*?\[{{].*")
"""The command of a rule: one, or a pattern."""


@dataclass(frozen=True)
class Agent:
    """`[[agent]]`: a program that sends and takes orders."""

    name: str
    address: bytes
    """Four bytes of frames."""
    origin: str = ""
    """The address of the host that its connections come from."""
    uid: int | None = None
    """Its user, at a Unix socket."""
    peer: str = ""
    """Its name in its certificate, `rtmw://SITE/NODE`: over TCP it is known by that alone."""
    dial: str = ""
    """Where the server connects to it: HOST:PORT."""
    absent: str = "alert"
    """One of ABSENT: `alert` its sender after T2 and N2, or `keep` orders for it for their lifetime."""
    on_failure: str = "next"
    """One of ON_FAILURE: behind an order that failed, its stream goes on (`next`) or stops (`hold`)."""
    id: str = "content"
    """One of IDS. `content`: two of its frames are one order if source, stamp and content are the same. `stamp`: source
    and stamp alone say which order a frame is."""
    window: int = 64
    """Streams to it with an order that is not answered."""
    charset: str = "utf-8"
    """The charset of its bodies, by which people read them."""
    checksum: str = "A"
    """The form of the checksum of frames to it, until a frame from it shows its own form."""
    follows: tuple[str, ...] = ()
    """Subjects that it is subscribed to without asking."""
    notices: bool = False
    """It is told that its orders are kept, by an alert."""
    place: str = field(default="", compare=False)
    """File and line."""


@dataclass(frozen=True)
class Subject:
    """`[[subject]]`: an address that stands for several agents."""

    name: str
    address: bytes
    group: tuple[str, ...] = ()
    """Names of agents; none: whoever follows it."""
    place: str = field(default="", compare=False)


@dataclass(frozen=True)
class Relay:
    """`[relay]`, with the agents, subjects and rules. Times in seconds."""

    listen: tuple[str, ...] = ("127.0.0.1:7460",)
    t1: float = 10.0
    """Seconds after which an agent sends an order again that was not answered."""
    n1: int = 3
    """How often an agent sends an order again, at most."""
    t2: float = 5.0
    """Seconds after which the server sends an order again that its recipient has not answered."""
    n2: int = 3
    keep: float = 400 * 86400.0
    """Rows of the record are kept for so long at least."""
    address: bytes = b"RLAY"
    """Its own, of orders that it makes itself."""
    seal_to: tuple[str, ...] = ()
    """Agents that get the heads of seals."""
    alarms_to: tuple[str, ...] = ()
    """Agents that get alarms."""
    max_waiting: int = 10_000
    """Orders that may wait for one recipient."""
    max_waiting_bytes: int = 256 << 20
    """Bytes of the data of orders that may wait for one recipient."""
    insecure: bool = False
    """Agents beyond this host may connect without TLS, too."""
    keys: Path | None = None
    """The folder of keys; None: nobody is known by a certificate."""
    revoked: frozenset[int] = frozenset()
    """Serial numbers of certificates that are refused."""
    form: Form = FORM
    checksum: str = "auto"
    agents: tuple[Agent, ...] = ()
    subjects: tuple[Subject, ...] = ()
    rules: RuleTable = NO_RULES

    @property
    def gives_up_after(self) -> float:
        """T2·(N2+1): seconds after which a source is told that its order has no receipt."""
        return self.t2 * (self.n2 + 1)

    @property
    def addressees(self) -> tuple[Agent | Subject, ...]:
        """Whoever an order may be for."""
        return (*self.agents, *self.subjects)


def _one_of(choices: tuple[str, ...]) -> Callable[[Any], str]:
    def check(value: Any) -> str:
        if value not in choices:
            raise ValueError(f"it is {value!r}; it must be {' or '.join(choices)}")
        return str(value)

    return check


def _byte(value: Any) -> bytes:
    if not isinstance(value, str) or len(value) != 1 or not value.isascii():
        raise ValueError(f"it is {value!r}; it must be one ASCII character")
    return value.encode()


def _within(least: int, most: int) -> Callable[[Any], int]:
    def check(value: Any) -> int:
        if type(value) is not int or not least <= value <= most:
            raise ValueError(f"it is {value!r}; it must be a whole number from {least} to {most}")
        return value

    return check


def _places(value: Any) -> tuple[str, ...]:
    found = values.texts([value] if isinstance(value, str) else value)
    for one in found:
        if not one.removeprefix(UNIX):
            raise ValueError(f"it is {one!r}; the path of a socket is missing, as in 'unix:relay.sock'")
        if not one.startswith(UNIX):
            place_to_listen(one)
    if not found:
        raise ValueError("it is empty; a relay listens somewhere, such as '127.0.0.1:7460' or 'unix:relay.sock'")
    return found


def _text_with(check: Callable[[str], object]) -> Callable[[Any], str]:
    """A text that `check` lets through, as it is written."""

    def checked(value: Any) -> str:
        check(values.text(value))
        return str(value)

    return checked


def charset(value: Any) -> str:
    try:
        "".encode(values.text(value))
        return codecs.lookup(value).name
    except LookupError:
        raise ValueError(f"there is no charset {value!r}; there are utf-8, gbk, gb18030, latin-1 and more") from None


def _address(value: Any) -> bytes:
    return address_of(values.text(value))


def _origin(value: Any) -> str:
    """Gives an address the form in which the system names the other end of a connection. Raises ValueError if it is not
    the address of one host."""
    try:
        found = ip_address(values.text(value))
        found = getattr(found, "ipv4_mapped", None) or found
    except ValueError:
        found = None
    if found is None or found.is_unspecified or found.is_multicast or getattr(found, "scope_id", None):
        raise ValueError(f"it is {value!r}; it must be the address of one host, such as 127.0.0.1 or fd00::7")
    return str(found)


def _members(value: Any) -> tuple[str, ...]:
    if found := values.texts(value):
        return found
    raise ValueError("it is empty; name its agents, or leave it out, and it goes to whoever follows it")


RELAY: Final = Declaration(
    (
        Setting("listen", _places, "PLACE"),
        Setting("t1", values.seconds(0.001, _YEARS), "SECONDS"),
        Setting("n1", _within(0, N1_MOST), "NUMBER"),
        Setting("t2", values.seconds(0.001, _YEARS), "SECONDS"),
        Setting("n2", _within(0, N1_MOST), "NUMBER"),
        Setting("keep", values.seconds(1.0, _YEARS), "SECONDS"),
        Setting("address", _address, "ADDRESS"),
        Setting("seal_to", values.texts, "AGENT"),
        Setting("alarms_to", values.texts, "AGENT"),
        Setting("max_waiting", values.count, "NUMBER"),
        Setting("max_waiting_bytes", values.size, "BYTES"),
        Setting("insecure", values.flag, ""),
        *KEYS,
        Setting("header", _within(0, 255), "BYTE"),
        Setting("order", _byte, "LETTER"),
        Setting("answer", _byte, "LETTER"),
        Setting("alert", _byte, "LETTER"),
        Setting("checksum", _one_of(("auto", *SUMS)), "FORM"),
        Setting("longest", _within(_LONGEST_LEAST, 16 << 20), "BYTES"),
    ),
    "relay",
)
AGENT: Final = Declaration(
    (
        Setting("name", values.name, "NAME"),
        Setting("address", _address, "ADDRESS"),
        Setting("from", _origin, "ADDRESS"),
        Setting("uid", values.number((1 << 32) - 2, "users"), "NUMBER"),
        Setting("peer", _text_with(parse_name), "NAME"),
        Setting("dial", _text_with(place_to_reach), "HOST:PORT"),
        Setting("absent", _one_of(ABSENT), "WHAT"),
        Setting("on_failure", _one_of(ON_FAILURE), "WHAT"),
        Setting("id", _one_of(IDS), "WHAT"),
        Setting("window", _within(1, _WINDOW_MOST), "NUMBER"),
        Setting("charset", charset, "CHARSET"),
        Setting("checksum", _one_of(SUMS), "FORM"),
        Setting("follows", values.texts, "SUBJECT"),
        Setting("notices", values.flag, ""),
    ),
    "agent",
)
SUBJECT: Final = Declaration(
    (
        Setting("address", _text_with(address_of), "ADDRESS"),
        Setting("group", _members, "AGENT"),
    ),
    "subject",
)
_OF_FORM: Final = ("header", "order", "answer", "alert", "longest")


def read_relay(path: Path) -> Relay:
    """The relay of a settings file; other tables are not looked at. All or nothing: raises SettingsError or RulesError
    for the first mistake, with file and line."""
    return relay_of(SettingsFile.read(path))


def relay_of(file: SettingsFile) -> Relay:
    """Reads the relay from a settings file that is open already. Raises as `read_relay` does."""
    path = file.path
    tables = read_tables(file, only=("link", "allow"))
    rules, link = tables.get("allow", RuleTable(source=str(path))), tables.get("link", NO_LINK)
    checked = RELAY.of(file)
    form = Form(**{name: checked.pop(name) for name in _OF_FORM if name in checked})
    if "listen" in checked:
        checked["listen"] = tuple(_from_folder(one, path.parent) for one in checked["listen"])
    if "keys" in checked:
        checked["keys"] = path.parent / checked["keys"]
    checked = {"keys": link.keys, "revoked": link.revoked} | checked
    agents = tuple(_agent(entry) for entry in _entries(file, AGENT, "name", "AODB"))
    subjects = tuple(
        Subject(entry["address"], address_of(entry["address"]), entry.get("group", ()), entry["place"])
        for entry in _entries(file, SUBJECT, "address", "FLTS")
    )
    made = Relay(**checked, form=form, agents=agents, subjects=subjects, rules=rules)
    if not agents:
        raise SettingsError(
            f'{file.place("relay")}: a relay needs agents: [[agent]], name = "AODB", from = "127.0.0.1"'
        )
    _check_form(made, file)
    _check_names(made, file)
    _check_rules(made)
    _check_places(made, file)
    return made


def _from_folder(place: str, folder: Path) -> str:
    """The path of a Unix socket begins at the folder of the file."""
    return f"{UNIX}{(folder / place.removeprefix(UNIX)).absolute()}" if place.startswith(UNIX) else place


def _check_form(relay: Relay, file: SettingsFile) -> None:
    form = relay.form
    if form.header == END:
        raise SettingsError(f"{file.place('header', 'relay')}: header is 0x0A, which ends frames")
    if form.header == TLS_BEGINS and relay.keys is not None:
        raise SettingsError(f"{file.place('header', 'relay')}: header is 22, with which TLS begins, and there are keys")
    if form.order == form.answer:
        raise SettingsError(f"{file.place('answer', 'relay')}: order and answer are both {form.order.decode()!r}")


def _entries(file: SettingsFile, declared: Declaration, need: str, example: str) -> Iterator[dict[str, Any]]:
    """Each table of this name as it was checked, with its `place`. `need`: the key that it must have."""
    for entry, at in file.entries(declared.table, f"{declared.table}s"):
        if need not in entry:
            raise SettingsError(f'{file.at(at)}: [[{declared.table}]] needs {need} = "{example}", or another')
        yield declared.check(entry, lambda key, at=at: file.at(file.lines.key(at, key))) | {"place": file.at(at)}  # type: ignore[misc]


def _agent(entry: dict[str, Any]) -> Agent:
    if entry.keys().isdisjoint(("from", "uid", "peer", "dial")):
        raise SettingsError(
            f"{entry['place']}: nothing says which connections are of agent {entry['name']}; it needs from, the "
            "address that they come from, or uid, its user at a Unix socket, or peer, its name in its certificate, or "
            "dial, where the relay connects to it"
        )
    try:
        address = entry.pop("address", None) or address_of(entry["name"])
    except FrameError as error:
        raise SettingsError(
            f'{entry["place"]}: agent {entry["name"]} needs an address = "…" of its own: {error}'
        ) from None
    return Agent(address=address, origin=entry.pop("from", ""), **entry)


def _check_names(relay: Relay, file: SettingsFile) -> None:
    """No two have one name or one address, and whom another names is there. Raises SettingsError."""
    seen: dict[str | bytes, str] = dict.fromkeys((OWN_NAME, relay.address), "[relay], as the relay's own")
    for one in relay.addressees:
        for what, key, words in (("name", one.name, one.name), ("address", one.address, readable(one.address))):
            if key in seen:
                raise SettingsError(f"{one.place}: its {what} {words} has been given before, in {seen[key]}")
        seen[one.name] = seen[one.address] = one.place
    names = {one.name for one in relay.agents}
    for setting, told in (("seal_to", relay.seal_to), ("alarms_to", relay.alarms_to)):
        _check_there(told, names, f"{file.place(setting, 'relay')}: {setting}: there is no agent")
    for subject in relay.subjects:
        _check_there(subject.group, names, f"{subject.place}: group: there is no agent")
    followed = {one.name for one in relay.subjects if not one.group}
    for agent in relay.agents:
        _check_there(agent.follows, followed, f"{agent.place}: follows: there is no subject to follow,")


def _check_rules(relay: Relay) -> None:
    """A command is one letter; a pattern that none fits allows or denies nothing. Raises SettingsError."""
    names = {one.name for one in relay.addressees}
    for rule in relay.rules.rules:
        denied = (one for one in rule.deny if one.partition("/")[0] in names)  # others are of topics
        for pattern in (*rule.allows.get("order", ()), *denied):
            _, *parts = pattern.split("/")
            if parts and not (_COMMAND.fullmatch(parts[0]) and len(parts) <= 2):
                raise SettingsError(
                    f"{rule.place}: no order fits {pattern!r}: it is TO/COMMAND or TO/COMMAND/PERFORMATIVE, and a "
                    "command is one letter, such as I, or a number, such as 0x07"
                )


def _check_there(named: tuple[str, ...], there: set[str], words: str) -> None:
    if unknown := [name for name in named if name not in there]:
        raise SettingsError(f"{words} {unknown[0]}; there are {', '.join(sorted(there)) or 'none'}")


def _check_places(relay: Relay, file: SettingsFile) -> None:
    """Without TLS nothing is protected, so it stays on this host. Raises SettingsError."""
    if unknown := [one for one in relay.agents if one.peer and relay.keys is None]:
        raise SettingsError(
            f"{unknown[0].place}: peer: {unknown[0].peer} is known by a certificate, and this relay has no keys: make "
            'some (rtmw node keys) and name them, keys = "keys" in [relay]'
        )
    if relay.insecure:
        return
    listening = [] if relay.keys else [one for one in relay.listen if not one.startswith(UNIX)]
    dialled = [one for one in relay.agents if one.dial and not one.peer]
    places = [(file.place("listen", "relay"), "listen", one, place_to_listen(one)) for one in listening]
    places += [(one.place, "dial", one.dial, place_to_reach(one.dial)) for one in dialled]
    for place, key, said, (host, _) in places:
        if not is_loopback(host):
            raise SettingsError(
                f"{place}: {key}: {said} is not on loopback, and without TLS anybody on the way could read and change "
                "orders: name keys in [relay], and of an agent that is dialled its peer; or say insecure = true if all "
                "of them may"
            )


def differences(held: Relay, new: Relay) -> list[str]:
    """What is another one in new settings: `agent GATE`, `subject FLTS`, `rules`, `t2`."""
    found = list[str]()
    for kind in ("agent", "subject"):
        before, now = ({one.name: one for one in getattr(relay, f"{kind}s")} for relay in (held, new))
        found += [f"{kind} {name}" for name in before | now if before.get(name) != now.get(name)]
    others = (one.name for one in fields(Relay) if one.name not in ("agents", "subjects", "rules"))
    rules = ["rules"] if held.rules.version != new.rules.version else []
    return [*found, *rules, *(name for name in others if getattr(held, name) != getattr(new, name))]


def advice(relay: Relay) -> Mapping[str, str]:
    """What is not forbidden, and is most likely not meant: each with what to do."""
    found = dict[str, str]()
    ours, theirs = relay.t1 * (relay.n1 + 1), relay.gives_up_after
    if ours <= theirs:
        found[f"an agent gives up after T1·(N1+1) = {ours:g} s, and the server after T2·(N2+1) = {theirs:g} s"] = (
            "the first must be longer, and by more than a round trip: else a sender acts otherwise while its order may "
            "still arrive; raise t1 or n1, or lower t2 or n2"
        )
    named = {one.name for one in relay.addressees}
    for agent in relay.agents:
        for subject in agent.follows:
            if not relay.rules.judge(AGENT_PEER + agent.name, "follow", subject).allowed:
                found[f"{agent.place}: {agent.name} follows {subject}"] = "no rule lets it follow that: it gets nothing"
    for rule in relay.rules.rules:
        for pattern in rule.allows.get("order", ()):
            to = pattern.partition("/")[0]
            if not set("*?[{") & set(to) and to not in named:
                found[f"{rule.place}: order to {to}"] = "there is no agent and no subject of this name"
        for peer in rule.peers:
            name = peer.removeprefix("agent:")
            if name != peer and not set("*?[") & set(name) and name not in named:
                found[f"{rule.place}: peer {peer}"] = "there is no agent of this name"
    return found
