"""A link that damages what samples of one topic hold. No sum below notices: UDP's is taken away, and RTPS has none."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator

MARK = b"may be damaged"
"""Begins the payloads of the topic whose samples are damaged."""

_ETHERNET, _UDP = 14, 8
_IPV4, _PROTOCOL_UDP = b"\x08\x00", 17
_RTPS = 20
_DATA, _DATA_FRAG = 0x15, 0x16
_LITTLE_ENDIAN = 1
_WORDS = (0, 1, 2, 3, 0x7F, 0x80, 0xFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x7FFFFFFFFFFFFFFF, 0x8000000000000000)


class Damage:
    """For `Faults.damage`; not for several threads."""

    def __init__(self, probability: float) -> None:
        self._probability = probability
        self.spoiled = 0
        """Datagrams."""

    def __call__(self, frame: bytes, chance: random.Random) -> bytes:
        start = _payload_of_udp(frame)
        if start is None or MARK not in frame or chance.random() >= self._probability:
            return frame
        parts = [*_user_data(frame, start)]
        if not parts:
            return frame
        spoiled = bytearray(frame)
        for _ in range(chance.choice((1, 1, 1, 2, 5))):
            _spoil(spoiled, *chance.choice(parts), chance)
        spoiled[start - 2 : start] = bytes(2)  # no sum of UDP
        self.spoiled += spoiled[start:] != frame[start:]
        return bytes(spoiled)


def _payload_of_udp(frame: bytes) -> int | None:
    """Where it begins; None: it is no whole datagram of RTPS."""
    if len(frame) < _ETHERNET + 28 or frame[12:14] != _IPV4 or frame[_ETHERNET + 9] != _PROTOCOL_UDP:
        return None
    if int.from_bytes(frame[_ETHERNET + 6 : _ETHERNET + 8], "big") & 0x3FFF:
        return None  # a part: its sum is that of the whole
    start = _ETHERNET + (frame[_ETHERNET] & 15) * 4 + _UDP
    return start if frame[start : start + 4] == b"RTPS" else None


def _user_data(frame: bytes, start: int) -> Iterator[tuple[int, int]]:
    """From where to where the samples of DATA and DATA_FRAG lie (RTPS 2.5, 9.4.5)."""
    at = start + _RTPS
    while at + 4 <= len(frame):
        kind, flags, size = struct.unpack_from("<BBH", frame, at)
        end = at + 4 + size if size else len(frame)
        if not flags & _LITTLE_ENDIAN or end > len(frame):
            return
        if kind in (_DATA, _DATA_FRAG) and not flags & 2:  # no inline QoS
            payload = at + 8 + int.from_bytes(frame[at + 6 : at + 8], "little")
            if payload < end:
                yield payload, end
        at = end


def _spoil(frame: bytearray, begin: int, end: int, chance: random.Random) -> None:
    at = chance.randrange(begin, end) if chance.random() < 0.6 else chance.randrange(max(begin, end - 120), end)
    match chance.randrange(4):
        case 0:
            frame[at] ^= 1 << chance.randrange(8)
        case 1:
            frame[at] = chance.randrange(256)
        case 2:
            size = chance.choice((1, 2, 4, 8))
            word = (chance.choice(_WORDS) & ((1 << 8 * size) - 1)).to_bytes(size, "little")[: end - at]
            frame[at : at + len(word)] = word
        case _:  # what follows moves up, as if a few bytes had been left out
            gone = chance.randrange(1, 9)
            frame[at:end] = frame[at + gone : end].ljust(end - at, b"\0") if at + gone < end else bytes(end - at)
