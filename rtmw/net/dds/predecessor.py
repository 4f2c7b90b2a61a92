"""A node that was killed leaves a DDS participant behind, which others believe alive until its lease is over: so long
a RELIABLE topic that it read stands still. The next node of the same domains says in its place that it has left.

It sends what DDS itself sends when a participant is deleted (RTPS 2.5, section 8.5.3 and table 9.18): a sample of the
participant's own topic, which disposes and unregisters it. So each DDS program understands it, and older nodes too.
"""

from __future__ import annotations

import json
import socket
import struct
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address
from typing import Any

from rtmw import shm
from rtmw.domain import Domain
from rtmw.net.dds.discovery import Program
from rtmw.net.settings import STATUS_TOPIC, Settings
from rtmw.subscriber import Subscriber

_LOOKED_AT = 16
"""Documents of nodes on the bus that are read, the newest ones: of nodes that were killed one after another."""
_TIMES = 3
"""How often each participant is told, since a datagram may be lost."""

_HEADER = b"RTPS" + bytes([2, 1, 1, 16])
"""Version 2.1, vendor: Eclipse Cyclone DDS, of which the predecessor was a participant."""
_READER, _WRITER = bytes([0, 1, 0, 0xC7]), bytes([0, 1, 0, 0xC2])
"""The endpoints on which DDS tells of participants."""
_DATA, _FLAGS = 0x15, 0x0B
"""Little endian, with inline QoS, and with a key instead of data."""
_GUID, _KEY_HASH, _STATUS, _END = 0x50, 0x70, 0x71, 0x01
_IS_GONE = bytes([0, 0, 0, 3])
"""Disposed and unregistered."""


def last_documents(domain: Domain, settings: Settings) -> list[dict[str, Any]]:
    """Documents of nodes of the same two domains that have ended, as far as the bus keeps them; the newest one is the
    last. Any program may have written them."""
    domain.region.sweep()
    alive = {domain.region.identity(row.identity) for row in shm.publishers(domain.region)}
    found: list[dict[str, Any]] = []
    with Subscriber(STATUS_TOPIC, history=_LOOKED_AT, domain=domain) as subscriber:
        for sample in subscriber.take_many(_LOOKED_AT):
            if sample.publisher not in alive:
                with suppress(ValueError, KeyError, TypeError):  # any program may publish there, and an older node
                    status = json.loads(bytes(sample.data))
                    if (status["domain"], status["dds_domain"]) == (settings.domain, settings.wire_domain):
                        found.append(status)
    return found


def dead_predecessors(documents: Iterable[dict[str, Any]]) -> list[bytes]:
    """The DDS participants (guids) of those that wrote these documents."""
    found: list[bytes] = []
    for one in documents:
        with suppress(ValueError, KeyError, TypeError):
            found.append(_guid(one["guid"]))
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
        """Tells participants that were not told yet. `again`: tells the others once more, up to _TIMES in all."""
        for guid, program in participants.items() if self._datagrams else ():
            if program.address and self._told[guid] < (_TIMES if again else 1):
                self._told[guid] += self._send(program.address)

    def _send(self, address: str) -> bool:
        """Send to one address. A datagram that cannot be sent is as any that is lost. False: the address that a
        stranger gave is none, so nobody was told."""
        try:
            family, place = place_of(address)
        except ValueError:
            return False
        kind = socket.SOCK_DGRAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK
        with suppress(OSError), socket.socket(family, kind) as sender:
            for datagram in self._datagrams:
                sender.sendto(datagram, place)
        return True


def place_of(address: str) -> tuple[socket.AddressFamily, tuple[str, int] | tuple[str, int, int, int]]:
    """Where `192.0.2.1:7400`, `[2001:db8::1]:7400` or `[fe80::1%eth0]:7400` is, for a socket of that family. The scope
    may be a number or a name. Raises ValueError where it is none of these: no name is looked up."""
    text, _, port_text = address.rpartition(":")
    port = int(port_text)
    if not 0 < port < 1 << 16:
        raise ValueError(f"{address}: {port} is no port")
    if not text.startswith("["):
        return socket.AF_INET, (str(IPv4Address(text)), port)
    host, _, scope = text.removeprefix("[").removesuffix("]").partition("%")
    return socket.AF_INET6, (str(IPv6Address(host)), port, 0, _scope(scope))


def _scope(text: str) -> int:
    """The number of an interface; 0: none is named."""
    if not text or text.isdecimal():
        number = int(text or 0)
    else:
        try:
            number = socket.if_nametoindex(text)
        except OSError as error:
            raise ValueError(f"there is no interface {text}") from error
    if number >= 1 << 32:
        raise ValueError(f"{number} is no interface")
    return number
