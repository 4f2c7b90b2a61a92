"""A domain number that nobody else has, also while another bench runs on this machine."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import rtmw

NUMBERS = range(40, 100)
"""People use the low ones, tests those from 100."""


@contextmanager
def alone() -> Iterator[None]:
    """One bench at a time looks for a number, so that two do not find the same one free."""
    with Path(tempfile.gettempdir(), f"rtmw-bench-{os.getuid()}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def is_free(number: int) -> bool:
    try:
        rtmw.Domain(number, create=False).close()
    except rtmw.DomainNotFound:
        return True
    except rtmw.DomainError:
        pass
    return False


@contextmanager
def domain(pool: str = "64M") -> Iterator[int]:
    """The number of a domain made for this measurement and removed after it."""
    with alone():
        number = next(filter(is_free, NUMBERS), None)
        if number is None:
            raise RuntimeError(f"domains {NUMBERS[0]} to {NUMBERS[-1]} all exist; `rtmw clean` removes one")
        made = rtmw.Domain(number, pool=pool)
    try:
        yield number
    finally:
        made.close()
        with suppress(rtmw.DomainNotFound):
            rtmw.Domain.unlink(number)
