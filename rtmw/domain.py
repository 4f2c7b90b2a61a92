"""A domain: programs that can meet, by number. One attachment a process, shared by all who use the number."""

from __future__ import annotations

import atexit
import os
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Final

from rtmw import shm
from rtmw.clock import CLOCK
from rtmw.closing import Closing
from rtmw.errors import ClosedError, DomainNotFound
from rtmw.qos import is_whole
from rtmw.realtime import memory_not_locked

LARGEST_ID = 232
"""The largest number of a domain, as in DDS, whose ports end there."""
NO_DOMAIN = -1
"""The number that a node has which carries no domain: its services say nothing on a bus."""
_LOOK_S: Final = 0.02
"""Seconds between looks for a domain that is awaited."""


_lock = threading.RLock()
"""A handler of a signal may attach while its thread does, and so may what logs as garbage is collected."""
_regions: weakref.WeakValueDictionary[int, shm.Region] = weakref.WeakValueDictionary()
_observed: weakref.WeakValueDictionary[int, shm.Region] = weakref.WeakValueDictionary()
"""Attachments of this process that look on only."""


def _after_fork() -> None:
    """The child attaches anew; what it inherited says so when it is used."""
    global _lock
    _lock = threading.RLock()
    _regions.clear()
    _observed.clear()
    _own.clear()


os.register_at_fork(after_in_child=_after_fork)


def _check_id(id: int) -> int:
    if not is_whole(id, 0, LARGEST_ID):
        raise ValueError(f"{id!r} is not a domain; domains have numbers from 0 to {LARGEST_ID}")
    return id


def _attach(id: int, make: Callable[[], bool], create: bool) -> shm.Region:
    while True:
        try:
            return shm.Region(id)
        except DomainNotFound:
            if not create:
                raise
        make()


def _current(regions: weakref.WeakValueDictionary[int, shm.Region], id: int) -> shm.Region | None:
    region = regions.get(id)
    return region if region is not None and region.is_current() else None


class Domain(Closing):
    """Attach to a domain, and create it first if need be.

    `id`: 0 to 232; None: the environment's RTMW_DOMAIN, else 0. `pool`: size of the message-block pool when this call
    creates the domain ("64M", or bytes). `reserve`: the share of that pool, and of the messages it can hold, which
    only priorities above 3 may use: 7 all of it, 6 three quarters, 5 a half, 4 a quarter. `group`: a Unix group, by
    name or number, whose users may attach, too, when this call creates the domain; else only the user may who creates
    it. A user who may attach can read and corrupt all of it. A domain that exists keeps its own pool, reserve and
    group. `create=False`: DomainNotFound if nobody has created it. `observe=True`: attach to look on, with
    `rtmw.observe`: a domain that exists, read-only, and without one of the 127 places that it has for processes.
    Publishers and subscribers refuse such a Domain.

    Errors: ValueError (number, pool, reserve, group), DomainNotFound, VersionMismatch, RegionDamaged, AccessDenied,
    SharedMemoryFull, LimitReached, DomainError (the process is in another time namespace than the domain).
    """

    def __init__(
        self,
        id: int | None = None,
        *,
        pool: int | str = "64M",
        reserve: float = 0.125,
        group: str | int | None = None,
        create: bool = True,
        observe: bool = False,
    ) -> None:
        pool_bytes, reserved, opened_to = shm.parse_size(pool), shm.parse_reserve(reserve), shm.parse_group(group)
        self.id = _number(id)
        with _lock:
            if observe:
                region = _current(_regions, self.id) or _current(_observed, self.id) or shm.Region(self.id, True)
                _observed[self.id] = region
            else:
                make = partial(shm.create, self.id, pool_bytes, reserved, opened_to)
                region = _current(_regions, self.id) or _attach(self.id, make, create)
                _regions[self.id] = region
        self._region: shm.Region | None = region
        self._endpoints: weakref.WeakSet[Closing] = weakref.WeakSet()

    @property
    def region(self) -> shm.Region:
        """The attachment.

        Errors: ClosedError after close(), ForkedError in a child of the process that attached, SweptError once another
        process took this one for dead.
        """
        if self._region is None:
            raise ClosedError(f"domain {self.id}: used after close()")
        self._region.check_current()
        return self._region

    @property
    def is_usable(self) -> bool:
        """Whether it is open, was attached by this process (and not by a parent), and its region was not swept."""
        return self._region is not None and self._region.is_current()

    @property
    def pool(self) -> int:
        """Bytes of the message-block pool."""
        return self.region.pool_bytes

    @property
    def reserve(self) -> float:
        """The share of the pool that only priorities above 3 may use."""
        return self.region.reserve

    def lock_memory(self) -> None:
        """Map every page of the region into this process now, and keep it in memory: no page fault later.

        For what the program itself uses, see docs/realtime.md. Error: NotPermitted, with the limit and how to raise it.
        """
        region = self.region
        try:
            region.lock_memory()
        except OSError as error:
            raise memory_not_locked(self.id, region.mapped_bytes, error) from error

    def adopt(self, endpoint: Closing) -> None:
        """Close this endpoint when the domain closes."""
        self._endpoints.add(endpoint)

    def close(self) -> None:
        """Close its publishers and subscribers, and detach when nobody in this process needs the region any more."""
        for endpoint in list(self._endpoints):
            endpoint.close()
        self._region = None

    @staticmethod
    def unlink(id: int) -> None:
        """Remove a domain from the host. Attached programs go on; programs that come later meet in a new one.

        Errors: DomainNotFound, AccessDenied.
        """
        shm.unlink(_check_id(id))
        with _lock:
            _regions.pop(id, None)
            _observed.pop(id, None)
            _own.pop(id, None)

    def __repr__(self) -> str:
        return f"<rtmw.Domain {self.id}{'' if self._region else ', closed'}>"


