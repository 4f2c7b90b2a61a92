"""`rtmw node`: carries topics of a domain to every peer that wants them, and brings what its programs ask for.

A program like any other on the bus: programs go on when it dies, and are bridged again when it is back. All that
happens to a message happens in the engine (engine.h); this is the part that decides, ten times a second.

It joins when it has an interface with an address, and the addresses of its peers; until then it says on its bus why
nothing crosses. When it ends it hands over what it has, within bounds, and names what it could not.

A beacon names the nodes whose beacons its sender has received (own_topics.py), so each node knows who hears it.
Whether a node hears this one while it is not heard itself, only its own doctor can tell.

The janitor, a thread of its own, learns of every death at once, and cleans up after it a tenth of a second later:
nobody has to run into what the dead one held, and who looks on (observe/events.py) reads in the tables before that it
has died. Once a second it also ends what is parked and whose time is over (shm/take.c): no process dies of that.
"""

from __future__ import annotations

import asyncio
import logging
import os
import select
import signal
import socket
import threading
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from rtmw.clock import CLOCK
from rtmw.domain import Domain
from rtmw.errors import RtmwError
from rtmw.net.dds import network as interfaces
from rtmw.net.dds import own_topics, reconciliation, wire
from rtmw.net.dds.bridge import Bridge
from rtmw.net.dds.discovery import Refusals, describe_node
from rtmw.net.dds.library import (
    DDSException,
    Engine,
    FlowControl,
    log_captured,
    log_what_it_said,
    open_engine,
    type_hash_install,
)
from rtmw.net.dds.network import Line, Network, NetworkChanged, Search, addresses, are_ipv6, choose, lead, why_none
from rtmw.net.dds.own_topics import SILENT_S, Beacons, Rosters, crossing_edges
from rtmw.net.dds.reconciliation import StandstillWatch, UnsentNews
from rtmw.net.dds.succession import Farewells, Keeper, dead_predecessors, last_documents
from rtmw.net.known_nodes import KnownNode, hearing, nodes_met
from rtmw.net.link.service import LinkService
from rtmw.net.neighbours import LocalTopic, Neighbours, origin
from rtmw.net.process import ENDING, NodeError, claim, hold_signals, let_signals_in, notify
from rtmw.net.services import Services
from rtmw.net.settings import NODE, OF_RELAY, STATUS_TOPIC, Settings, check_reload, other_pool
from rtmw.net.status import Status, make_waiting, measured_clocks
from rtmw.net.topics import added, usable, words
from rtmw.observe import program
from rtmw.observe.node_status import NodeStatus, Undelivered
from rtmw.publisher import OwnPublisher
from rtmw.settings import SettingsFile
from rtmw.shm import region_of
from rtmw.text.addresses import metrics_url
from rtmw.text.daemon_log import say_more
from rtmw.text.strict_json import packed
from rtmw.text.units import duration

if TYPE_CHECKING:
    from rtmw.net.metrics import Metrics


log = logging.getLogger("rtmw.node")

END_S: Final = 3.0
TAKE_S: Final = 1.0
"""Seconds of END_S in which a node takes what was published before its end; the rest is left to the next node."""
_EMPTIED_LOOK_S: Final = 0.01


class Ending:
    """The end of a node: it takes no more steps, and hands over what it has."""

    def __init__(self, engine: Engine, bridge: Bridge, keeper: Keeper, links: LinkService) -> None:
        self._engine, self._bridge, self._keeper, self._links = engine, bridge, keeper, links

    async def hand_over(self, handover: float, refusals: Refusals) -> None:
        """Messages published before the end are still delivered, if they can be within END_S; those of RELIABLE topics,
        if they can be within TAKE_S, and the rest is left to the next node. Messages of RELIABLE topics that others
        sent are received to their end."""
        begun = CLOCK.monotonic()
        self._engine.finish()  # a publisher that goes on would keep it for ever
        self._keeper.leave(handover)
        self._links.leave(handover)
        while not self._is_delivered():
            with refusals.barrier("step"):
                self._keeper.step()
            elapsed = CLOCK.monotonic() - begun
            if elapsed >= END_S:
                return
            if elapsed >= TAKE_S and handover:
                self._engine.leave()
                self._links.finish()
            await asyncio.sleep(_EMPTIED_LOOK_S)

    def _is_delivered(self) -> bool:
        return self._bridge.is_delivered() and self._keeper.is_over and self._links.is_delivered()

    def left(self) -> list[Undelivered]:
        """Messages that the node has not delivered; the log names them."""
        found = [*self._bridge.undelivered(), *self._links.undelivered()]
        if found:
            log.warning("ended with messages that are not delivered: %s", words(found))
        now = CLOCK.monotonic()
        return [replace(one, at=now) for one in found]


