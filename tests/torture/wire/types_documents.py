"""Descriptions of types at random: such as could be, with something changed in most of them."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from random import Random
from typing import Any, Final

from rtmw.types.schema import CODES

PRIMITIVES: Final = (*CODES, "string", "bytes")
DISCRIMINATORS: Final = ("int32", "boolean", "char", "uint8", "int64", {"type": "E0"}, {"type": "B0"}, {"type": "S0"})
STRANGE: Final[tuple[Any, ...]] = (
    *(None, True, -1, 0, 1, 2, 3, 7, 8, 64, 65, 1 << 31, (1 << 31) - 1, 1 << 64, 1.5, "", "x", "__a", "class", "mro"),
    *("\ud800", "_ignore_", "A", "x" * 300, [], {}, [[]], "int8", "string", [["A", 0]], {"sequence": "int8"}),
    *({"type": "S0"}, {"type": "T"}, {"array": "int8", "length": 0}, {"optional": "int8"}, {"key": 7}),
)
LENGTHS: Final = (0, 1, 2, 5, 1000, 10**8, (1 << 31) - 1)


def node(chance: Random, level: int = 0, huge: bool = True) -> Any:
    """A type of a member. `huge`: of an array of any length."""
    if level > 3 or chance.random() < 0.5:
        return chance.choice(PRIMITIVES)
    inner = node(chance, level + 1, huge)
    match chance.randrange(8):
        case 0:
            return {"sequence": inner} | ({"bound": chance.randrange(1, 6)} if chance.random() < 0.4 else {})
        case 1:
            return {"list": inner}
        case 2:
            return {
                "array": inner,
                "length": chance.choice(LENGTHS) if huge and chance.random() < 0.3 else chance.randrange(5),
            }
        case 3:
            return {"optional": inner}
        case 4:
            return {"typedef": inner, "as": "A::td"}
        case 5:
            return {"type": chance.choice(("S0", "S1", "U0", "E0", "B0", "T"))}
        case 6:
            return {"string": chance.randrange(1, 9)}
        case _:
            return {"map": [inner, inner]} if chance.random() < 0.1 else inner


def struct(chance: Random, most: int, huge: bool = True) -> dict[str, Any]:
    words = ("final", "appendable", "mutable") if chance.random() < 0.1 else ("final", "appendable")
    fields = [
        [f"f{i}", node(chance, 0, huge), *([{"key": True}] if chance.random() < 0.1 else [])] for i in range(most)
    ]
    return {"kind": "struct", "extensibility": chance.choice(words), "fields": fields}


def document(chance: Random, huge: bool = True) -> dict[str, Any]:
    """A description in which everything that can be is mentioned now and then."""
    cases = [
        [f"c{i}", [i] if chance.random() < 0.8 else [], node(chance, 2, huge)] for i in range(chance.randrange(1, 4))
    ]
    union = {"kind": "union", "discriminator": chance.choice(DISCRIMINATORS), "implicit": 5, "cases": cases}
    if union["discriminator"] in ("boolean", "char"):
        union |= {"implicit": "x"} if union["discriminator"] == "char" else {"implicit": True}
        cases[:] = [["c0", ["a" if union["discriminator"] == "char" else True], node(chance, 2, huge)]]
    bits = [["x", 0], ["y", chance.choice((1, 7, 31))]]
    types = {
        "S0": struct(chance, chance.randrange(5), huge),
        "S1": struct(chance, chance.randrange(5), huge),
        "U0": union | {"extensibility": chance.choice(("final", "appendable"))},
        "E0": {"kind": "enum", "members": [["A", 0], ["B", 1], ["C", 2]], "bit_bound": chance.choice((None, 8, 16, 3))},
        "B0": {"kind": "bitmask", "bits": bits, "bit_bound": chance.choice((8, 16, 32, 64))},
    }
    head = {"kind": "cdr", "name": "T", "xcdr": chance.choice((1, 2)), "types": types}
    return struct(chance, chance.randrange(1, 6), huge) | head


def mutated(whole: dict[str, Any], chance: Random) -> dict[str, Any]:
    """With one to three places changed: replaced, doubled, taken out, or made many."""
    for _ in range(chance.choice((1, 1, 2, 3))):
        holder, key = chance.choice([*_places(whole)])
        match chance.randrange(5):
            case 0:
                holder[key] = chance.choice(STRANGE)
            case 1 if isinstance(holder, list):
                holder.insert(key, json.loads(json.dumps(holder[key])))
            case 2:
                del holder[key]
            case 3 if isinstance(holder, list) and isinstance(holder[key], list) and holder[key]:
                holder.extend([f"{holder[key][0]}{i}", *holder[key][1:]] for i in range(chance.choice((2, 300, 5000))))
            case _:
                holder[key] = node(chance)
        if not [*_places(whole)]:
            break
    return whole


def _places(part: Any) -> Iterator[tuple[Any, Any]]:
    for key in part if isinstance(part, dict) else range(len(part)) if isinstance(part, list) else ():
        yield part, key
        yield from _places(part[key])


def described(chance: Random) -> dict[str, Any]:
    return mutated(document(chance), chance) if chance.random() < 0.6 else document(chance)


def packed(whole: dict[str, Any], chance: Random) -> bytes:
    """As it comes from the network; now and then a byte of it is another."""
    data = bytearray(zlib.compress(json.dumps(whole, sort_keys=True, separators=(",", ":")).encode(), 9))
    if chance.random() < 0.05:
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    return bytes(data[: chance.randrange(len(data))] if chance.random() < 0.02 else data)


HEADERS: Final = (b"\0\1\0\0", b"\0\7\0\0", b"\0\x09\0\0", b"\0\0\0\0", b"\0\x0b\0\0")


def payload(chance: Random, headers: tuple[bytes, ...] = HEADERS) -> bytes:
    """Small numbers mostly, which are counts that can be."""
    words = (0, 0, 0, 0, 1, 1, 2, 3, 4, 5, 9, 97, 255, chance.randrange(256))
    content = bytes(chance.choice(words) for _ in range(chance.choice((0, 4, 8, 12, 16, 24, 40, 120, 400))))
    whole = chance.choice(headers) + content
    return whole[: chance.randrange(5)] if chance.random() < 0.03 else whole
