"""What connections of a relay bring in both of its frames: whole, nearly whole, endless, and cut anywhere."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any, Final

from rtmw.relay import frame as own
from rtmw.relay.frame import LONGEST, LONGEST_DATA, Form, Frame, FrameError, Kind, OwnSplitter, Packet, Splitter, encode
from tests.torture.wire.types_bounds import Bounds, Harm, main

STAMP: Final = b"2026-11-29 13:44:12.12"
LENGTHS: Final = (0, 1, 46, 47, 48, 1 << 16, 1 << 20, (1 << 20) + 48, 1 << 31, (1 << 32) - 1)
DATA: Final = (b"", b"x", b"\x02" * 40, b"\n\x02", b"\r", b"\0" * 100, b"A" * 5000)
ROOM: Final = 64
"""Bytes of a frame beside its data, at most."""


def attack(seed: int, seconds: float) -> str:
    chance, bounds, counts = Random(seed), Bounds(), Counter[str]()
    until = time.process_time() + seconds
    while time.process_time() < until:
        crc = chance.random() < 0.5
        counts["paper"] += _compare(bounds, chance, _paper(chance), Splitter, LONGEST)
        data = _own(chance, crc)
        found = _compare(bounds, chance, data, lambda crc=crc: OwnSplitter(crc=crc), LONGEST_DATA + ROOM)  # type: ignore[misc]
        counts["refused" if found < 0 else "own"] += abs(found)
    return ", ".join(f"{count} {what}" for what, count in counts.items())


def _compare(bounds: Bounds, chance: Random, data: bytes, make: Callable[[], Any], longest: int) -> int:
    """However it is cut, the frames are the same. How many; -1: it is refused."""
    places = sorted(chance.randrange(len(data) + 1) for _ in range(3))
    parts = [data[a:b] for a, b in zip([0, *places], [*places, len(data)], strict=True)]
    whole = bounds.run(lambda: _fed(make(), [data], longest), data)
    others = bounds.run(lambda: _fed(make(), parts, longest), data)
    if whole != others or whole is None:
        raise Harm(f"{data!r} gives {whole}, and cut at {places} {others}")
    for one in whole if isinstance(whole, list) else ():
        frame: Frame = getattr(one, "frame", one)
        if frame.source + frame.destination + frame.stamp not in data or frame.data not in data:
            raise Harm(f"{frame} is not in {data!r}")
    return len(whole) if isinstance(whole, list) else -1


def _fed(splitter: Any, parts: list[bytes], longest: int) -> list[Any] | str:
    found = list[Any]()
    try:
        for part in parts:
            found += splitter.feed(part)
            if splitter.waiting > longest:
                raise Harm(f"{splitter.waiting} bytes wait for the end of a frame of at most {longest}")
    except FrameError:
        return "refused"
    return found


def _frame(chance: Random) -> Frame:
    type, data = chance.choice((b"O", b"A", b"\n")), chance.choice(DATA)
    return Frame(b"AODB", b"G\n\x02E", STAMP, type, b"I", STAMP + b"\0\n\x02" + data if type == b"A" else data)


def _paper(chance: Random) -> bytes:
    pieces = list[bytes]()
    for _ in range(chance.randrange(1, 6)):
        try:
            pieces.append(_frame(chance).encode(chance.choice("AAB")))
        except FrameError:
            pieces.append(chance.randbytes(chance.randrange(100)))
    endless = b"\x02" + b"y" * (LONGEST + 1000) if chance.random() < 0.01 else b""
    return _damaged(chance, b"".join(pieces)) + endless


def _own(chance: Random, crc: bool) -> bytes:
    kinds = [chance.choice(list(Kind)) for _ in range(chance.randrange(1, 6))]
    data = b"".join(encode(Packet(kind, _frame(chance), chance.choice((None, 0, 254))), crc) for kind in kinds)
    if chance.random() < 0.3:
        data += chance.choice(LENGTHS).to_bytes(4, "little") + bytes(chance.choice((0, 60, LONGEST_DATA + 200)))
    return _damaged(chance, data)


def _damaged(chance: Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(chance.choice((0, 0, 1, 3)) if data else 0):
        changed[chance.randrange(len(changed))] = chance.choice((0, 2, 10, 255, chance.randrange(256)))
    return bytes(changed[: chance.randrange(len(changed))]) if changed and chance.random() < 0.1 else bytes(changed)


def _of_the_paper() -> None:
    Splitter.__init__.__defaults__ = ("auto", Form(longest=1 << 40))


def _of_this_package() -> None:
    own.LONGEST_DATA = 1 << 40  # type: ignore[misc]


MUTANTS: Final[dict[str, Callable[[], None]]] = {
    "frames of the paper of any length": _of_the_paper,
    "frames of this package of any length": _of_this_package,
}
"""Readers without one of their bounds: the attack must see harm."""

if __name__ == "__main__":
    main(attack, MUTANTS)
