"""Payloads of random types, damaged: what both our codec and cyclonedds' decoder take is the same value to both.

cyclonedds' decoder trusts what it reads, and takes payloads that ours refuses; so nothing is said of those.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any, Final

from rtmw.net.dds.idl_class import idl_class
from rtmw.types import MessageType, from_description
from rtmw.types.schema import Plan
from tests.torture.wire.types_bounds import Bounds, Harm, main
from tests.torture.wire.types_documents import document, packed
from tests.torture.wire.types_values import Payloads
from tests.types.idl_strategies import plain

PAYLOADS: Final = 40


def attack(seed: int, seconds: float) -> str:
    chance, bounds, counts = Random(seed), Bounds(), Counter[str]()
    until = time.process_time() + seconds
    while time.process_time() < until:
        whole = document(chance, huge=False)  # cyclonedds makes an array before it looks what is there
        kind = bounds.run(lambda whole=whole: from_description(packed(whole, chance)), whole)
        cls = None if kind is None else bounds.run(lambda kind=kind: idl_class(kind), kind.description, TypeError)
        if kind is not None and cls is not None:
            counts["types"] += 1
            _compare(kind, cls, chance, counts)
    assert counts["values of both"], "no payload was ever taken by both: nothing was compared"
    return ", ".join(f"{count} {what}" for what, count in counts.items())


def _compare(type: MessageType, cls: Any, chance: Random, counts: Counter[str]) -> None:
    source = Payloads(type, chance)
    for _ in range(PAYLOADS):
        data = source.some()
        ours = _ours(type, data)
        theirs = None if ours is None else _theirs(cls, data)  # which reads counts of thousand millions to their end
        counts["payloads"] += 1
        if ours is None or theirs is None:
            continue
        counts["values of both"] += 1
        if repr(ours) != repr(theirs).replace("bytearray(b'')", "[]"):  # as cyclonedds gives some empty sequences
            raise Harm(f"{type.description!r} {data!r} is {ours} to rtmw and {theirs} to cyclonedds")


def _ours(type: MessageType, data: bytes) -> Any:
    assert type.decode is not None
    try:
        value = type.decode(data)
    except ValueError:
        return None
    return None if isinstance(value, bytes) else _listed(plain(value))


def _theirs(cls: Any, data: bytes) -> Any:
    try:
        return _listed(plain(cls.deserialize(data)))
    except Exception:  # whatever it raises for what it cannot read
        return None


def _listed(value: Any) -> Any:
    """Octets are bytes to one of them and numbers to the other."""
    if isinstance(value, list | bytes):
        return [_listed(part) for part in value]
    return value


def _alike() -> None:
    """Whatever is in XCDR2 is read as if nothing had a size in front."""
    Plan.sized = lambda self, node: False  # type: ignore[method-assign]


MUTANTS: Final[dict[str, Callable[[], None]]] = {"no sizes": _alike}
"""A codec that differs: the attack must see it."""

if __name__ == "__main__":
    main(attack, MUTANTS)
