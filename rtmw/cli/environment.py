"""The properties of this machine: the checks of `rtmw doctor` that need no domain."""

from __future__ import annotations

import argparse
import ctypes
import errno
import os
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from rtmw import shm
from rtmw.cli.terminal import counted, size

SHARED_MEMORY = "/dev/shm"
USUAL_POOL = 64 << 20
"""Bytes of the pool of a domain that is made with the defaults."""
FUTEX_WAITV = 449
"""Number of the system call, the same on every architecture (Linux 5.16)."""
UNKNOWN_MOST = 16
"""Hosts that cannot be found after which a check looks no more up: each may take a name server's time-out."""
ADVICE = {"cyclonedds": "only `rtmw node` and classes of cyclonedds.idl need it: pip install 'rtmw[dds]'"}
"""What is advised where a package is missing that is not needed everywhere."""
PACKAGES = ("rtmw", "numpy", "cyclonedds", "uvloop", "psutil", "rich")


FAULT: Final = 1
"""Exit status of a doctor that has found a fault."""
REMARKS: Final = 3
"""Exit status of a doctor that has found remarks alone, with --strict; else they are status 0."""


def add_strict(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--strict", action="store_true", help="status 3 if there are remarks alone (else 0)")


@dataclass(frozen=True)
class Check:
    """One thing that a doctor looks at; `advice` is empty if it is as it should be."""

    name: str
    found: str
    advice: str = ""
    remark: bool = False
    """With an advice: it works as it is, so that is a remark. Else it is a fault: something does not work."""

    @property
    def kind(self) -> str | None:
        """A fault or a remark; None: it is as it should be."""
        return ("remark" if self.remark else "fault") if self.advice else None

    def row(self) -> tuple[str, str, str | None, str | None]:
        """Returns the row for a table with CHECK_COLUMNS."""
        return self.name, self.found, self.kind, self.advice or None


CHECK_COLUMNS: Final = ("what", "found", "", "advice")


def verdict(found: Iterable[Check], faults: int = 0, remarks: int = 0) -> dict[str, int]:
    """How many faults and remarks there are; `faults`, `remarks`: beside those of the checks."""
    kinds = Counter(check.kind for check in found)
    return {"faults": kinds["fault"] + faults, "remarks": kinds["remark"] + remarks}


def status_of(found: dict[str, int], strict: bool) -> int:
    """The exit status of a doctor with this verdict."""
    if found["faults"]:
        return FAULT
    return REMARKS if strict and found["remarks"] else 0


def not_looked_up(what: str, number: int, place: str) -> Check:
    """Returns the check for hosts of a settings file that were not looked up, since UNKNOWN_MOST before them cannot
    be found. `place`: file and line."""
    advice = f"{place}: {UNKNOWN_MOST} before cannot be found; begin with those"
    return Check(counted(number, what), "not looked up", advice)


def checks() -> list[Check]:
    """All checks."""
    return [_python(), _kernel(), _shared_memory(), _futex_waitv(), *(_package(name) for name in PACKAGES)]


def _python() -> Check:
    return Check("python", f"{sys.version.split()[0]}, {os.cpu_count()} cores")


def _kernel() -> Check:
    advice = "" if sys.platform == "linux" else "rtmw needs Linux"
    system = os.uname()
    return Check("kernel", f"{system.sysname} {system.release} {system.machine}", advice)


def _shared_memory() -> Check:
    try:
        usage = os.statvfs(SHARED_MEMORY)
    except OSError as error:
        return Check(SHARED_MEMORY, str(error.strerror), f"mount a tmpfs at {SHARED_MEMORY}")
    free = usage.f_bavail * usage.f_frsize
    found = f"{size(free)} free of {size(usage.f_blocks * usage.f_frsize)}"
    return Check(SHARED_MEMORY, found, shortage(free), remark=True)


def shortage(free: int) -> str:
    """The advice where so many bytes are free; empty if a domain made with the defaults fits."""
    if free >= shm.domain_bytes(USUAL_POOL):
        return ""
    larger, fits = f"mount -o remount,size=... {SHARED_MEMORY}", shm.largest_pool(free)
    if fits is None:
        return f"no further domain fits: `rtmw clean` removes one that nobody needs, or {larger}"
    shown = f"{fits >> 20}M" if fits >= 1 << 20 else f"{fits >> 10}K"
    return f'make domains with a pool of at most {shown} (rtmw.Domain(0, pool="{shown}")), or {larger}'


def _futex_waitv() -> Check:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall(ctypes.c_long(FUTEX_WAITV), None, ctypes.c_uint(0), ctypes.c_uint(0), None, ctypes.c_int(0))
    if ctypes.get_errno() == errno.EINVAL:  # it is there, and does not take nothing
        return Check("futex_waitv", "available")
    advice = "a WaitSet uses its slower fallback; Linux 5.16 has the system call"
    return Check("futex_waitv", "missing", advice, remark=True)


def _package(name: str) -> Check:
    from importlib import metadata  # half as much again as all else that a command imports

    try:
        return Check(name, metadata.version(name))
    except metadata.PackageNotFoundError:
        return Check(name, "not installed", ADVICE.get(name, f"pip install {name}"), remark=name in ADVICE)
