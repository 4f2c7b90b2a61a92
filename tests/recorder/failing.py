"""A disk that fails: the kernel answers EIO to what a process asks of one of its files, until the process ends."""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Iterable

CALLS = {
    "x86_64": {
        "write": 1, "writev": 20, "pwrite64": 18, "pwritev": 296, "pwritev2": 328, "ftruncate": 77,
        "fsync": 74, "fdatasync": 75, "seccomp": 317,
    },
    "aarch64": {
        "write": 64, "writev": 66, "pwrite64": 68, "pwritev": 70, "pwritev2": 287, "ftruncate": 46,
        "fsync": 82, "fdatasync": 83, "seccomp": 277,
    },
}  # fmt: skip
WRITE = ("write", "writev", "pwrite64", "pwritev", "pwritev2", "ftruncate")
SYNC = ("fsync", "fdatasync")

_LOAD, _IS, _RETURN = 0x20, 0x15, 0x06
_NUMBER, _FIRST_ARGUMENT = 0, 16
_ALLOW, _EIO = 0x7FFF0000, 0x00050000 | errno.EIO
_SET_FILTER, _ALL_THREADS, _NO_NEW_PRIVILEGES = 1, 1, 38


def fail(name: str, calls: Iterable[str]) -> str:
    """From now on these calls fail, of any thread of this process, on the open file whose name has this end.

    Why they do not, or "".
    """
    machine = os.uname().machine
    if machine not in CALLS:
        return f"the system calls of {machine} are not known here"
    (descriptor,) = [int(link) for link in os.listdir("/proc/self/fd") if _target(link).endswith(name)]
    number = _install(descriptor, calls)
    return f"seccomp filters are not permitted here: {os.strerror(number)}" if number else ""


def _target(link: str) -> str:
    path = f"/proc/self/fd/{link}"
    return os.readlink(path) if os.path.islink(path) else ""


def _install(descriptor: int, calls: Iterable[str]) -> int:
    """0, or the number of the error."""
    known = CALLS[os.uname().machine]
    numbers = [known[call] for call in calls]
    rules = [
        (_LOAD, 0, 0, _NUMBER),
        *((_IS, len(numbers) - at, 0, number) for at, number in enumerate(numbers)),
        (_RETURN, 0, 0, _ALLOW),
        (_LOAD, 0, 0, _FIRST_ARGUMENT),
        (_IS, 0, 1, descriptor),
        (_RETURN, 0, 0, _EIO),
        (_RETURN, 0, 0, _ALLOW),
    ]
    packed = b"".join(struct.pack("=HBBI", *rule) for rule in rules)
    text = ctypes.create_string_buffer(packed, len(packed))
    program = ctypes.create_string_buffer(struct.pack("@HP", len(rules), ctypes.addressof(text)))
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.argtypes = [ctypes.c_long, ctypes.c_ulong, ctypes.c_ulong, ctypes.c_void_p]
    libc.prctl.argtypes = [ctypes.c_int, ctypes.c_ulong, ctypes.c_ulong, ctypes.c_ulong, ctypes.c_ulong]
    if libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0):
        return ctypes.get_errno()
    done = libc.syscall(known["seccomp"], _SET_FILTER, _ALL_THREADS, ctypes.addressof(program))
    return ctypes.get_errno() if done < 0 else errno.ESRCH if done else 0
