"""A control store as the services see it: one value a log, with a version that each change compares.

A value is a state and slices, bytes by their position; one version covers both. Reads and changes are linearizable. A
change is APPLIED if and only if the store had the version that it names. When no answer comes, the outcome is UNKNOWN;
the next `read` that answers settles it: what that read does not show will not be applied any more.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from enum import Enum
from functools import partial
from typing import Final, NamedTuple, TypeAlias, TypeVar

from rtmw.errors import RtmwError
from rtmw.text.units import duration

SLICE_MOST: Final = 1 << 20
"""Bytes of a slice: what is changed at once stays below the largest request of etcd, 1.5 MiB."""
TIMEOUT_S: Final = 2.0
Slices: TypeAlias = Mapping[int, bytes | None]
"""The slices that a log has after a change: bytes of a new one, None for one that is there. They are neighbours: what
lies before the first and behind the last is removed."""
T = TypeVar("T")


class StoreFault(RtmwError):
    """The store gave no answer; the message says why, and what to do. Callers find it in `Store.fault`."""


class Outcome(Enum):
    """The outcome of a change. REFUSED: the store has another version, and nothing was changed. UNKNOWN: read."""

    APPLIED = "applied"
    REFUSED = "refused"
    UNKNOWN = "unknown"


class Value(NamedTuple):
    """The value of a log; version 0: there is none yet."""

    version: int = 0
    state: bytes = b""
    slices: Mapping[int, bytes] = {}
    """Empty also where they were not asked for."""


class Changed(NamedTuple):
    """The answer to a change."""

    outcome: Outcome
    version: int = 0
    """The new version of the value, if the change was applied."""


REFUSED, UNKNOWN = Changed(Outcome.REFUSED), Changed(Outcome.UNKNOWN)


class Store(ABC):
    """A control store. It belongs to the thread of one loop, and is to be closed. Logs have names as nodes have
    them."""

    where: str
    """What it is, for people."""
    fault: str = ""
    """Why the last request had no answer; empty: it had one."""
    tight: str = ""
    """Why it should get no more slices; empty: it has room."""

    def __init__(self, threads: int, timeout: float) -> None:
        """`timeout`: seconds for a request. Nothing is opened before the first one."""
        self.timeout = timeout
        self._threads = ThreadPoolExecutor(threads, "rtmw-control")

    async def read(self, log: str, *, slices: bool = False) -> Value | None:
        """The value of a log, with its slices if they are asked for. None: there was no answer; `fault` says why."""
        return await self._ask(partial(self._read, log, slices), None)

    async def change(self, log: str, version: int, state: bytes, slices: Slices) -> Changed:
        """Gives a log a new state and the slices that it has from now on. `version`: the one that the change replaces;
        0 if there is no value yet. Raises ValueError for a slice beyond SLICE_MOST."""
        for start, data in slices.items():
            if data is not None and len(data) > SLICE_MOST:
                raise ValueError(f"the slice at {start} of {log} has {len(data)} bytes; {SLICE_MOST} are possible")
        return await self._ask(partial(self._change, log, version, state, slices), UNKNOWN)

    async def _ask(self, work: Callable[[], T], unknown: T) -> T:
        """Runs `work` in a thread, and waits `timeout` for it at most; the thread may go on. `unknown`: what is
        returned if there is no answer; `fault` says why."""
        try:
            async with asyncio.timeout(self.timeout):
                answer = await asyncio.get_running_loop().run_in_executor(self._threads, work)
        except TimeoutError:
            self.fault = f"{self.where}: no answer within {duration(self.timeout)}"
        except StoreFault as fault:
            self.fault = f"{self.where}: {fault}"
        except (LookupError, ValueError, TypeError, AttributeError) as error:
            self.fault = f"{self.where}: its answer is not as it should be: {error!r}"
        else:
            self.fault = ""
            return answer
        return unknown

    @abstractmethod
    def _read(self, log: str, slices: bool) -> Value:
        """In a thread. Raises StoreFault."""

    @abstractmethod
    def _change(self, log: str, version: int, state: bytes, slices: Slices) -> Changed:
        """In a thread. Raises StoreFault: the outcome is unknown."""

    def close(self) -> None:
        """Closes the store. Nobody hears the outcome of requests on their way. Idempotent."""
        self._threads.shutdown(wait=False, cancel_futures=True)
