"""The types of programs that are no nodes, as these describe them. They are asked in a thread: it may take seconds."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from rtmw.clock import CLOCK, Clock
from rtmw.errors import RtmwError
from rtmw.net.dds.cyclone import DDSException, DomainParticipant, TypeIdentifier, get_types_for_typeid
from rtmw.net.dds.discovery import Endpoint
from rtmw.net.dds.idl_class import idl_class
from rtmw.net.dds.names import Names
from rtmw.types import MessageType, resolve

_WAIT_NS = 1_000_000_000
"""Nanoseconds that one answer is waited for."""
_RETRY_S = 5.0
"""A type that was not told is asked for again after so long."""
_MOST = 1000
"""Types that are known at a time."""


class Lookup:
    """Types by their identifiers. Not for several threads."""

    def __init__(self, participant: DomainParticipant, names: Names, clock: Clock = CLOCK) -> None:
        self._participant, self._names, self._clock = participant, names, clock
        self._thread = ThreadPoolExecutor(1, "rtmw type lookup")
        self._asked: dict[bytes, Future[MessageType]] = {}
        self._failed: dict[bytes, float] = {}
        """When, by CLOCK_MONOTONIC."""

    def find(self, writer: Endpoint) -> MessageType | None:
        """The type of a writer; None: it is being asked for. Raises RtmwError or DDSException: it cannot be had."""
        if writer.type_id is None:
            raise RtmwError("the program does not describe its types; subscribe with the type's class")
        key = writer.type_id
        asked = self._asked.get(key)
        if asked is None or self._is_due(key):
            if len(self._asked) >= _MOST:
                self._forget()
            self._failed.pop(key, None)
            self._asked[key] = self._thread.submit(self._ask, key)
            return None
        if not asked.done():
            return None
        if asked.exception() is not None:
            self._failed.setdefault(key, self._clock.monotonic())
        return asked.result()

    def _is_due(self, key: bytes) -> bool:
        return key in self._failed and self._clock.monotonic() - self._failed[key] > _RETRY_S

    def _forget(self) -> None:
        """The oldest answer; of those who have not been answered, the one who asked first."""
        key = next((key for key, asked in self._asked.items() if asked.done()), next(iter(self._asked)))
        self._asked.pop(key).cancel()
        self._failed.pop(key, None)

    def _ask(self, key: bytes) -> MessageType:
        try:
            type_id: Any = TypeIdentifier.deserialize(key, has_header=False, use_version_2=True)
            kind = resolve(get_types_for_typeid(self._participant, type_id, _WAIT_NS)[0])
            return resolve(idl_class(kind, self._names.local_type)) if self._names.ros2 else kind
        except (RtmwError, DDSException):
            raise
        except Exception as error:  # any that cyclonedds raises for a description that is none
            raise RtmwError(f"its description cannot be read: {error}") from error

    def close(self) -> None:
        self._thread.shutdown(cancel_futures=True)