STEP_S: Final = 0.1
"""Seconds between two looks of a node: at the bus and at links, or at what it waits for before it joins."""


@dataclass(frozen=True)
class Joining:
    """A node before it has joined: it waits for an interface and for the addresses of its peers."""

    domain: Domain
    since: float
    """When the node began: seconds since the epoch."""
    settings: Callable[[], Settings]
    """Returns the present settings, which SIGHUP may change."""
    ends_within: Callable[[float], Awaitable[bool]]
    """Is the node to end within so many seconds? Raises NetworkChanged where it is to begin anew."""
    undelivered: tuple[Undelivered, ...]
    """Messages that nodes before it have not delivered."""

    async def line(self) -> Line | None:
        """Wait until there is an interface to use. None: the node is to end."""
        line = choose(self.settings())
        if line is not None:
            return line
        log.warning("%s", why_none(self.settings()))
        with self._status() as status:
            while line is None and not await self.ends_within(STEP_S):
                self._tell_why(status, why_none(self.settings()))
                line = choose(self.settings())
        return line

    async def peers(self, line: Line, begins_anew: bool) -> tuple[str, ...] | None:
        """The addresses of the peers; None: the node is to end. Just after the network has changed, names may not be
        known for a while; a node that begins for the first time is told at once. Raises RtmwError."""
        if not begins_anew:
            return addresses(self.settings().peers, line.is_ipv6)
        why, ends = "the peers are looked up", False
        with self._status() as status:
            while True:
                search = Search(self.settings().peers, line.is_ipv6)
                while not ends and not search.is_over:
                    self._tell_why(status, why)
                    ends = await self.ends_within(STEP_S)
                if ends or search.found is not None:
                    return search.found
                if why != (why := f"{search.why}; the node goes on when it is found"):
                    log.warning("%s", why)
                ends = await self.ends_within(STEP_S)

    def _status(self) -> OwnPublisher:
        return OwnPublisher(STATUS_TOPIC, history=1, domain=self.domain)

    def _tell_why(self, status: OwnPublisher, why: str) -> None:
        """Why nothing crosses yet, for everybody who asks."""
        told = replace(make_waiting(self.settings(), why, self.since), undelivered=self.undelivered)
        status.publish(packed(told).encode())
        notify("READY=1")
        notify("WATCHDOG=1")


_DEATHS_LOOK_S = 0.05
"""A process that is gone before it was seen is found by the next look."""

_TELL_S = 0.1
_SWEEP_S = 1.0
"""Seconds between sweeps of what is parked; also the longest time that the first of many deaths waits."""