_own: dict[int, Domain] = {}
"""Domains that were only named by number: attached once, and closed when the interpreter ends."""


@atexit.register
def _close_own() -> None:
    """Closes the domains of `_own` at exit, before modules are torn down in whichever order: a program that ends in
    order must not look like one that died."""
    while _own:
        _own.popitem()[1].close()


def domain_of(given: int | Domain | None) -> Domain:
    """The domain that `domain=` names: a Domain, a number, or None for the environment's RTMW_DOMAIN, else 0."""
    if isinstance(given, Domain):
        return given
    number = _number(given)
    with _lock:
        kept = _own.get(number)
    if kept is not None and kept.is_usable:
        return kept
    made = Domain(number)
    with _lock:
        _own[number] = made
    return made


def domain_for_tool(id: int) -> Domain:
    """Attach to a domain that exists, as a tool that people start: one gets in where 127 processes are attached.

    It calls `region.sweep_from_last_slot()` several times a second, for those who come later. Raises as Domain does.
    """
    with _lock:
        region = _current(_regions, id) or shm.Region(_check_id(id), False, True)
        _regions[id] = region
    return Domain(id, create=False)


def domain_until_closed(given: int | Domain | None) -> AbstractContextManager[Domain]:
    """Returns a context with the domain that `domain=` names. At its end, a domain that was given by number is
    closed; one that was given as a Domain stays open."""
    return nullcontext(given) if isinstance(given, Domain) else Domain(_number(given))


def await_domain(given: int | Domain | None, seconds: float) -> AbstractContextManager[Domain]:
    """The domain, which somebody else makes within so many seconds. What was only a number is closed at the end of the
    context. DomainNotFound: nobody did."""
    if isinstance(given, Domain):
        return nullcontext(given)
    number, end = _number(given), CLOCK.monotonic() + seconds
    while True:
        try:
            return Domain(number, create=False)
        except DomainNotFound:
            if CLOCK.monotonic() >= end:
                raise DomainNotFound(
                    f"domain {number} does not exist, and nobody has made it within {seconds:g} s; start what makes "
                    "it, or wait longer (wait=math.inf: for ever)"
                ) from None
        time.sleep(_LOOK_S)


def _number(given: int | None) -> int:
    return _check_id(given if given is not None else environment_domain())


def environment_domain() -> int:
    """The number that RTMW_DOMAIN names, else 0. Raises ValueError."""
    text = os.environ.get("RTMW_DOMAIN", "0")
    try:
        return _check_id(int(text))
    except ValueError:
        raise ValueError(
            f"the environment says RTMW_DOMAIN={text!r}; it must be a number from 0 to {LARGEST_ID}"
        ) from None
