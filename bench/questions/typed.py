"""What do typed messages cost? One message to bytes and back, encode and decode together, in one process.

rtmw and cyclonedds write the same bytes (CDR); msgspec writes MessagePack of a plain dataclass with the same fields.
All three take turns within a play, and the best of many short batches counts: it is the code that is measured here, and
what other programs do on the machine only adds to it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, make_dataclass
from timeit import Timer
from typing import Any

from bench.cases import MSGSPEC, RTMW, Case, Figures
from bench.messages import MESSAGES
from bench.role import Role
from bench.stage import Part, Stage

TITLE = "A typed message, encode and decode"
UNIT = "µs"
SYSTEMS = (RTMW, MSGSPEC, "cyclonedds")
CALLS = {"cyclonedds": 20}
"""Calls in a batch; 1,000 for the others."""

Codec = Callable[[], Any]


def cases(quick: bool) -> Sequence[Case]:
    names = list(MESSAGES)[:1] if quick else list(MESSAGES)
    return [Case(name, (RTMW,), {"message": name, "turns": 60 if quick else 150}) for name in names]


def measure(stage: Stage, system: str, case: Case) -> dict[str, Figures]:
    """All systems in one play."""
    best = stage.play("typed", system, [Part("codecs", case.options)])[0]
    return {name: Figures(value) for name, value in best.items()}


def codecs(role: Role) -> dict[str, float]:
    """µs of one encode and one decode."""
    message = MESSAGES[role.options["message"]]()
    contestants = {RTMW: ours(message), "cyclonedds": theirs(message)} | msgspec_pair(message)
    timers = {name: [Timer(codec) for codec in pair] for name, pair in contestants.items()}
    best = {name: [float("inf"), float("inf")] for name in timers}
    for _ in range(role.options["turns"]):
        for name, pair in timers.items():
            calls = CALLS.get(name, 1000)
            now = [timer.timeit(calls) / calls * 1e6 for timer in pair]
            best[name] = [min(times) for times in zip(best[name], now, strict=True)]
    return {name: sum(pair) for name, pair in best.items()}


def ours(message: Any) -> tuple[Codec, Codec]:
    from rtmw.types import resolve

    kind = resolve(type(message))
    assert kind.encode is not None
    assert kind.decode is not None
    encode, decode, payload = kind.encode, kind.decode, memoryview(kind.encode(message))
    assert payload == message.serialize()
    assert decode(payload) == message
    return lambda: encode(message), lambda: decode(payload)


def theirs(message: Any) -> tuple[Codec, Codec]:
    payload, kind = message.serialize(), type(message)
    return message.serialize, lambda: kind.deserialize(payload)


def msgspec_pair(message: Any) -> dict[str, tuple[Codec, Codec]]:
    """Nothing when it is not installed."""
    try:
        import msgspec
    except ImportError:
        return {}
    value = plain_copy(message)
    encode, decode = msgspec.msgpack.Encoder().encode, msgspec.msgpack.Decoder(type(value)).decode
    packed = encode(value)
    assert decode(packed) == value
    return {MSGSPEC: (lambda: encode(value), lambda: decode(packed))}


def plain_copy(value: Any) -> Any:
    """The same value as an instance of a plain dataclass, annotated as a program without IDL would."""
    parts = {member.name: getattr(value, member.name) for member in fields(value)}
    hints: dict[str, Any] = {name: type(part) for name, part in parts.items()}
    for name, part in parts.items():
        if isinstance(part, list):
            parts[name], hints[name] = plain_list(part)
    return make_dataclass(type(value).__name__, list(hints.items()))(**parts)


def plain_list(items: list[Any]) -> tuple[list[Any], Any]:
    """A list of plain values and its annotation; structs of one list become one dataclass."""
    if not hasattr(items[0], "__dataclass_fields__"):
        return items, list[type(items[0])]  # type: ignore[misc] # made at run time
    first = plain_copy(items[0])
    kind = type(first)
    return [kind(*vars(item).values()) for item in items], list[kind]  # type: ignore[valid-type] # made at run time
