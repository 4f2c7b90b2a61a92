"""Regions of shared memory: find and remove them, and see what is in one, as rows with names.

The C core makes them (region.c) and attaches to them.

A region is two POSIX shared-memory objects. Both are filled under names that nobody looks for, and the control object
gets its public name last, in one step (link). So a creator that dies halfway leaves no half-made region, only
nameless leftovers, which `leftovers` finds by the pid in their names.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
import stat
from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple, TypeVar

from rtmw.errors import AccessDenied, DomainNotFound, SharedMemoryFull
from rtmw.locks import is_locked
from rtmw.shm import _core
from rtmw.shm._core import Region
from rtmw.text.units import size_of

SHM = "/dev/shm"
"""Where Linux shows shared-memory objects as files. By `os` and not `pathlib`: importing rtmw has to be quick."""
NO_GROUP = 0xFFFFFFFF
"""The number that no group has: chown(2) takes it for none."""
_NO_ROOM = (errno.ENOSPC, errno.ENOMEM, errno.EFBIG)


def parse_size(size: int | str) -> int:
    """Bytes of `"64M"`, `"512K"`, `"1G"` or a plain number, rounded up to whole pages."""
    number = size_of(size)
    least, most = _core.SMALLEST_POOL, _core.LARGEST_POOL
    if not least <= number <= most:
        raise ValueError(f"a pool of {size!r} is not possible; it must have {least} bytes to {most}")
    return -(-number // _core.PAGE) * _core.PAGE


def parse_reserve(reserve: float) -> int:
    """1024ths of a share of the pool between 0 and 1/2."""
    whole, most = _core.RESERVE_WHOLE, _core.RESERVE_MOST
    if isinstance(reserve, bool) or not isinstance(reserve, int | float) or not 0 <= reserve <= most / whole:
        raise ValueError(
            f"a reserve of {reserve!r} is not possible; it is a share of the pool from 0 to {most / whole:g}"
        )
    return round(reserve * whole)


def parse_group(group: int | str | None) -> int | None:
    """The number of a group of this host, by its name or number. Raises ValueError."""
    if group is None or (isinstance(group, int) and not isinstance(group, bool) and 0 <= group < NO_GROUP):
        return group
    if not isinstance(group, str) or not group:
        raise ValueError(f"{group!r} is not a group; it is the name of one, or its number")
    import grp  # where nobody names a group, nobody waits for it

    try:
        return grp.getgrnam(group).gr_gid
    except KeyError:
        if group.isascii() and group.isdecimal():
            return parse_group(int(group))
        raise ValueError(f"there is no group {group!r} on this host; getent group lists those there are") from None


def group_name(number: int) -> str:
    import grp

    try:
        return grp.getgrgid(number).gr_name
    except KeyError:
        return str(number)


def _user_name(number: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def group_of(domain: int) -> int | None:
    """The group that a domain is open to; None: it is for one user. Raises FileNotFoundError."""
    about = os.lstat(SHM + _core.names(domain, 0)[0])
    return about.st_gid if about.st_mode & 0o060 == 0o060 else None


def denied(domain: int) -> str:
    """Why a user may not attach, and what to do."""
    path = SHM + _core.names(domain, 0)[0]
    why = foreign(path)
    if why:
        return f"domain {domain} cannot be used: {why}. Use another number until then"
    try:
        group = group_of(domain)
    except OSError:
        group = None
    if group is None:
        return (
            f"domain {domain} belongs to another user; use another number, or run as that user. The user who creates a "
            f'domain can open it to a group: rtmw.Domain({domain}, group="plant")'
        )
    name = group_name(group)
    return (
        f"domain {domain} is open to the users of group {name}, and this process is not in that group; add its user "
        f"(usermod -aG {name} USER, then log in anew), or use another number"
    )


def foreign(path: str) -> str | None:
    """Whose what has the name of a file of a region is, why rtmw does not open it (trusted.h), and who can remove it.

    None: nothing has the name, or it is the file of a user, for that user or for a group."""
    try:
        about = os.lstat(path)
    except OSError:
        return None
    if not stat.S_ISREG(about.st_mode):
        why = "is not a regular file"
    elif about.st_mode & stat.S_IWOTH:
        why = "may be written by every user"
    else:
        return None
    owner = _user_name(about.st_uid)
    return f"{path} {why}, so rtmw does not open it; {owner}, who made it, or root can remove it"


def domain_bytes(pool_bytes: int) -> int:
    """Bytes of /dev/shm that a domain with a pool of this size takes: the pool, and tables that grow with it."""
    return pool_bytes + _core.control_bytes(pool_bytes)


def largest_pool(free: int) -> int | None:
    """The largest pool, in whole KiB, of a domain that fits into so many bytes; None: not even the smallest does."""
    low, high = _core.SMALLEST_POOL >> 10, min(free, _core.LARGEST_POOL) >> 10
    if domain_bytes(low << 10) > free:
        return None
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if domain_bytes(middle << 10) <= free else (low, middle - 1)
    return low << 10


def _mebibytes(size: int) -> str:
    return f"{-(-size // (1 << 20))} MiB"


def _power_of_two(size: int) -> int:
    """The largest power of two up to this size, so that some room is left over; 0 below a MiB."""
    return 1 << (size.bit_length() - 1) if size >= 1 << 20 else 0


def _no_room(domain: int, pool_bytes: int, number: int) -> SharedMemoryFull:
    about = os.statvfs(SHM)
    free, whole = about.f_bavail * about.f_frsize, about.f_blocks * about.f_frsize
    fits = _power_of_two(min(largest_pool(free) or 0, pool_bytes - 1))
    pool, tables = _mebibytes(pool_bytes), _mebibytes(_core.control_bytes(pool_bytes))
    advice = f'; here rtmw.Domain({domain}, pool="{fits >> 20}M") fits' if fits else ""
    return SharedMemoryFull(
        number,
        f"no room in {SHM} for domain {domain}: it needs {_mebibytes(domain_bytes(pool_bytes))}, a pool of {pool} and "
        f"{tables} of tables, and {_mebibytes(free)} of {_mebibytes(whole)} are free. Ask for a smaller pool{advice}, "
        "remove what is left over (`rtmw clean`, `rtmw doctor --fix`), or enlarge it (a container: --shm-size=256m; "
        "else: mount -o remount,size=256m /dev/shm)",
    )


def create(domain: int, pool_bytes: int, reserve: int, group: int | None = None) -> bool:
    """Make the region of a domain, with so many 1024ths of its pool for urgent messages alone, for this user, or for
    all users of a group.

    False: somebody else was quicker, and theirs is used.
    """
    try:
        return _core.create(domain, pool_bytes, reserve, -1 if group is None else group)
    except OSError as error:
        if error.errno in _NO_ROOM:
            raise _no_room(domain, pool_bytes, error.errno) from None
        if error.errno == errno.EPERM and group is not None:
            name = group_name(group)
            raise AccessDenied(
                f"domain {domain} cannot be opened to group {name}: this process is not in that group; add its user "
                f"(usermod -aG {name} USER, then log in anew), or name a group that it is in (id -Gn)"
            ) from None
        raise


def unlink_quietly(name: str) -> None:
    """Nothing where there is none. Raises PermissionError: it is of another user."""
    with suppress(FileNotFoundError):
        os.unlink(SHM + name)


def unlink(domain: int) -> list[str]:
    """Remove the names of a domain's region; attached processes go on with the memory. The names that were removed."""
    control, _ = _core.names(domain, 0)
    if not os.path.exists(SHM + control):
        raise DomainNotFound(f"domain {domain} does not exist; there is nothing to remove")
    beside = _objects(rf"rtmw\.{domain}\.(blocks|carried)\.[0-9a-f]+")
    used = [control, *(f"/{name}" for name in beside if not _is_being_made(name) or _is_named(name))]
    names = [*used, *(name for name in leftovers(domain) if name not in used)]
    try:
        unlink_quietly(control)
        for name in names:
            with suppress(PermissionError):  # of another user of its group, and nobody's from now on
                unlink_quietly(name)
    except PermissionError:
        owner = _user_name(os.stat(SHM + control).st_uid)
        raise AccessDenied(
            f"domain {domain} belongs to another user, {owner}; only that user can remove it, and root"
        ) from None
    return names


