"""A node that was killed leaves a DDS participant behind, which others believe alive until its lease is over: so long
a RELIABLE topic that it read stands still. The next node of the same domains says in its place that it has left.

What it says is what DDS itself says when a participant is deleted (RTPS 2.5, section 8.5.3 and table 9.18): a sample of
the participant's own topic, which disposes and unregisters it. So each DDS program understands it, and older nodes too.
"""

from __future__ import annotations

import json
import socket
import struct
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from ipaddress import IPv4Address

from rtmw.domain import Domain
from rtmw.net.discovery import Program
from rtmw.net.settings import STATUS_TOPIC, Settings
from rtmw.subscriber import Subscriber

_LOOKED_AT = 16
"""Documents of nodes on the bus that are read, the newest ones: of nodes that were killed one after another."""
_TIMES = 3
"""To be said to each participant: a datagram may be lost."""

_HEADER = b"RTPS" + bytes([2, 1, 1, 16])
"""Version 2.1, vendor: Eclipse Cyclone DDS, of which the predecessor was a participant."""
_READER, _WRITER = bytes([0, 1, 0, 0xC7]), bytes([0, 1, 0, 0xC2])
"""The endpoints on which DDS tells of participants."""
_DATA, _FLAGS = 0x15, 0x0B
"""Little endian, with inline QoS, and with a key instead of data."""
_GUID, _KEY_HASH, _STATUS, _END = 0x50, 0x70, 0x71, 0x01
_IS_GONE = bytes([0, 0, 0, 3])
"""Disposed and unregistered."""


def dead_predecessors(domain: Domain, settings: Settings) -> list[bytes]:
    """The DDS participants (guids) of dead nodes of the same two domains, as far as the bus knows them."""
    domain.region.sweep()
    alive = {row[1] for row in domain.region.publishers()}
    found: list[bytes] = []
    with Subscriber(STATUS_TOPIC, history=_LOOKED_AT, domain=domain) as subscriber:
        for sample in subscriber.take_many(_LOOKED_AT):
            if sample.publisher not in alive:
                with suppress(ValueError, KeyError, TypeError):  # any program may publish there, and an older node
                    status = json.loads(bytes(sample.data))
                    if (status["domain"], status["dds_domain"]) == (settings.domain, settings.wire_domain):
                        found.append(_guid(status["guid"]))
    return [*dict.fromkeys(found)]


def _guid(text: str) -> bytes:
    guid = bytes.fromhex(text)
    if len(guid) != 16:
        raise ValueError(text)
    return guid


def farewell(guid: bytes) -> bytes:
    """The datagram by which a participant leaves."""
    qos = _parameter(_STATUS, _IS_GONE) + _parameter(_KEY_HASH, guid) + _parameter(_END, b"")
    key = bytes([0, 3, 0, 0]) + _parameter(_GUID, guid) + _parameter(_END, b"")
    body = struct.pack("<HH", 0, 16) + _READER + _WRITER + struct.pack("<iI", 0, 1) + qos + key
    return _HEADER + guid[:12] + struct.pack("<BBH", _DATA, _FLAGS, len(body)) + body


def _parameter(number: int, value: bytes) -> bytes:
    return struct.pack("<HH", number, len(value)) + value


class Farewells:
    """Tells each participant, once it is known, that the predecessors have left. Not for several threads."""

    def __init__(self, guids: list[bytes]) -> None:
        self._datagrams = [farewell(guid) for guid in guids]
        self._told: Counter[str] = Counter()

    def tell(self, participants: Mapping[str, Program], again: bool) -> None:
        """To those that have not been told yet; with `again` once more to the others, until it was _TIMES."""
        for guid, program in participants.items() if self._datagrams else ():
            if program.address and self._told[guid] < (_TIMES if again else 1):
                self._told[guid] += 1
                self._send(program.address)

    def _send(self, address: str) -> None:
        """What cannot be sent is as any datagram that is lost; and what a stranger calls its address may be none."""
        host, _, port = address.rpartition(":")
        kind = socket.SOCK_DGRAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK
        with socket.socket(socket.AF_INET, kind) as sender, suppress(OSError, ValueError, OverflowError):
            place = (str(IPv4Address(host)), int(port))
            for datagram in self._datagrams:
                sender.sendto(datagram, place)
