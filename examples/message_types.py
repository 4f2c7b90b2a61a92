"""What a message may be: objects of plain classes, texts, JSON, arrays and bytes."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import numpy as np

import rtmw


class State(Enum):
    """Travels as a number, and comes back as an enumerator."""

    OFF = 0
    ON = 1


@dataclass
class Pump:
    """A member may be such a class, too."""

    number: rtmw.uint16
    state: State


@dataclass
class Speed:
    """`int` has 64 bits on the wire, `float` is a double; `rtmw.int8` to `rtmw.float64` have theirs."""

    pump: Pump
    rpm: float
    note: str | None = None
    marks: list[float] = field(default_factory=list[float])


def crosses(topic: str, type: Any, value: Any) -> Any:
    """The value as a subscriber gets it."""
    with rtmw.Subscriber(topic, type) as subscriber, rtmw.Publisher(topic, type) as publisher:
        publisher.publish(value)
        return subscriber.receive(timeout=5).value


print(crosses("types/class", Speed, Speed(Pump(1, State.ON), 1500.0, marks=[0.5])))
print(crosses("types/text", str, "hello"))
print(crosses("types/json", dict, {"limit": 3, "names": ["a", "b"]}))
print(crosses("types/array", np.float32, np.arange(3, dtype=np.float32)))
print(crosses("types/bytes", bytes, b"as they are"))

try:
    rtmw.Publisher("types/class", Speed).publish(Speed(Pump(70_000, State.ON), 0.0))
except rtmw.ValueMismatch as error:
    print(error)