def region_of(domain: int) -> int | None:
    """A number that tells the region a domain's number has now from one that it had before. None: there is none."""
    control, _ = _core.names(domain, 0)
    try:
        return os.lstat(SHM + control).st_ino
    except FileNotFoundError:
        return None


def beside(domain: int, nonce: int, what: str) -> str:
    """The path of a file that belongs to a region, and is removed with it."""
    return f"{SHM}/rtmw.{domain}.{what}.{nonce:016x}"


def make_beside(path: str, domain: int) -> None:
    """Makes such a file, if it is not there, for those who may attach to the domain. What has the name already is not
    opened here. Raises OSError."""
    with suppress(FileExistsError):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            group = group_of(domain)
            if group is not None:
                os.fchown(descriptor, -1, group)
                os.fchmod(descriptor, 0o660)
        finally:
            os.close(descriptor)


def domains() -> list[int]:
    """Numbers of the domains that exist on this host."""
    return sorted(int(name.split(".")[1]) for name in _objects(r"rtmw\.\d+\.control"))


def _objects(pattern: str) -> list[str]:
    """Names of the shared-memory objects that match, without the slash."""
    return sorted(name for name in os.listdir(SHM) if re.fullmatch(pattern, name))


def leftovers(domain: int | None = None) -> list[str]:
    """Objects of creators that died before their region had a name, and what belonged to a region that is gone."""
    of = r"\d+" if domain is None else str(domain)
    return [f"/{name}" for name in _objects(rf"rtmw\.{of}\..*") if _is_left_over(name)]


