"""A topic in one direction: the DDS endpoint, and the engine's route between it and the bus."""

from __future__ import annotations

import logging
import time
from collections import Counter
from typing import Any

from rtmw.errors import RtmwError
from rtmw.net.cyclone import DataReader, DDSException, DomainParticipant, Topic
from rtmw.net.discovery import Endpoint
from rtmw.net.idl_class import idl_class, is_opaque
from rtmw.net.library import Engine, Route
from rtmw.net.names import Names
from rtmw.net.note import Note
from rtmw.net.wire import BatchingWriter, Offer, Request
from rtmw.publisher import wire_type
from rtmw.qos import Reliability
from rtmw.types import MessageType

log = logging.getLogger("rtmw.node")


def _dds_topic(participant: DomainParticipant, names: Names, topic: str, kind: MessageType) -> Any:
    try:
        return Topic(participant, names.topic(topic), idl_class(kind, names.type))
    except DDSException as error:
        raise RtmwError(
            f"DDS takes no topic {names.topic(topic)!r} of type {kind.name}; names have letters, digits and / _ . -, "
            f"and no blanks ({error})"
        ) from error


class Outgoing:
    """A topic that has publishers here. The engine takes its messages while somebody far away reads them."""

    def __init__(
        self, engine: Engine, participant: DomainParticipant, names: Names, topic: str, kind: MessageType,
        offer: Offer, lease: float,
    ) -> None:  # fmt: skip
        self.topic, self.kind, self.offer = topic, kind, offer
        self._engine, self._lease = engine, lease
        self._entity = _dds_topic(participant, names, topic, kind)
        note = Note(offer.reliability, kind).encode()
        self._writer: Any = BatchingWriter(participant, self._entity, qos=offer.qos(note))
        self._route: Route | None = None
        self._min_interval_ns = 0
        self.readers: tuple[Endpoint, ...] = ()
        self._before: Counter[str] = Counter()
        """What routes counted that have been closed since."""
        self._told_missed = 0
        self._close_by = 0.0

    def refresh(self, may_pack: bool) -> None:
        """Open the route when somebody reads, thin as far as all readers wish, and close it when the last has gone.

        `may_pack`: all that may read the topic know packs (pack.h). What is kept for later readers is not packed.
        """
        matched = [self._writer.get_matched_subscription_data(handle) for handle in self._writer.matched_sub]
        self.readers = tuple(
            Endpoint(str(one.key), str(one.participant_key), one.topic_name, one.type_name, one.qos, one.type_id)
            for one in matched
            if one is not None
        )
        interval = min((reader.min_interval_ns for reader in self.readers), default=0)
        if self._route is not None and (not self.readers or interval != self._min_interval_ns):
            self._before.update(self._route.counters())
            self._route.close()
            self._route = None
        if self._route is None and self.readers:
            self._min_interval_ns = interval
            self._open(interval)
        if self._route is not None:
            self._route.pack(may_pack and not self.offer.history)

    def _open(self, min_interval_ns: int) -> None:
        self._route = self._engine.outbound(
            topic=self.topic,
            type=wire_type(self.kind),
            writer=self._writer._ref,
            octets=is_opaque(self.kind),
            reliability=self.offer.reliability,
            depth=self.offer.depth,
            history=self.offer.history,
            min_interval_ns=min_interval_ns,
            lease_ns=int(self._lease * 1e9) if self.offer.reliability is Reliability.RELIABLE else 0,
            may_lend=not self.offer.history and is_opaque(self.kind),
        )

    def counters(self) -> dict[str, int]:
        now = self._route.counters() if self._route is not None else {}
        return {name: self._before[name] + now.get(name, 0) for name in self._before.keys() | now.keys()}

    def is_delivered(self) -> bool:
        """All that was published here has left, and what is RELIABLE has been acknowledged."""
        return self._route is None or self._route.delivered()

    def may_close(self) -> bool:
        """To be asked again and again, once it should close: all is delivered, or the lease is over since."""
        now = time.monotonic()
        self._close_by = self._close_by or now + self._lease
        return now >= self._close_by or self.is_delivered()

    def stay(self) -> None:
        """It should not close any more."""
        self._close_by = 0.0

    def tell_missed(self) -> None:
        """Say in the log what the bus could not keep for this node since it was asked last."""
        missed = self.counters().get("missed", 0)
        if missed > self._told_missed:
            log.warning(
                "topic %s: %d messages were missed before the node took them", self.topic, missed - self._told_missed
            )
        self._told_missed = missed

    def close(self) -> None:
        if self._route is not None:
            self._route.close()
        del self._route, self._writer, self._entity


class Incoming:
    """A topic that has subscribers here and writers far away."""

    def __init__(
        self, engine: Engine, participant: DomainParticipant, names: Names, topic: str, kind: MessageType,
        request: Request, offered: Offer,
    ) -> None:  # fmt: skip
        self.topic, self.kind, self.request, self.offered = topic, kind, request, offered
        self._entity = _dds_topic(participant, names, topic, kind)
        note = Note(offered.reliability, kind).encode()
        self._reader: Any = DataReader(participant, self._entity, qos=request.qos(note))
        self._route = engine.inbound(
            topic=topic,
            type=wire_type(kind),
            reader=self._reader._ref,
            octets=is_opaque(kind),
            reliability=offered.reliability,
            priority=offered.priority,
            depth=offered.depth,
            history=offered.history,
            filtered=request.min_interval_ns > 0,
        )

    def heard(self) -> set[str]:
        """The writers that it hears, by guid."""
        matched = [self._reader.get_matched_publication_data(handle) for handle in self._reader.matched_pub]
        return {str(writer.key) for writer in matched if writer is not None}

    def counters(self) -> dict[str, int]:
        return self._route.counters()

    def close(self) -> None:
        self._route.close()
        del self._route, self._reader, self._entity
