"""Descriptions of types as hostile programs make them, and payloads of those that are accepted."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any, Final

from rtmw.net.dds.idl_class import idl_class
from rtmw.recording.schemas import schema_of
from rtmw.types import MessageType, carried_type, checks, description, from_description
from tests.torture.wire.types_bounds import Bounds, Harm, main
from tests.torture.wire.types_documents import described, packed
from tests.torture.wire.types_values import Payloads

PAYLOADS: Final = 6


def attack(seed: int, seconds: float) -> str:
    chance, bounds, counts = Random(seed), Bounds(), Counter[str]()
    until = time.process_time() + seconds
    while time.process_time() < until:
        whole = described(chance)
        data = packed(whole, chance)
        kind = bounds.run(lambda data=data: from_description(data), whole)
        carried = bounds.run(lambda data=data: carried_type(data), whole)
        if (kind is None) != (carried is None):
            raise Harm(f"decoded and carried are judged differently: {json.dumps(whole)}")
        counts["descriptions"] += 1
        if kind is not None and carried is not None:
            counts["accepted"] += 1
            _use(kind, carried, chance, bounds, counts)
    assert counts["decoded"], "no payload was ever decoded: the attack attacks nothing"
    return ", ".join(f"{count} {what}" for what, count in counts.items())


def _use(type: MessageType, carried: MessageType, chance: Random, bounds: Bounds, counts: Counter[str]) -> None:
    if type.identity != carried.identity:
        raise Harm(f"decoded and carried are two types: {type.description!r}")
    if type.decode is not None and type.encode is not None:
        decode, encode = type.decode, type.encode
        source = Payloads(type, chance)
        for _ in range(PAYLOADS):
            data = source.some()
            value = bounds.run(lambda data=data: decode(data), (type.description, data))
            counts["decoded"] += value is not None
            bounds.run(lambda value=value: value is not None and encode(value), (type.description, data))
    bounds.run(lambda: schema_of(type.description), type.description)
    bounds.run(lambda: schema_of(type.description, ros2=True), type.description)
    if chance.random() < 0.1:
        # cyclonedds refuses a union of which each value of the discriminator has a branch
        bounds.run(lambda: idl_class(carried), type.description, TypeError)


def _always(module: Any, name: str, answer: Any) -> Callable[[], None]:
    """A mutant in which a check says that all is well."""
    return lambda: setattr(module, name, lambda *given: answer)


MUTANTS: Final[dict[str, Callable[[], None]]] = {
    "any nesting of definitions": _always(description, "fault_of", None),
    "any name": lambda: setattr(checks, "member_name", str),
    "any number": lambda: setattr(checks, "number", lambda value, *_: value),
}
"""Readers without one of their bounds: the attack must see harm."""

if __name__ == "__main__":
    main(attack, MUTANTS)