def remove_leftovers(domain: int | None = None) -> list[str]:
    """Removes the objects that `leftovers` names and this user may remove. Returns the names of those removed."""
    removed = list[str]()
    for name in leftovers(domain):
        with suppress(PermissionError):
            unlink_quietly(name)
            removed.append(name)
    return removed


def _is_left_over(name: str) -> bool:
    if re.fullmatch(r"rtmw\.\d+\.new\.\d+\.[0-9a-f]+", name):
        return not _creator_lives(name)
    is_beside = re.fullmatch(r"rtmw\.\d+\.(blocks|carried)\.[0-9a-f]+", name)
    return is_beside is not None and not _is_being_made(name) and not _is_named(name)


def _opened(path: str, flags: int) -> int:
    """Every user may make files there: a symbolic link is not followed, and a pipe is not waited for."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)


def _creator_lives(new: str) -> bool:
    """Does who makes this nameless object live? Its pid may mean another process here, or none: then the lock tells."""
    if os.path.exists(f"/proc/{new.split('.')[3]}"):
        return True
    try:
        with open(f"{SHM}/{new}", "rb", opener=_opened) as file:
            return is_locked(file.fileno())
    except FileNotFoundError:
        return False
    except OSError:  # not to be known
        return True


def _is_being_made(beside: str) -> bool:
    """Is their creator still at work? To be asked before `_is_named`: a creator names them first and is done then."""
    halves = _objects(rf"rtmw\.\d+\.new\.\d+\.{beside.rpartition('.')[2]}")
    return any(_creator_lives(name) for name in halves)


def _is_named(beside: str) -> bool:
    """Does the control object of their domain name these blocks, or the blocks that this lies beside?"""
    _, domain, _, nonce = beside.split(".")
    control, _ = _core.names(int(domain), 0)
    try:
        with open(SHM + control, "rb", opener=_opened) as file:
            return int(nonce, 16).to_bytes(8, "little") in file.read(64)
    except FileNotFoundError:
        return False
    except OSError:  # of another user, or no file of rtmw
        return True


def make_linkable() -> None:
    """Makes the core's functions visible to C modules that are imported from now on.

    Those of services call them by name: the core comes without a file to link with.
    """
    ctypes.CDLL(_core.__file__, mode=ctypes.RTLD_GLOBAL)


class TopicRow(NamedTuple):
    life: int
    """The number by which other rows know the topic: another one once the topic was given up and made again."""
    name: str
    retired_bytes: int
    """Payload bytes of publishers that are gone."""
    bands: tuple[tuple[int, int], ...]
    """For each priority: the number of messages published, and of messages kept."""
    history: int
    """The largest number of messages that a publisher of it promised to keep."""


class PublisherRow(NamedTuple):
    topic: int
    """`life` of its topic."""
    identity: int
    """Identity of the endpoint within the host; the upper 32 bits are the process id."""
    type: int
    """Key in `Region.types`, or TYPE_RAW."""
    reliability: int
    priority: int
    depth: int
    history: int
    published: int
    bytes: int
    timed_out: int
    exhausted: int
    max_blocking: int
    """Nanoseconds, plus 1; 0: not known; 2^64 - 1: no limit."""
    lifetime_ns: int
    """0: no limit."""
    is_alive: bool
    """False: its program has died, and nobody has cleaned up after it yet."""
    held_by_history: int = 0
    """How many of `exhausted` were refused while `history` kept more of the memory than RELIABLE subscribers need."""

    @property
    def pid(self) -> int:
        return pid_of(self.identity)


class SubscriberCounters(NamedTuple):
    received: int
    bytes: int
    behind: int
    missed: int
    expired: int
    thinned: int
    unmatched: int
    other_types: int
    deadlines_missed: int
    lapses: int


class SubscriberRow(NamedTuple):
    topic: int
    """`life` of its topic."""
    identity: int
    """Identity of the endpoint within the host; the upper 32 bits are the process id."""
    type: int
    """Key in `Region.types`, TYPE_RAW or TYPE_ANY."""
    reliability: int
    depth: int
    counters: SubscriberCounters
    reached: tuple[int, ...]
    """The last sequence that it has come to, of each priority."""
    latency: list[tuple[int, int, int]]
    """Buckets: from, to (nanoseconds, inclusive), how many messages."""
    history: int
    min_interval_ns: int
    deadline_ns: int
    is_exact: int
    """1: it is matched with publishers of just its reliability."""
    lease_ns: int
    is_parked: bool
    """A node has left it to the next one."""
    is_alive: bool
    """False: its program has died, or the time for which it was parked is over; nobody has cleaned up after it yet."""

    @property
    def pid(self) -> int:
        return pid_of(self.identity)


Row = TypeVar("Row", PublisherRow, SubscriberRow)


def pid_of(identity: int) -> int:
    """The process of an endpoint, by its identity within the host."""
    return identity >> 32


def topics(region: Region) -> list[TopicRow]:
    return [*map(TopicRow._make, region.topics())]


def publishers(region: Region, topic: int = 0) -> list[PublisherRow]:
    """Rows of the publishers of the topic with this `life`; 0: of all topics."""
    return [*map(PublisherRow._make, region.publishers(topic))]


def subscribers(region: Region, topic: int = 0) -> list[SubscriberRow]:
    """Rows of the subscribers of the topic with this `life`; 0: of all topics."""
    return [
        SubscriberRow(*row[:5], SubscriberCounters._make(row[5]), row[6], row[7], *row[8][:5], *row[8][5:])
        for row in region.subscribers(topic)
    ]


def living(rows: Iterable[Row]) -> list[Row]:
    """The rows of endpoints that take part: a dead program's stay in the region until somebody cleans up."""
    return [row for row in rows if row.is_alive]
