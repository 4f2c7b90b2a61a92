"""Who came, left and died, and which pairs do not match, as it happens; nothing is subscribed, and no place is taken.

Deaths are told by pidfds, all else by the fingerprint of all endpoints, which is compared every 50 ms: tables are read
when it is another one. Endpoints on other hosts are those of which the node of the domain tells once a second.
"""

from __future__ import annotations

import os
import select
import threading
import weakref
from collections import deque
from contextlib import ExitStack
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final, Self

from rtmw import shm
from rtmw.clock import CLOCK
from rtmw.closing import Closing
from rtmw.domain import Domain
from rtmw.matching import Peer, apart, type_name_of
from rtmw.observe.views import NODE_TOPIC, PARKED, program
from rtmw.qos import Reliability
from rtmw.text.patterns import is_own
from rtmw.text.strict_json import JsonError

if TYPE_CHECKING:
    from rtmw.observe.node_status import Member

__all__ = ["Event", "EventKind", "Events", "events"]

_LOOK_S: Final = 0.05
_NODE_S: Final = 1.0
_MOST_BYTES: Final = 1 << 20
_NAMED_MOST: Final = 4


class EventKind(StrEnum):
    """What happened."""

    CAME = "came"
    """A publisher or subscriber was opened."""
    LEFT = "left"
    """It was closed; or, on another host, is gone in whatever way."""
    DIED = "died"
    """A process ended without closing what it had: one event for all of it."""
    UNMATCHED = "unmatched"
    """A subscriber does not get what a publisher of its topic publishes."""


@dataclass(frozen=True)
class Event:
    """Something that happened to an endpoint, or to a process."""

    kind: EventKind
    topic: str
    """Empty for DIED."""
    program: str
    pid: int
    host: str
    """Empty: this one."""
    text: str
    """`publisher` or `subscriber`; of the dead, what they had; UNMATCHED: the reason, as `stats().unheard` has it."""

    def __str__(self) -> str:
        where = f" on {self.host}" if self.host else ""
        return " ".join(filter(None, (self.kind.value, self.topic, f"{self.program} ({self.pid}){where}: {self.text}")))


@dataclass(frozen=True)
class _Endpoint:
    topic: str
    publishes: bool
    program: str
    pid: int
    host: str = ""
    peer: Peer | None = None
    """Here."""
    apart: str = ""
    """Elsewhere: why it meets nobody here."""

    @property
    def role(self) -> str:
        return "publisher" if self.publishes else "subscriber"

    def event(self, kind: EventKind, text: str = "") -> Event:
        return Event(kind, self.topic, self.program, self.pid, self.host, text or self.role)


def events(domain: int | Domain | None = None) -> Events:
    """What happens in a domain from now on. Errors: those of Domain."""
    return Events(domain)


