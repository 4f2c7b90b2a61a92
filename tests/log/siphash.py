"""SipHash-2-4 with 128 bits, written anew after the paper: rtmw's own is held against it."""

from __future__ import annotations

MASK = (1 << 64) - 1


def _rotate(word: int, by: int) -> int:
    return (word << by | word >> (64 - by)) & MASK


def _turn(v: list[int], rounds: int) -> None:
    for _ in range(rounds):
        for a, b, left, right in ((0, 1, 13, 32), (2, 3, 16, 0), (0, 3, 21, 0), (2, 1, 17, 32)):
            v[a] = (v[a] + v[b]) & MASK
            v[b] = _rotate(v[b], left) ^ v[a]
            v[a] = _rotate(v[a], right)


def siphash(key: bytes, data: bytes) -> bytes:
    low, high = (int.from_bytes(key[at : at + 8], "little") for at in (0, 8))
    constants = (0x736F6D6570736575, 0x646F72616E646F6D ^ 0xEE, 0x6C7967656E657261, 0x7465646279746573)
    v = [word ^ constant for word, constant in zip((low, high, low, high), constants, strict=True)]
    whole = len(data) // 8 * 8
    words = [int.from_bytes(data[at : at + 8], "little") for at in range(0, whole, 8)]
    for word in [*words, int.from_bytes(data[whole:], "little") | (len(data) & 255) << 56]:
        v[3] ^= word
        _turn(v, 2)
        v[0] ^= word
    result = b""
    for at, constant in ((2, 0xEE), (1, 0xDD)):
        v[at] ^= constant
        _turn(v, 4)
        result += (v[0] ^ v[1] ^ v[2] ^ v[3]).to_bytes(8, "little")
    return result
