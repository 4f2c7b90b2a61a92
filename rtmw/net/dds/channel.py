"""A topic on which nodes talk of themselves: best effort, told again once a second; or reliably, when something has
changed. It is read strictly.

How versions live together: a node passes over what it does not know (members of JSON objects, values at the end of a
row), and what it reads never changes its meaning; what has to is told on another topic.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rtmw.net.dds.cyclone import DataReader, DataWriter, DomainParticipant, Policy, Qos, Topic, take_payloads
from rtmw.net.dds.library import matched, matched_endpoint
from rtmw.net.refusals import Refusals, Refused
from rtmw.types import resolve

_WAITING_MOST = 256
"""Samples that wait until they are read; then the oldest give way."""


class Channel:
    """Writes our own, and reads what others wrote. Not for several threads."""

    def __init__(
        self,
        participant: DomainParticipant,
        name: str,
        kind: Any,
        longest: int,
        refusals: Refusals,
        keeps: int = 0,
        is_reliable: bool = False,
    ) -> None:
        """`kind`: an IdlStruct class. `longest`: bytes of a sample that is read. `keeps`: of so many
        writers the last sample is brought reliably, also to a reader that comes later. `is_reliable`: samples are
        brought reliably to readers that are there; neither: best effort."""
        reliable = Policy.Reliability.Reliable(0) if keeps or is_reliable else Policy.Reliability.BestEffort
        durable = (Policy.Durability.TransientLocal,) if keeps else ()
        common = (reliable, *durable, Policy.IgnoreLocal.Participant)
        topic = Topic(participant, name, kind)
        self._name, self._kind, self._longest, self._refusals = name, resolve(kind), longest, refusals
        last = Policy.History.KeepLast(1 if keeps else _WAITING_MOST)
        self._writer: Any = DataWriter(participant, topic, qos=Qos(*common, last))
        self._reader: Any = DataReader(
            participant, topic, qos=Qos(*common, Policy.History.KeepLast(keeps or _WAITING_MOST))
        )

    @property
    def reader(self) -> int:
        """The DDS entity that has news."""
        return int(self._reader._ref)

    def writers(self) -> set[int]:
        """The handles of those that DDS takes to be alive."""
        return {*matched(self.reader, False)}

    def participant_of(self, writer: int) -> str:
        """The GUID of the DDS participant that has the writer of that handle; empty: it has left."""
        row = matched_endpoint(self.reader, False, writer)
        return row[1].hex() if row is not None else ""

    def write(self, value: Any) -> None:
        self._writer.write(value)

    def read(self, act: Callable[[int, Any, int], None], most: int = _WAITING_MOST) -> None:
        """Call `act` with the handle of the writer and the value of each sample that has come, and how many came after
        it. Samples that cannot be read, and those that `act` refuses, are counted."""
        samples = take_payloads(self._reader, most) if most else []
        for after, (payload, info) in zip(reversed(range(len(samples))), samples, strict=True):
            if info.valid_data:
                with self._refusals.barrier(self._name):
                    act(info.publication_handle, self._value(payload), after)

    def _value(self, payload: bytes) -> Any:
        if len(payload) > self._longest:
            raise Refused(f"a sample has {len(payload)} bytes; at most {self._longest} are read")
        assert self._kind.decode is not None
        return self._kind.decode(payload)