class Janitor:
    """Watches the processes that are attached to a domain, until it is closed."""

    def __init__(self, domain: Domain) -> None:
        self._region = domain.region
        self._watched: dict[int, tuple[int, str]] = {}
        """Process id and name, by a descriptor that becomes readable when the process ends."""
        self._seen: int | None = None
        """The fingerprint of the participants of which all are watched."""
        self._ended: dict[int, str] = {}
        """Those to sweep up after, and when: `_first` is the time of the first death."""
        self._first = self._sweep_at = 0.0
        self.swept = 0
        self._events, self._end = select.epoll(), os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._events.register(self._end, select.EPOLLIN)
        self._thread = threading.Thread(target=self._work, name="rtmw janitor", daemon=True)
        self._thread.start()

    def _work(self) -> None:
        due = 0.0
        while True:
            self._look()
            if self._ended and CLOCK.monotonic() >= self._sweep_at:
                self._sweep()
            if CLOCK.monotonic() >= due:
                due = CLOCK.monotonic() + _SWEEP_S
                self._region.sweep_parked()
            for descriptor, _ in self._events.poll(_DEATHS_LOOK_S):
                if descriptor == self._end:
                    return
                self._note(*self._unwatch(descriptor))

    def _look(self) -> None:
        """Watch who has come since."""
        now = self._region.participants_fingerprint()
        if now == self._seen:
            return
        self._seen = now
        names, known = self._region.names(), {pid for pid, _ in self._watched.values()}
        for pid in names.keys() - known - {os.getpid()}:
            try:
                descriptor = os.pidfd_open(pid)
            except OSError as error:
                # Gone before it was seen, or of another pid namespace: the sweep can tell. Where no descriptor is left
                # it is tried again.
                if isinstance(error, ProcessLookupError) or not os.path.exists(f"/proc/{pid}"):
                    self._note(pid, names[pid])
                self._seen = None
                continue
            self._watched[descriptor] = (pid, names[pid])
            self._events.register(descriptor, select.EPOLLIN)

    def _note(self, pid: int, name: str) -> None:
        if pid in self._ended:
            return
        now = CLOCK.monotonic()
        self._first = self._first if self._ended else now
        self._ended[pid] = name
        self._sweep_at = min(now + _TELL_S, self._first + _SWEEP_S)

    def _sweep(self) -> None:
        died = self._region.names().keys() & self._ended.keys()
        swept = self._region.sweep()
        self.swept += swept
        for pid in died if swept else ():
            log.info("%s (%d) ended without closing; what it held has been given back", program(self._ended[pid]), pid)
        self._ended.clear()

    def _unwatch(self, descriptor: int) -> tuple[int, str]:
        self._events.unregister(descriptor)
        os.close(descriptor)
        return self._watched.pop(descriptor)

    def close(self) -> None:
        os.eventfd_write(self._end, 1)
        self._thread.join()
        if self._ended:
            self._sweep()
        for descriptor in [*self._watched]:
            self._unwatch(descriptor)
        self._events.close()
        os.close(self._end)


_STATUS_S = 1.0
_SEEN_S = 0.02


