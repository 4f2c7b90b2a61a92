"""Hellos of sessions as hostile peers send them: in one piece and in bits, whole, nearly whole and long."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Final
from uuid import UUID

from rtmw.checksum import crc32
from rtmw.net.session import hello
from rtmw.net.session.errors import Violation
from rtmw.net.session.frames import CRC
from rtmw.net.session.hello import FIXED, Hello
from tests.torture.wire.types_bounds import Bounds, Harm, main

MINE: Final = Hello(UUID(int=1), 1)
NUMBERS: Final = (0, 1, 2, 255, 256, (1 << 16) - 1, 1 << 31, (1 << 32) - 1, 1 << 63, (1 << 64) - 1)
WIDTHS: Final = (2, 2, 2, 1, 1, 16, 8, 8, 8, 4, 4, 8, 4)
"""Bytes of the fields behind the magic word."""
WORDS: Final = (b"", b"files", b"a,b", b",,,", b"\0", b"a\0b", b"\xff\xfe", "\u202e".encode(), b"w" * 5000)


def attack(seed: int, seconds: float) -> str:
    chance, bounds, counts = Random(seed), Bounds(), Counter[str]()
    until = time.process_time() + seconds
    while time.process_time() < until:
        data = _hello(chance)
        counts["hellos"] += 1
        length = bounds.run(lambda data=data: hello.length_of(data), data, Violation)
        _same_in_bits(bounds, data, length)
        if length is None or length > len(data):
            continue
        read = bounds.run(lambda data=data[:length]: hello.read(data), data, Violation)
        if read is None:
            counts["refused"] += 1
            continue
        counts["accepted"] += 1
        version = bounds.run(lambda read=read: hello.version_of(MINE, read), data, Violation)
        if not 0 < read.lowest <= read.highest or read.lease <= 0 or version not in (None, hello.VERSION):
            raise Harm(f"{read} is taken for a hello")
        if replace(read, capabilities=frozenset()).packed() != _without_words(data[:length]):
            raise Harm(f"{read} is not what {data!r} says")
    return ", ".join(f"{count} {what}" for what, count in counts.items())


def _same_in_bits(bounds: Bounds, data: bytes, length: int | None) -> None:
    """However many bytes have come, the length is the same, or not known yet, or refused with all of them."""
    for end in range(min(len(data), 16)):
        part = bounds.run(lambda part=data[:end]: hello.length_of(part), data, Violation)
        if part not in (None, length):
            raise Harm(f"{data[:end]!r} has {part} bytes, and {data!r} has {length}")


def _hello(chance: Random) -> bytes:
    fixed = bytearray(Hello(UUID(int=chance.getrandbits(128)), chance.getrandbits(64)).packed()[: FIXED.size])
    words = chance.choice(WORDS) if chance.random() < 0.5 else b"files"
    length = FIXED.size + len(words) + CRC.size
    fixed[8:10] = min(length, 0xFFFF).to_bytes(2, "little")
    for _ in range(chance.choice((0, 1, 1, 2, 5))):
        field = chance.randrange(len(WIDTHS))
        begin, width = 8 + sum(WIDTHS[:field]), WIDTHS[field]
        fixed[begin : begin + width] = (chance.choice(NUMBERS) % (1 << 8 * width)).to_bytes(width, "little")
    if chance.random() < 0.1:
        fixed[chance.randrange(8)] ^= 1 << chance.randrange(8)
    whole = bytes(fixed) + words
    told = int.from_bytes(whole[8:10], "little")
    checked = whole[: max(0, min(told, length) - CRC.size)]
    whole = checked + CRC.pack(crc32(checked)) + whole[len(checked) :]
    if chance.random() < 0.1:
        at = chance.randrange(len(whole))
        whole = whole[:at] + bytes([whole[at] ^ 1 << chance.randrange(8)]) + whole[at + 1 :]
    return whole[: chance.randrange(len(whole))] if chance.random() < 0.1 else whole


def _without_words(data: bytes) -> bytes:
    """The bytes of a hello as this version writes it: its length, its flags and its CRC are those of no words."""
    fixed = bytearray(data[: FIXED.size])
    fixed[8:10] = (FIXED.size + CRC.size).to_bytes(2, "little")
    fixed[15] &= 1
    return bytes(fixed) + CRC.pack(crc32(fixed))


def _any_length(**limits: int) -> Callable[[], None]:
    def mutate() -> None:
        for name, value in limits.items():
            setattr(hello, name, value)

    return mutate


MUTANTS: Final[dict[str, Callable[[], None]]] = {"hellos of any length": _any_length(LEAST=0, MOST=1 << 20)}
"""Readers without one of their bounds: the attack must see harm."""

if __name__ == "__main__":
    main(attack, MUTANTS)
