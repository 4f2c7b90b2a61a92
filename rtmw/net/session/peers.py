"""The peers of a service: other nodes of the same service, dialled or accepted, each by its name and with one session.

A peer is meant by the name that addresses have, `service@NAME`: the last part of the name in its certificate, or, where
there are no keys, what it says of itself. A service may have guests, too: programs, which say so in their hello.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from rtmw.errors import SessionError
from rtmw.net.security import KeysError
from rtmw.net.security.names import is_user, parse_name
from rtmw.net.security.rules import NO_RULES, Rights, RuleTable
from rtmw.net.security.tables import NO_LINK, Link
from rtmw.net.session.carrier import Carrier
from rtmw.net.session.hello import Hello, Terms
from rtmw.net.session.session import Session
from rtmw.net.session.sockets import Backoff, reach
from rtmw.settings import values
from rtmw.text.addresses import UNIX, place_to_listen, unix_path

if TYPE_CHECKING:
    from rtmw.net.security.identity import Identity

__all__ = ["Network", "Peers", "network_of"]

log = logging.getLogger("rtmw.service")

Work: TypeAlias = Coroutine[Any, Any, None]

_SAYS_NODE: Final = "node="
"""Before the name of a node, among the capabilities in its hello."""
_LONGEST_S: Final = 0.5
"""The longest time in seconds between two tries to begin a session: what is parked for a node that is back waits for
the next one."""
MOST: Final = 1000
"""Other nodes that a service knows, guests that it has, and reasons that its log has said."""
GUEST: Final = "client"
"""The capability by which the hello of a program says that it is no node."""


@dataclass(frozen=True)
class Network:
    """The table of a service and `[[allow]]`: where it meets its peers, its keys, and what peers may do."""

    link: Link = NO_LINK
    rules: RuleTable = NO_RULES
    identity: Identity | None = None


def network_of(link: Link, rules: RuleTable, node: str) -> Network:
    """The network of a service, with the keys that `link` names. `node`: name of this one.

    Raises KeysError, also where the certificate is of another node."""
    if not link.is_used or link.keys is None:
        return Network(link, rules)
    from rtmw.net.security.identity import Identity  # needs `cryptography`, which a node without keys does not

    identity = Identity.load(link.keys, link.revoked)
    named = parse_name(identity.name).node
    if named != node:
        raise KeysError(
            f"this node is called {node!r}, and its certificate is of {identity.name}: addresses name nodes as their "
            f'certificates do; set name = "{named}" in {rules.source or "its settings"}, or --name {named}'
        )
    return Network(link, rules, identity)


@dataclass
class _Peer:
    """A peer, and its session of this moment."""

    certified: str = ""
    """The name in its certificate, as rules mean it."""
    session: Session | None = None
    running: asyncio.Task[None] | None = None


class Peers:
    """The sessions of a service with other nodes and with programs, from `begin` until `close`. Not for several
    threads."""

    guest: Callable[[Session], Work] | None = None
    """Work with the session of a program; None: this service has no guests."""

    def __init__(
        self, node: str, network: Network, hello: Hello, terms: Terms, run: Callable[[str, Session], Work]
    ) -> None:
        """`node`: name of this one. `terms`: its lease is that of the settings. `run`: work with a session of the peer
        of that name; that with an earlier session of the peer has ended before."""
        self.network, self.rights = network, Rights(network.rules)
        self._node, self._run, self._terms = node, run, terms
        self._hello = replace(hello, capabilities=hello.capabilities | {_SAYS_NODE + node})
        self._carrier: Carrier | None = None
        self._peers: dict[str, _Peer] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._dialling: dict[str, asyncio.Task[None]] = {}
        self._dialled: dict[str, Session] = {}
        """By a place of `connect`: the session with it."""
        self._guests = 0
        self._said: dict[str, str] = {}
        self.failing: dict[str, str] = {}
        """By a place of `connect`: why there is no session with it."""
        self.failure: BaseException | None = None
        """An unexpected error of one of the tasks; the service has to end with it."""

    async def begin(self) -> None:
        """Listens and dials, where the settings have other nodes. SessionError: it cannot listen."""
        if not self.network.link.is_used:
            return
        carrier = self._meet()
        how = "with TLS" if carrier.identity else "without TLS: anybody who reaches it may read, change and send"
        for place in self.network.link.listen:
            if path := unix_path(place):
                await _free(path)
                await carrier.listen_unix(Path(path))
                log.info("programs of this host are accepted at %s", place)
                continue
            port = await carrier.listen(*place_to_listen(place))
            log.info("other nodes are accepted at %s (port %d), %s", place, port, how)

    def _meet(self) -> Carrier:
        """From now on there may be sessions, and places to connect to are dialled."""
        link, hello, terms = self.network.link, self._hello, replace(self._terms, lease=self.network.link.lease)
        carrier = self._carrier = Carrier(
            hello.node, identity=self.network.identity, insecure=link.insecure, terms=terms, hello=hello
        )
        self.start(self._accept(carrier))
        self._dial_all(carrier)
        return carrier

    def start(self, work: Work) -> asyncio.Task[None]:
        """A task that `close` ends, and whose error ends the service."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.failure = self.failure or error
            log.error("%r", error, exc_info=error)

    def is_up(self, node: str) -> bool:
        """There is a session with it."""
        return self.session(node) is not None

    def certified(self, node: str) -> str:
        """The name in the certificate of a peer that has had a session; empty without keys."""
        return self._peers[node].certified

    def obey(self, network: Network) -> None:
        """Rules, keys and places to connect to; where it listens stays until a new start. KeysError: the keys are gone,
        and nothing says that this is meant."""
        if self.network.identity is not None and network.link.keys is None and not network.link.insecure:
            raise KeysError(
                "the settings name no keys any more, and nothing of them is taken in: a node that loses its keys by "
                "mistake would speak in clear from its next start on; name keys, or set insecure = true"
            )
        self.network = network
        self.rights.swap(network.rules)
        if self._carrier is None:
            if network.link.connect:
                self._meet()
            return
        if network.identity is not None:
            self._carrier.recheck(network.identity)
        self._dial_all(self._carrier)

    def _dial_all(self, carrier: Carrier) -> None:
        wanted = self.network.link.connect
        for place in self._dialling.keys() - set(wanted):
            self._dialling.pop(place).cancel()
            self.failing.pop(place, None)
            if (session := self._dialled.pop(place, None)) is not None:
                session.close(f"{place} was taken out of connect")
        for place in wanted:
            if place not in self._dialling:
                self._dialling[place] = self.start(self._dial(carrier, place))

    async def _dial(self, carrier: Carrier, place: str) -> None:
        backoff = Backoff(longest=_LONGEST_S)
        async for _ in backoff:
            try:
                session = await carrier.connect_to(place)
            except SessionError as error:
                why = str(error).removeprefix(f"{place}: ")
            else:
                self.failing.pop(place, None)
                self._dialled[place] = session
                backoff.reset()
                await session.over()
                del self._dialled[place]
                why = str(session.error)
            self.failing[place] = why
            self._say(place, f"no session with {place}: {why}; it is tried again and again")

    def _say(self, about: str, words: str) -> None:
        if self._said.get(about) != words:
            self._said[about] = words
            log.warning("%s", words)
            while len(self._said) > MOST:
                del self._said[next(iter(self._said))]

    async def _accept(self, carrier: Carrier) -> None:
        async for session in carrier:
            if self.guest is not None and GUEST in session.peer.capabilities:
                self._welcome(session, self.guest)
                continue
            try:
                node = self._who(session)
            except SessionError as error:
                self._say(session.name or str(session.node), str(error))
                session.close(str(error))
                continue
            peer = self._peers.setdefault(node, _Peer())
            if peer.session is not None and peer.session.is_connected and peer.session.node != session.node:
                why = f"two nodes have the name {node!r}, and one of them is connected; give the other another name"
                self._say(node, why)
                session.close(why)
                continue
            if peer.session is not None:
                peer.session.close("another session has begun with this node")
            peer.certified, peer.session = session.name, session
            peer.running = self.start(self._carry(node, session, peer.running))

    def _welcome(self, session: Session, guest: Callable[[Session], Work]) -> None:
        if self._guests >= MOST:
            session.close(f"{MOST} programs are connected already")
            return
        self._guests += 1
        self.start(self._host(session, guest))

    async def _host(self, session: Session, guest: Callable[[Session], Work]) -> None:
        try:
            await guest(session)
        finally:
            self._guests -= 1
            session.close("the node has ended it")

    def session(self, node: str) -> Session | None:
        """The present session with a peer; None: there is none."""
        return self._peers[node].session if node in self._peers else None

    async def is_refused(self, node: str) -> bool:
        """Does the host of a peer, whose session has no connection, refuse one? So its process has ended."""
        session = self.session(node)
        place = next((place for place, one in self._dialled.items() if one is session), None)
        if place is None:
            return False
        try:
            (await reach(place)).close()
        except ConnectionRefusedError:
            return True
        except OSError:
            pass
        return False

    def _who(self, session: Session) -> str:
        """The name of the peer. SessionError: addresses cannot mean it."""
        words = [word for word in session.peer.capabilities if word.startswith(_SAYS_NODE)]
        said = words[0].removeprefix(_SAYS_NODE) if words else ""
        identity = self.network.identity
        if identity is not None and is_user(session.name):
            raise SessionError(f"node {said!r} comes by a Unix socket, without a certificate; nodes with keys use TCP")
        if identity is not None:
            name, mine = parse_name(session.name), parse_name(identity.name)
            if name.site != mine.site:
                raise SessionError(
                    f"{session.name} is of another site than {identity.name}: addresses name nodes of one site"
                )
            if said != name.node:
                raise SessionError(f"the node of {session.name} calls itself {said!r}; set name there")
        if said == self._node:
            raise SessionError(f"two nodes have the name {said!r}; give one of them another name")
        try:
            values.name(said)
        except ValueError:
            raise SessionError(f"the peer calls itself {said!r}, which is no name of a node") from None
        if said not in self._peers and len(self._peers) >= MOST:
            raise SessionError(
                f"{MOST} nodes are known here already; start this one again to forget those that are gone"
            )
        return said

    async def _carry(self, node: str, session: Session, before: asyncio.Task[None] | None) -> None:
        if before is not None:
            await asyncio.wait([before])
        log.info("node %s is connected", node)
        try:
            await self._run(node, session)
        finally:
            peer = self._peers[node]
            if peer.session is session:
                peer.session = None
                log.info("node %s is gone: %s", node, session.error)

    async def close(self) -> None:
        """Ends the tasks, and all sessions."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._carrier is not None:
            await self._carrier.close()


async def _free(path: str) -> None:
    """The file of a Unix socket goes, if nobody listens there: a process that was killed has left it."""
    if Path(path).is_socket():
        try:
            (await reach(f"{UNIX}{path}")).close()
        except ConnectionRefusedError:
            Path(path).unlink(missing_ok=True)