class Node:
    """A node, from `run()` until SIGINT, SIGTERM or `stop()`."""

    def __init__(
        self, settings: Settings, file: SettingsFile | None = None,
        remake: Callable[[SettingsFile], Settings] | None = None, begins_anew: bool = False,
    ) -> None:  # fmt: skip
        """`file`: of the settings, of which its services read tables. `remake`: the settings of that file as it is read
        again. `begins_anew`: it goes on for one that has replaced itself, so what it was told could be used before."""
        self.settings, self._remake, self._begins_anew = settings, remake, begins_anew
        self.file = file
        """The settings file as it was when the settings were read from it."""
        self._stopping: asyncio.Event | None = None
        self._since = CLOCK.wall()
        self._metrics: Metrics | None = None
        self._refusals, self._services = Refusals(), Services(settings, file.path if file else None)
        self._pool = 0
        """Bytes of the domain's pool."""
        self._cut_off: str | None = None
        """The address that is gone."""
        self._anew: str | None = None
        """Why the node is to begin anew, though its network is what it was. Written by the thread of _take_peers."""
        self._topics: dict[str, LocalTopic] = {}
        """Topics of the bus, as it was seen last."""
        self._left: list[Undelivered] = []
        """Messages that nodes which ended before have not delivered; at last, those of this one too."""
        self._warned: dict[tuple[str, int, int], str] = {}
        """Nodes whose clock was said to be wrong, and of which host each is."""

    def stop(self) -> None:
        if self._stopping is not None:
            self._stopping.set()

    async def run(self) -> None:
        """Raises NodeError, SettingsError, NetworkChanged, and what attaching to the domain raises.

        With NetworkChanged, SIGINT, SIGTERM and SIGHUP are blocked: what comes from then on waits for the node that
        follows, also through exec.
        """
        self._stopping, loop = asyncio.Event(), asyncio.get_running_loop()
        for number in ENDING:
            loop.add_signal_handler(number, self.stop)
        loop.add_signal_handler(signal.SIGHUP, self._reload)
        let_signals_in()
        try:
            with (
                claim(self.settings),
                self._measured(),
                Domain(self.settings.domain, pool=self.settings.pool, group=self.settings.group) as domain,
            ):
                self._region, self._pool = region_of(domain.id), domain.pool
                self._see_pool()
                with open_engine(domain, self.settings) as self._engine:
                    async with self._services:
                        await self._serve(domain, loop)
        except NetworkChanged:
            hold_signals()
            await asyncio.sleep(_SEEN_S)  # the loop hears of a signal that came before
            if not self._stopping.is_set():
                raise
            log.info("told to end meanwhile, so it does not begin anew")

    @contextmanager
    def _measured(self) -> Generator[None]:
        """Metrics are the first to start: of what cannot be had, nothing else is half-started."""
        if self.settings.metrics_port is None:
            yield
            return
        from rtmw.net.metrics import Metrics  # a tenth of the time in which a node without metrics starts

        address = self.settings.metrics_address
        self._metrics = Metrics(self.settings.domain, address, self.settings.metrics_port)
        log.info("metrics are at %s", metrics_url(address, self._metrics.port))
        try:
            yield
        finally:
            self._metrics.close()

    async def _serve(self, domain: Domain, loop: asyncio.AbstractEventLoop) -> None:
        difference = type_hash_install()
        documents = last_documents(domain, self.settings)
        self._farewells = Farewells(dead_predecessors(documents))
        self._left = added((), usable(documents[-1].undelivered)) if documents else []
        self._links = LinkService(domain, self.settings, self._engine.link)
        host, pid = socket.gethostname(), os.getpid()
        described = partial(describe_node, host, pid, self.settings.domain, origin(domain))
        network = Network(self.settings)
        joining = Joining(domain, self._since, lambda: self.settings, self._ends_within, tuple(self._left))
        line = await joining.line()
        peers = None if line is None else await joining.peers(line, self._begins_anew)
        if line is None or peers is None:
            return
        self._named = peers
        try:
            with log_captured():
                line, told = lead(line, self.settings, peers), described(self._links.announced())
                kept, participant = wire.join(replace(self.settings, peers=peers), told, line)
        except DDSException as error:
            log_what_it_said(log)
            raise NodeError(
                f"DDS domain {self.settings.wire_domain} cannot be joined: {error}; the DDS library has said why: an "
                "interface that is down or has no address, a port that is taken, or a fault in CYCLONEDDS_URI"
            ) from error
        self._guid = participant.guid.hex
        network.joined(peers)
        self._links.settle((address for address, _ in interfaces.bound()), peers)
        self._described, self._announced = described, partial(wire.announce, participant)
        self._announce()
        self._interfaces = interfaces.used_by(self.settings)
        self._datagram = None if interfaces.is_sized_by_experts() else line.datagram
        for descriptor in interfaces.sending():
            self._engine.pace(descriptor)
        self._bridge = Bridge(
            self._engine, participant, self.settings, domain, self._refusals, self._links.is_kept_from_dds
        )
        self._flow = FlowControl(self._engine, participant, difference)
        self._keeper = Keeper(participant, self._bridge, loop, self._refusals)
        self._beacons = Beacons(participant, self.settings.domain, loop, self._refusals)
        before = documents[-1].standstills if documents and self._begins_anew else None
        self._unsent = UnsentNews(participant, self._bridge, self._refusals)
        self._standstills = StandstillWatch(participant, self._bridge, self._refusals, before)
        self._rosters = Rosters(participant, host, self.settings.domain, self._refusals)
        self._status = Status(self._bridge, self._beacons, self._rosters, self._interfaces, self._links)
        self._janitor = Janitor(domain)
        log.info(
            "domain %d is carried on DDS domain %d over %s (%s)", self.settings.domain, self.settings.wire_domain,
            self._interfaces.names or "one of its interfaces", self._interfaces.why,
        )  # fmt: skip
        if "*" not in self.settings.on_dds:
            self._say_what_dds_carries()
        with OwnPublisher(STATUS_TOPIC, history=1, domain=domain) as status:
            ending = Ending(self._engine, self._bridge, self._keeper, self._links)
            is_cut_off = False
            try:
                await self._steps(domain, status, network)
            except NetworkChanged:
                is_cut_off = network.lost() is not None
                raise
            finally:
                if not is_cut_off:  # else nobody can be handed anything, and the node is back at once
                    notify("STOPPING=1")
                    await ending.hand_over(self.settings.handover, self._refusals)
                self._left = added(self._left, ending.left())
                self._say(status)
                network.close()
                self._links.close(int(self.settings.handover * 1e9))
                self._janitor.close()
                self._keeper.close()
                self._bridge.close()
                self._unsent.tell()
                self._beacons.close()
                del kept, participant
                log_what_it_said(log)
                log.info("stopped")

    def _announce(self) -> None:
        """Tell what others need to find this node, and to know how it meets them."""
        self._announced(self._described({**self._links.announced(), **self._links.found_at()}))

    def _say_what_dds_carries(self) -> None:
        if "*" in self.settings.on_dds:
            log.info("DDS carries all topics")
        else:
            log.info("DDS carries %s; other topics cross by link only", ", ".join(self.settings.on_dds) or "no topics")

    async def _ends_within(self, seconds: float) -> bool:
        """Is the node told to end within so many seconds? Raises NetworkChanged where it is to begin anew."""
        assert self._stopping is not None
        self._see_settings()
        with suppress(TimeoutError):  # asyncio.wait_for would lose a cancellation that comes as the wait ends
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        return self._stopping.is_set()

    def _see_network(self, network: Network) -> None:
        """Logs once which addresses are gone. Raises NetworkChanged when there is an interface or address to use
        instead."""
        if not network.has_news():
            return
        lost = network.lost()
        if network.wants_restart():
            raise NetworkChanged(f"{f'{lost}: there is' if lost else 'there is another interface to use'}")
        if lost and lost != self._cut_off:
            log.warning("%s", lost)
        self._cut_off = lost

    def _see_pool(self) -> None:
        asked = self.settings.pool_asked
        if asked is not None and asked != self._pool:
            log.warning("the pool of domain %d: %s; %s", self.settings.domain, *other_pool(self._pool, asked))

    def _see_settings(self) -> None:
        """The DDS library takes in where to look for others when it starts, and never again."""
        if self._anew:
            raise NetworkChanged(self._anew)

    def _see_silence(self) -> None:
        """Begin anew, with another DDS participant, if nothing is heard of a node that DDS takes to be alive: for
        longer than DDS waits before it takes one to be gone."""
        if not self._standstills.may_begin_anew:
            return
        seconds = self.settings.lease + SILENT_S
        for topic, peer in (
            (own_topics.BEACON_TOPIC, self._beacons.unheard(seconds)),
            (reconciliation.LANES_TOPIC, self._standstills.unheard(seconds)),
        ):
            if peer is not None:
                self._standstills.note(topic, "in", peer, 0)
                silent = duration(seconds)
                self._anew = f"{peer} has said nothing on {topic} for {silent}, though DDS takes it to be alive"

    async def _steps(self, domain: Domain, status: OwnPublisher, network: Network) -> None:
        """Looking at the own bus may end the node, and nothing else: what others send is not its fault."""
        assert self._stopping is not None
        told, is_ready = 0.0, False  # ready: it has said how it is, by which the next node knows it again
        bus, self._is_news = Neighbours(domain), True
        while not self._stopping.is_set():
            self._see_settings()
            self._see_network(network)
            log_what_it_said(log)
            changed, barrier = bus.look(), self._refusals.barrier
            self._is_news |= bool(changed)
            self._status.see(changed)
            with barrier("step"):
                self._standstills.step()
                self._unsent.step()
                self._status.see(self._bridge.step(bus.topics, changed))
                self._farewells.tell(self._bridge.discovery.participants, again=False)
            with barrier("link"):
                self._links.step(bus.topics, changed, self._bridge.discovery)
            if CLOCK.monotonic() - told >= _STATUS_S:
                told = CLOCK.monotonic()
                self._see_region(domain.id)
                say_more(log)
                with barrier("step"):
                    self._bridge.give_back(self._links.refused)
                    self._beacons.send()
                    self._standstills.tell()
                    self._unsent.tell()
                    self._see_silence()
                    self._engine.clocks(measured_clocks(self._beacons.peers.values(), self._bridge.discovery))
                    self._tell_roster(domain)
                    self._farewells.tell(self._bridge.discovery.participants, again=True)
                    self._services.look(domain)
                self._topics = bus.topics
                self._say(status)
                notify("WATCHDOG=1" if is_ready else "READY=1")
                is_ready = True
            try:
                async with asyncio.timeout(STEP_S):
                    await self._stopping.wait()
            except TimeoutError:
                continue

    def _tell_roster(self, domain: Domain) -> None:
        programs = self._bridge.discovery.participants.values()
        are_old = any(program.domain is not None and not program.knows_rosters for program in programs)
        edges = crossing_edges(domain, self.settings) if self._is_news else None
        if not self.settings.link.keys:  # else DDS hears of no topics and programs
            self._rosters.tell(edges, are_old)
        if edges is not None:
            self._links.tell(edges)
        self._is_news = False

    def _see_region(self, domain: int) -> None:
        """Raises NodeError if the domain was removed: programs that come after that meet in another region, which is
        to be carried instead."""
        if region_of(domain) != self._region:
            raise NodeError(
                f"domain {domain} was removed from this host; start the node again for the one that follows"
            )

    def _reload(self) -> None:
        if self.file is None or self._remake is None:
            log.info("there is no file to read again")
            return
        try:
            file = SettingsFile.read(self.file.path)
            new = self._remake(file)
            check_reload(file, self.settings, new)
            identity = self._links.prepare(new) if hasattr(self, "_links") else None
        except RtmwError as error:
            log.error("the settings stay as they are: %s", error)
            return
        of_services = [name for name in OF_RELAY if file.values.get(name) != self.file.values.get(name)]
        self.file, changes = file, NODE.changes(self.settings, new)
        if changes.late:
            log.warning("%s: takes effect when the node is started again", ", ".join(changes.late))
        taken = {name: value for name, value in changes.taken.items() if name != "peers"}
        if "peers" in changes.taken:  # in a daemon thread: a look-up may take long, and the node may end meanwhile
            threading.Thread(target=self._take_peers, args=(new,), name="rtmw peers", daemon=True).start()
        on_dds, self.settings = self.settings.on_dds, replace(self.settings, **taken)
        if hasattr(self, "_bridge"):  # else it waits for a network, and joins with these settings
            announced = self._links.announced()
            self._links.obey(self.settings, identity)
            if self._links.announced() != announced:  # others know by it what does not cross over DDS
                self._anew = "this node's links, or its name there, are others"
            self._announce()
            self._bridge.settings, self._is_news = self.settings, True
        self._engine.limit(self.settings.max_rate)
        self._services.reload()  # also where nothing changed here: they read keys, and tables that are theirs alone
        known = [*taken, *(["peers, once they are looked up"] if "peers" in changes.taken else [])]
        known += [f"{name} (service relay says how)" for name in of_services]
        log.info("settings read again; changed: %s", ", ".join(known) or "nothing")
        if self.settings.on_dds != on_dds:
            self._say_what_dds_carries()

    def _take_peers(self, new: Settings) -> None:
        """Begin anew with other peers, if each of them can be found. A thread of its own."""
        hold_signals()
        line = choose(new)
        try:
            addresses(new.peers, line.is_ipv6 if line else are_ipv6(new.peers))
        except RtmwError as error:
            log.error("the peers stay as they are: %s", error)
        else:
            self._anew = f"peers are now {', '.join(new.peers) or 'found by multicast'}"

    def _say(self, status: OwnPublisher) -> None:
        with self._refusals.barrier("status"):
            status.publish(packed(self._tell()).encode())

    def _tell(self) -> NodeStatus:
        """How the node is, for everybody who asks."""
        peers, lost = self._beacons.peers.values(), self._beacons.lost.values()
        addresses = (one.address for one in self._bridge.discovery.participants.values())
        told = replace(
            self._status.make(self._topics, self._since),
            undelivered=tuple(self._left),
            datagram=self._datagram,
            swept=self._janitor.swept,
            guid=self._guid,
            cut_off=self._cut_off,
            public_calls_only=self._flow.public_calls_only,
            hearing=hearing(peers, lost, addresses, self._named, CLOCK.monotonic()),
            refusals={**self._refusals.counts, **self._flow.refusals()},
            standstills=self._standstills.told(),
            services=self._services.told(),
            metrics_port=self._metrics.port if self._metrics else None,
            pool=self._pool,
            pool_asked=self.settings.pool_asked,
        )
        self._warn(nodes_met(told))
        if self._metrics:
            self._metrics.tell(told)
        return told

    def _warn(self, peers: list[KnownNode]) -> None:
        """Say once of each clock that it is wrong, and once that it is right again."""
        wrong = {(peer.host, peer.pid, peer.domain): peer for peer in peers if peer.warning}
        for node in wrong.keys() - self._warned.keys():
            log.warning("%s", wrong[node].warning)
        for node in self._warned.keys() - wrong.keys():
            log.info("the clock of %s is no longer in the way", self._warned[node])
        self._warned = {node: peer.host for node, peer in wrong.items()}
