"""Addresses (T2): `"service"` any receiver, `"service/pid"` one, `"service/*"` each; all with `@node` or without.

A pid is bound to one life, a `Life`: the system uses pids anew, and what was meant for a program must not reach the
next one. `lives_meant` says which of the receivers that live now an address means.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple, Self

from rtmw.transfer.errors import TransferRefused
from rtmw.transfer.fields import check_range

__all__ = ["Address", "Life", "Reach", "check_receiver", "life_of", "lives_meant"]


_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")
_LARGEST_PID: Final = 1 << 22
_START: Final = 19
"""Index of the time when the process began, in the fields of /proc/<pid>/stat behind the name of the program."""


class Reach(Enum):
    """Whom an address means."""

    ANY = "any"
    """One of the receivers, whichever takes it first."""
    ONE = "one"
    """The receiver with this pid."""
    EACH = "each"
    """Each receiver that lives when the transfer is accepted."""


def _check_name(what: str, name: str, written: str) -> str:
    if not _NAME.fullmatch(name):
        raise ValueError(
            f"{written!r} is no address: its {what} {name!r} is no name of 1 to 64 letters, digits, '_', '-' and '.', "
            "which does not begin with '-' or '.'; write 'service', 'service/pid' or 'service/*', and '@node' behind it"
        )
    return name


@dataclass(frozen=True, slots=True)
class Address:
    """Whom a transfer is for."""

    service: str
    reach: Reach = Reach.ANY
    pid: int = 0
    """The pid with Reach.ONE; else 0."""
    node: str = ""
    """Empty: this node."""

    @classmethod
    def parse(cls, written: str) -> Address:
        """Read a written address. Raises ValueError, or TypeError, which say what is wrong."""
        if not isinstance(written, str):
            raise TypeError(f"{written!r} is no address; it is text, such as 'service' or 'service@node'")
        receiver, at, node = written.partition("@")
        if at:
            _check_name("node", node, written)
        service, slash, process = receiver.partition("/")
        _check_name("service", service, written)
        if not slash:
            return cls(service, node=node)
        if process == "*":
            return cls(service, Reach.EACH, node=node)
        if not re.fullmatch(r"[1-9][0-9]{0,6}", process) or int(process) > _LARGEST_PID:
            raise ValueError(
                f"{written!r} is no address: {process!r} is neither '*' nor a process id from 1 to {_LARGEST_PID}"
            )
        return cls(service, Reach.ONE, int(process), node)

    def __str__(self) -> str:
        process = {Reach.ANY: "", Reach.ONE: f"/{self.pid}", Reach.EACH: "/*"}[self.reach]
        return f"{self.service}{process}{'@' if self.node else ''}{self.node}"


class _Life(NamedTuple):
    pid: int
    start: int
    """When the process began, in ticks of the system since it was started."""
    generation: int = 0
    """Number of the receiver among those that the process has had."""


class Life(_Life):
    """One receiver in one process, for as long as it lives: no other ever has the same three numbers on a host.

    A tuple, because it is a key wherever a frame goes, and the hash of a dataclass is Python.
    """

    __slots__ = ()

    def __new__(cls, pid: int, start: int, generation: int = 0) -> Self:
        check_range("pid", pid, _LARGEST_PID)
        check_range("start", start, (1 << 64) - 1)
        check_range("generation", generation, (1 << 32) - 1)
        return super().__new__(cls, pid, start, generation)

    @classmethod
    def of_process(cls, pid: int | None = None, generation: int = 0) -> Life | None:
        """Return the life of a process that runs now, by default this one; None: there is none, or it has ended."""
        pid = os.getpid() if pid is None else pid
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            return None
        return None if fields[0] in "ZX" else cls(pid, int(fields[_START]), generation)

    def lives(self) -> bool:
        """Does the process run? Whether its receiver is still open, the process alone knows."""
        return Life.of_process(self.pid, self.generation) == self

    def __str__(self) -> str:
        return f"{self.pid}.{self.start}.{self.generation}"


@lru_cache(maxsize=4096)
def life_of(pid: int, start: int, generation: int) -> Life:
    """Return the life with these numbers; remembered, because frames and records repeat them. Raises ValueError."""
    return Life(pid, start, generation)


def lives_meant(to: Address, receivers: Mapping[str, Collection[Life]]) -> list[Life | None]:
    """Return a receiver for each copy; None: any, or one that is found out when it has been carried there.

    `receivers`: those of this node, by service. TransferRefused: nobody is meant.
    """
    if to.reach is Reach.ANY or to.node:
        return [None]
    here = sorted(receivers.get(to.service, ()))
    meant = here if to.reach is Reach.EACH else [life for life in here if life.pid == to.pid][-1:]
    if not meant:
        pids = ", ".join(str(life.pid) for life in here) or "none"
        raise TransferRefused(
            f"{to} means nobody: the receivers of {to.service!r} are {pids}; send to {to.service!r}, which is kept "
            "until a receiver comes"
        )
    return list(meant)


def check_receiver(life: Life, service: str, receivers: Mapping[str, Collection[Life]]) -> None:
    """Raises TransferRefused: the life is no receiver of this service."""
    if life not in receivers.get(service, ()):
        raise TransferRefused(f"{life} is no receiver of {service!r}; join it first")