class Events(Closing):
    """Made by `events`. It ends with `close`, from another thread or task, or at the end of its `with` block."""

    def __init__(self, domain: int | Domain | None) -> None:
        self._held = ExitStack()
        self._lock = threading.RLock()
        """Held while it looks and waits, so that `close` takes no descriptor away from under that."""
        held = domain if isinstance(domain, Domain) else self._held.enter_context(Domain(domain, observe=True))
        self._domain: Domain = held
        self._found: deque[Event] = deque()
        self._known: dict[object, _Endpoint] = {}
        self._elsewhere: dict[object, _Endpoint] | None = None
        self._watched: dict[int, int] = {}
        """Processes by their pidfds."""
        self._seen: int | None = None
        self._node_at = 0.0
        self._epoll = select.epoll()
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._epoll.register(self._wake, select.EPOLLIN)
        self._closed, self._pid = False, os.getpid()
        self._descriptors = weakref.finalize(self, _give_back, self._epoll, self._wake, self._watched)
        self._look([])
        self._found.clear()

    def _step(self, seconds: float) -> None:
        """Wait for a death for so long at most, then look."""
        with self._lock:
            if self._closed:
                return
            try:
                ended = [fd for fd, _ in self._epoll.poll(seconds) if fd in self._watched]
                if not self._closed:
                    self._look(ended)
            except Exception:
                if not self._closed:  # by a handler of a signal, meanwhile
                    raise

    def _look(self, ended: list[int]) -> None:
        region = self._domain.region
        endpoints = region.endpoints_fingerprint()
        if endpoints != self._seen or ended:
            self._seen = endpoints
            self._unwatch(ended)
            self._compare(region)
        if CLOCK.monotonic() >= self._node_at:
            self._node_at = CLOCK.monotonic() + _NODE_S
            self._look_elsewhere()

    # ---- here ----

    def _compare(self, region: shm.Region) -> None:
        """The table knows who is dead by the time at which a pidfd says so; another process may have that pid since."""
        rows, dead = self._settled(region)
        now = {key: one for key, (one, is_alive) in rows.items() if is_alive}
        for pid in dead:
            had = [one for one in self._known.values() if one.pid == pid]
            if had:
                self._found.append(Event(EventKind.DIED, "", had[0].program, pid, "", _told(had)))
        before = {key: one for key, one in self._known.items() if key in now or one.pid not in dead}
        self._known = now
        self._tell_unmatched(self._tell(before, now))
        self._watch({one.pid for one in now.values()} - {0})

    def _tell(self, before: dict[object, _Endpoint], now: dict[object, _Endpoint]) -> dict[object, _Endpoint]:
        """Tells who has left and who has come; returns those who have come."""
        came = {key: one for key, one in now.items() if key not in before}
        self._found.extend(one.event(EventKind.LEFT) for key, one in before.items() if key not in now)
        self._found.extend(one.event(EventKind.CAME) for one in came.values())
        return came

    def _settled(self, region: shm.Region) -> tuple[dict[object, tuple[_Endpoint, bool]], set[int]]:
        """The rows, and who is dead of them. Of a process that dies while they are read some are alive: they are read
        again, and then only another process with its pid has such."""
        dead: set[int] = set()
        while True:
            rows, before = self._rows(region, region.names()), dead
            dead = {one.pid for one, is_alive in rows.values() if not is_alive}
            if not any(is_alive and one.pid in dead - before for one, is_alive in rows.values()):
                return rows, dead

    def _rows(self, region: shm.Region, names: dict[int, str]) -> dict[object, tuple[_Endpoint, bool]]:
        topics, types = {row.life: row.name for row in shm.topics(region)}, region.types()
        found: dict[object, tuple[_Endpoint, bool]] = {}
        rows: list[shm.PublisherRow | shm.SubscriberRow] = [*shm.publishers(region), *shm.subscribers(region)]
        for row in rows:
            topic, publishes = topics.get(row.topic, NODE_TOPIC), isinstance(row, shm.PublisherRow)
            if is_own(topic):
                continue
            peer = Peer(row.pid, row.type, type_name_of(types, row.type), Reliability(row.reliability))
            name = program(names.get(row.pid, "?")) if row.pid else PARKED
            found[publishes, row.identity] = _Endpoint(topic, publishes, name, row.pid, peer=peer), row.is_alive
        return found

    def _tell_unmatched(self, came: dict[object, _Endpoint]) -> None:
        """Tells each pair that does not match and has a member in `came`."""
        readers: dict[str, list[object]] = {one.topic: [] for one in came.values()}
        for key, one in self._known.items():
            if not one.publishes and one.topic in readers:
                readers[one.topic].append(key)
        for key, writer in self._known.items():
            for of in readers.get(writer.topic, ()) if writer.publishes else ():
                reader = self._known[of]
                is_new = key in came or of in came
                reason = apart(writer.peer, reader.peer) if is_new and writer.peer and reader.peer else None
                if reason is not None:
                    self._found.append(reader.event(EventKind.UNMATCHED, reason))

    def _watch(self, pids: set[int]) -> None:
        self._unwatch([fd for fd, pid in self._watched.items() if pid not in pids])
        for pid in pids - {*self._watched.values()}:
            try:
                fd = os.pidfd_open(pid)
            except ProcessLookupError:  # gone, or of another pid namespace: then the table says that it is dead
                continue
            except OSError:  # there is no descriptor: the table is read again each time, and says it, too
                self._seen = None
                continue
            self._watched[fd] = pid
            self._epoll.register(fd, select.EPOLLIN)

    def _unwatch(self, descriptors: list[int]) -> None:
        for fd in descriptors:
            del self._watched[fd]
            self._epoll.unregister(fd)  # close() does not, while a child of fork() has a copy
            os.close(fd)

    # ---- elsewhere ----

    def _look_elsewhere(self) -> None:
        told = _elsewhere(self._domain) if self._domain.region.topic_life(NODE_TOPIC) else {}
        if told is None:
            return
        before, self._elsewhere = self._elsewhere, told
        came = {} if before is None else self._tell(before, told)  # None: who was there when this began
        self._found.extend(one.event(EventKind.UNMATCHED, one.apart) for one in came.values() if one.apart)

    # ---- for, async for ----

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Event:
        while not self._found:
            if self._closed:
                raise StopIteration
            self._step(_LOOK_S)
        return self._found.popleft()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        import asyncio  # where it is used: commands that only look do without

        while not self._found:
            if self._closed:
                raise StopAsyncIteration
            self._step(0.0)
            await asyncio.sleep(0.0 if self._found else _LOOK_S)
        return self._found.popleft()

    def close(self) -> None:
        """End it; a thread that waits returns. In a child of fork() it takes nothing away from the parent."""
        if self._closed:
            return
        self._closed = True
        if os.getpid() == self._pid:
            os.eventfd_write(self._wake, 1)
            with self._lock:  # which in a child may be held by a thread that is not there
                self._descriptors()
        else:
            self._descriptors()
        self._held.close()


def _give_back(epoll: select.epoll, wake: int, watched: dict[int, int]) -> None:
    epoll.close()
    for descriptor in (wake, *watched):
        os.close(descriptor)


def _told(had: list[_Endpoint]) -> str:
    """What the dead had, in words."""
    words = [f"{one.role} of {one.topic}" for one in had[:_NAMED_MOST]]
    more = f" and {len(had) - _NAMED_MOST} more" if len(had) > _NAMED_MOST else ""
    return f"it ended without closing; it was {', '.join(words)}{more}"


def _elsewhere(domain: Domain) -> dict[object, _Endpoint] | None:
    """Endpoints on other hosts, as the node tells; None: what it tells cannot be read now."""
    from rtmw.observe.node_status import node_seen  # few that look on meet a node

    try:
        status = node_seen(domain)
    except JsonError:
        return None
    return {} if status is None else {member: _far(member, status.host) for member in status.elsewhere}


def _far(member: Member, here: str) -> _Endpoint:
    place = member.host
    if place in (here, ""):
        place = "DDS" if member.domain is None else f"domain {member.domain}"
    return _Endpoint(member.topic, member.publishes, member.program, member.pid, place, apart=member.apart)
