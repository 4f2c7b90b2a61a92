"""Regions of shared memory: make, name, remove. The C core lays them out and attaches to them.

A region is two POSIX shared-memory objects. Both are filled under names that nobody looks for, and the control object
gets its public name last, in one step (link). So a creator that dies halfway leaves no half-made region, only
nameless leftovers, which `leftovers` finds by the pid in their names.
"""

from __future__ import annotations

import errno
import os
import re
from contextlib import suppress

import posix_ipc

from rtmw.errors import AccessDenied, DomainNotFound, SharedMemoryFull
from rtmw.shm import _core

SHM = "/dev/shm"
"""Where Linux shows shared-memory objects as files. By `os` and not `pathlib`: importing rtmw has to be quick."""


def parse_size(size: int | str) -> int:
    """Bytes of `"64M"`, `"512K"`, `"1G"` or a plain number, rounded up to whole pages."""
    units = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    match = re.fullmatch(r"(\d+)\s*([KMG]?)(?:i?B)?", str(size).strip(), re.IGNORECASE)
    if match is None:
        raise ValueError(f"{size!r} is not a size; write bytes as a number, or as '512K', '64M', '2G'")
    number = int(match[1]) * units[match[2].upper()]
    least, most = _core.SMALLEST_POOL, _core.LARGEST_POOL
    if not least <= number <= most:
        raise ValueError(f"a pool of {size!r} is not possible; it must have {least} bytes to {most}")
    return -(-number // _core.PAGE) * _core.PAGE


def domain_bytes(pool_bytes: int) -> int:
    """What a domain with a pool of this size takes of /dev/shm: the pool and its control region."""
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


def _allocate(name: str, size: int) -> posix_ipc.SharedMemory:
    """An object with all of its memory reserved: a full /dev/shm is an error here, and never a SIGBUS later."""
    shared = posix_ipc.SharedMemory(name, posix_ipc.O_CREX, mode=0o600, size=0)
    try:
        os.posix_fallocate(shared.fd, 0, size)
    except OSError as error:
        shared.close_fd()
        posix_ipc.unlink_shared_memory(name)
        if error.errno not in (errno.ENOSPC, errno.ENOMEM, errno.EFBIG):
            raise
        free = os.statvfs(SHM).f_bavail * os.statvfs(SHM).f_frsize
        raise SharedMemoryFull(
            error.errno,
            f"no room in {SHM}: {size} bytes were asked for, {free} are free; ask for a smaller pool, remove what is "
            "left over (`rtmw clean`, `rtmw doctor --fix`), or enlarge it (mount -o remount,size=... /dev/shm)",
        ) from None
    return shared


def create(domain: int, pool_bytes: int) -> bool:
    """Make the region of a domain. False: somebody else was quicker, and theirs is used."""
    nonce = int.from_bytes(os.urandom(8), "little")
    control_name, blocks_name = _core.names(domain, nonce)
    nameless = f"/rtmw.{domain}.new.{os.getpid()}.{nonce:016x}"
    control = _allocate(nameless, _core.control_bytes(pool_bytes))
    named = False
    try:
        blocks = _allocate(blocks_name, pool_bytes)
        blocks.close_fd()
        _core.format(control.fd, pool_bytes, nonce)
        os.link(SHM + nameless, SHM + control_name)
        named = True
    except FileExistsError:
        pass
    finally:
        control.close_fd()
        unlink_quietly(nameless)
        if not named:
            unlink_quietly(blocks_name)
    return named


def unlink_quietly(name: str) -> None:
    with suppress(posix_ipc.ExistentialError):
        posix_ipc.unlink_shared_memory(name)


def unlink(domain: int) -> list[str]:
    """Remove the names of a domain's region; who is attached goes on with the memory. The names that were removed."""
    control, _ = _core.names(domain, 0)
    if not os.path.exists(SHM + control):
        raise DomainNotFound(f"domain {domain} does not exist; there is nothing to remove")
    blocks = _objects(rf"rtmw\.{domain}\.blocks\.[0-9a-f]+")
    names = [control, *(f"/{name}" for name in blocks if not _is_being_made(name) or _is_named(name))]
    try:
        for name in names:
            unlink_quietly(name)
    except posix_ipc.PermissionsError:
        raise AccessDenied(f"domain {domain} belongs to another user; only that user can remove it") from None
    return names


def region_of(domain: int) -> int | None:
    """What tells the region that has a domain's number now from one that had it before. None: there is none."""
    control, _ = _core.names(domain, 0)
    try:
        return os.stat(SHM + control).st_ino
    except FileNotFoundError:
        return None


def domains() -> list[int]:
    """Numbers of the domains that exist on this host."""
    return sorted(int(name.split(".")[1]) for name in _objects(r"rtmw\.\d+\.control"))


def _objects(pattern: str) -> list[str]:
    """Names of the shared-memory objects that match, without the slash."""
    return sorted(name for name in os.listdir(SHM) if re.fullmatch(pattern, name))


def _is_running(pid: str) -> bool:
    return os.path.exists(f"/proc/{pid}")


def leftovers() -> list[str]:
    """Objects of creators that died before their region had a name, and blocks that no region names any more."""
    return [f"/{name}" for name in _objects(r"rtmw\..*") if _is_left_over(name)]


def _is_left_over(name: str) -> bool:
    if new := re.fullmatch(r"rtmw\.\d+\.new\.(\d+)\.[0-9a-f]+", name):
        return not _is_running(new[1])
    is_blocks = re.fullmatch(r"rtmw\.\d+\.blocks\.[0-9a-f]+", name)
    return is_blocks is not None and not _is_being_made(name) and not _is_named(name)


def _is_being_made(blocks: str) -> bool:
    """Is their creator still at work? To be asked before `_is_named`: a creator names them first and is done then."""
    halves = _objects(rf"rtmw\.\d+\.new\.\d+\.{blocks.rpartition('.')[2]}")
    return any(_is_running(name.split(".")[3]) for name in halves)


def _is_named(blocks: str) -> bool:
    """Does the control object of their domain name these blocks?"""
    _, domain, _, nonce = blocks.split(".")
    control, _ = _core.names(int(domain), 0)
    try:
        with open(SHM + control, "rb") as file:
            return int(nonce, 16).to_bytes(8, "little") in file.read(64)
    except FileNotFoundError:
        return False
    except PermissionError:
        return True
