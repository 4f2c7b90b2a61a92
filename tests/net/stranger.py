"""A DDS program that means harm, on loopback: what it announces and sends is no node's, and often nothing at all."""

from __future__ import annotations

import ctypes
import json
import struct
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rtmw.net.dds.library import DataWriter, DomainParticipant, Policy, Qos, Topic, dds, matched
from rtmw.net.dds.own_topics import Beacon, Echo, Roster
from rtmw.net.dds.wire import MARK, join
from rtmw.net.settings import Settings
from tests.net.hosts import wait_until
from tests.net.raw import OCTETS, write_bytes

NOT_TEXT = b"\xff\xfe\xc0evil"

for _make in ("dds_create_qos", "dds_create_participant", "dds_create_writer"):
    getattr(dds, _make).restype = ctypes.c_void_p if _make == "dds_create_qos" else ctypes.c_int


class Stranger:
    """A participant, and what it does. All of it goes when the stranger goes."""

    def __init__(self, participant: DomainParticipant, dds_domain: int) -> None:
        self._participant, self._dds_domain, self._kept = participant, dds_domain, list[Any]()

    def tell(self, topic: str, kind: Any, *values: Any) -> Callable[[], None]:
        """On a topic of the nodes, which both of them read. A value of bytes is a whole sample. What is returned tells
        it again: the first time may be before a node knows the writer."""
        reliable = (Policy.Reliability.Reliable(0), Policy.Durability.TransientLocal)
        quality = Qos(*reliable) if topic == "rtmw/members" else Qos(Policy.Reliability.BestEffort)
        writer: Any = DataWriter(self._participant, Topic(self._participant, topic, kind), qos=quality)
        self._kept.append(writer)
        wait_until(lambda: len(matched(writer._ref, True)) == 2, "the nodes do not read it")
        samples = [_pad(value if isinstance(value, bytes) else value.serialize(), 4) for value in values]

        def again() -> None:
            for sample in samples:
                write_bytes(writer, sample)

        again()
        return again

    def offer(self, topic: str, *policies: Any) -> Any:
        """A writer of bytes."""
        quality = Qos(Policy.Reliability.Reliable(0), *policies)
        writer: Any = DataWriter(self._participant, Topic(self._participant, topic, OCTETS), qos=quality)
        self._kept.append(writer)
        return writer

    def offer_in_partition(self, topic: str, partition: bytes) -> None:
        made: Any = Topic(self._participant, topic, OCTETS)
        quality = ctypes.c_void_p(dds.dds_create_qos())
        dds.dds_qset_partition1(quality, partition)
        self._kept.append(made)
        assert dds.dds_create_writer(self._participant._ref, made._ref, quality, None) > 0

    def join_as(self, **said: bytes) -> None:
        """A further participant, with these properties, or with `userdata`."""
        quality = ctypes.c_void_p(dds.dds_create_qos())
        data = said.pop("userdata", b"")
        dds.dds_qset_userdata(quality, data, ctypes.c_size_t(len(data)))
        for name, value in said.items():
            dds.dds_qset_prop(quality, name.encode(), value)
        entity = dds.dds_create_participant(self._dds_domain, quality, None)
        assert entity > 0
        self._kept.append(_Joined(entity))

    def close(self) -> None:
        self._kept.clear()


class _Joined:
    def __init__(self, entity: int) -> None:
        self._entity = entity

    def __del__(self) -> None:
        dds.dds_delete(self._entity)


@contextmanager
def stranger_in(dds_domain: int) -> Iterator[Stranger]:
    kept, participant = join(Settings(domain=dds_domain), b"{}")
    stranger = Stranger(participant, dds_domain)
    yield stranger
    stranger.close()
    del kept, participant


def beacon(node: int, host: str = "evil", echoes: tuple[Any, ...] = ()) -> Any:
    return Beacon(node, host, 1, 1, 1, list(echoes))


def echo(node: int, sent_ns: int, received_ns: int) -> Any:
    return Echo(node, sent_ns, received_ns)


def roster(members: str, host: str = "evil") -> Any:
    return Roster(host, 1, members)


def beacon_of_bytes(host: bytes) -> bytes:
    """A beacon whose host is these bytes."""
    sample = _text(struct.pack("<Q", 7), host)
    return _finish(_pad(sample, 4) + struct.pack("<II", 1, 1), 8, struct.pack("<qI", 5, 0))


def roster_of_bytes(host: bytes, members: bytes) -> bytes:
    """A roster of these bytes."""
    return _finish(_text(_pad(_text(b"", host), 4) + struct.pack("<I", 5), members), 1, b"")


def _text(before: bytes, text: bytes) -> bytes:
    return before + struct.pack("<I", len(text) + 1) + text + b"\0"


def _pad(sample: bytes, to: int) -> bytes:
    return sample.ljust(-(-len(sample) // to) * to, b"\0")


def _finish(body: bytes, to: int, end: bytes) -> bytes:
    return b"\0\1\0\0" + _pad(_pad(body, to) + end, 4)


def note(fields: list[Any], types: dict[str, Any]) -> Any:
    """What a writer says of a type that nobody can have."""
    document = {"kind": "cdr", "name": "T", "xcdr": 1, "extensibility": "final", "fields": fields, "types": types}
    packed = zlib.compress(json.dumps(document, separators=(",", ":"), sort_keys=True).encode(), 9)
    return Policy.Userdata(MARK + b"R" + packed)
