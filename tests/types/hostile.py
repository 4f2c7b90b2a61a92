"""Decodes what nobody encoded: `python -m tests.types.hostile SEED ROUNDS`.

Payloads lie against a page that may not be read, so that one byte too many kills this process. Prints how many
payloads were refused, and how many were, damaged as they were, messages still.
"""

from __future__ import annotations

import ctypes
import mmap
import random
import sys
from typing import Any

from rtmw.errors import ValueMismatch
from rtmw.types import MessageType, from_description, resolve
from tests.types.messages import Colour, Grown, Plot, Point, Reading, Rows, Tree, Various

VALUES: tuple[Any, ...] = (
    Reading("A1", [1.0, 2.0], Colour.GREEN, "note"),
    Tree(1, [Tree(2, []), Tree(3, [Tree(4, [])])]),
    Plot("title", [Point(1.5, True, "a")] * 3, [1, 2, 3], b"abcd", b"xyz", -5),
    Grown(7, "text"),
    Rows([1, -2], [1, 2], [1.5, 2.5], [0.5, 1.0], [1.0, 2.0]),
    Various.example(),
)


class Cliff:
    """Memory that ends where reading is forbidden."""

    def __init__(self) -> None:
        self.size = 16 * mmap.PAGESIZE
        self.memory = mmap.mmap(-1, self.size + mmap.PAGESIZE)
        start = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        protect = ctypes.CDLL(None, use_errno=True).mprotect
        if protect(ctypes.c_void_p(start + self.size), ctypes.c_size_t(mmap.PAGESIZE), 0):
            raise OSError(ctypes.get_errno(), "mprotect")

    def put(self, payload: bytes) -> memoryview:
        start = self.size - len(payload)
        self.memory[start : self.size] = payload
        return memoryview(self.memory)[start : self.size]


def damaged(payload: bytes, chance: random.Random) -> bytes:
    """Cut short, with bits flipped, with a length that lies, or made up altogether behind its header."""
    result = bytearray(payload)
    match chance.randrange(4):
        case 0:
            return payload[: chance.randrange(len(payload))]
        case 1:
            for _ in range(chance.randint(1, 4)):
                result[chance.randrange(len(result))] ^= 1 << chance.randrange(8)
        case 2:
            at = chance.randrange(4, len(result)) & ~3
            result[at : at + 4] = chance.choice((0, 1, 255, 1 << 16, 1 << 31, (1 << 32) - 1)).to_bytes(4, "little")
        case _:
            result[4:] = chance.randbytes(chance.randrange(200))
    return bytes(result)


def attack(readers: list[MessageType], payload: bytes, cliff: Cliff, chance: random.Random) -> list[bool]:
    """For each reader whether it took one damaged payload for a message. Only ValueMismatch may escape it."""
    data = cliff.put(damaged(payload, chance))
    taken: list[bool] = []
    for reader in readers:
        assert reader.decode is not None
        try:
            reader.decode(data)
        except ValueMismatch:
            taken.append(False)
        else:
            taken.append(True)
    return taken


def main(seed: int, rounds: int) -> None:
    chance, cliff, outcomes = random.Random(seed), Cliff(), [0, 0]
    for value in VALUES:
        kind = resolve(type(value))
        assert kind.encode is not None
        readers, payload = [kind, from_description(kind.description)], bytes(kind.encode(value))
        for _ in range(rounds):
            for taken in attack(readers, payload, cliff, chance):
                outcomes[taken] += 1
    print(*outcomes)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
