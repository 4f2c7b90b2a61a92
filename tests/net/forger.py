"""Datagrams in the name of another node's DDS writer, from a program that only knows what discovery tells everybody."""

from __future__ import annotations

import socket
import struct

from rtmw.net.dds.discovery import Discovery, Endpoint, Refusals
from rtmw.net.dds.library import DomainParticipant
from rtmw.net.dds.succession import place_of
from tests.net.hosts import Host, wait_until

FAR = 1 << 40
"""A number that no writer of a test comes to."""
_HEADER = b"RTPS" + bytes([2, 1, 1, 16])
_HEARTBEAT, _DATA, _LITTLE_ENDIAN, _WITH_DATA = 0x07, 0x15, 0x01, 0x05


class Forger:
    """Speaks in the name of writers, to one node."""

    def __init__(self, participant: DomainParticipant) -> None:
        self._discovery = Discovery(participant, Refusals())

    def writer(self, topic: str, of: Host) -> bytes:
        """The GUID of the writer of a topic that the node of `of` has among nodes now."""
        participant = of.info()["guid"]
        found = list[Endpoint]()

        def is_found() -> bool:
            self._discovery.poll()
            found[:] = [one for one in self._discovery.writers.of(topic) if one.participant == participant]
            return bool(found)

        wait_until(is_found, f"nobody writes {topic}")
        return bytes.fromhex(found[-1].guid)

    def heartbeat(self, writer: bytes, to: Host) -> None:
        """Say that the writer has nothing older than FAR (RTPS 2.5, section 9.4.5.7)."""
        number = struct.pack("<iI", FAR >> 32, FAR & 0xFFFFFFFF)
        body = bytes(4) + writer[12:] + number + number + struct.pack("<i", 1 << 30)
        self._send(writer, _HEARTBEAT, _LITTLE_ENDIAN, body, to)

    def data(self, writer: bytes, to: Host, sample: bytes = bytes([0, 1, 0, 0]) + bytes(4)) -> None:
        """A sample of the writer with the number FAR (RTPS 2.5, section 9.4.5.4). `sample`: CDR; else that of no
        octets."""
        number = struct.pack("<iI", FAR >> 32, FAR & 0xFFFFFFFF)
        body = struct.pack("<HH", 0, 16) + bytes(4) + writer[12:] + number + sample
        self._send(writer, _DATA, _WITH_DATA, body, to)

    def _send(self, writer: bytes, kind: int, flags: int, body: bytes, to: Host) -> None:
        guid = to.info()["guid"]
        wait_until(lambda: bool(self._discovery.poll() or guid in self._discovery.participants), "the node is unknown")
        family, place = place_of(self._discovery.participants[guid].address)
        datagram = _HEADER + writer[:12] + struct.pack("<BBH", kind, flags, len(body)) + body
        with socket.socket(family, socket.SOCK_DGRAM) as sender:
            sender.sendto(datagram, place)
