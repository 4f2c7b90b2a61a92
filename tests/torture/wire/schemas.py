"""JSON Schemas and FileDescriptorSets as hostile recordings hold them, and payloads of those that are accepted."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any, Final

import numpy as np
from google.protobuf import descriptor_pb2 as pb

from rtmw.columns import Kind, describe, described_decoder, objects
from rtmw.columns.rows import Rows
from tests.torture.wire.types_bounds import Bounds, main

NAMES: Final = ("a", "b", "value", "", "class", "__init__", "m0", "a/b", "~1", "\u202e", "\ud800", "x" * 300, "A.b")
WORDS: Final = (
    "integer",
    "number",
    "boolean",
    "string",
    "array",
    "object",
    "null",
    "any",
    7,
    None,
    ["integer", "null"],
)
STRANGE: Final[tuple[Any, ...]] = (None, True, 0, -1, 1 << 70, 1.5, "", "integer", [], {}, [[]], {"$ref": "#"})
REFERENCES: Final = ("#", "#/", "#/properties/a", "#/definitions/a", "#/definitions/b", "#/properties/~01", "x", 5)
VALUES: Final = (None, True, 0, -1, 1.0, 1.5, 1 << 63, -(1 << 63), 1 << 200, "", "AAE=", "x", "\u202e", [], {}, [[[]]])
BATCH: Final = 6


def attack(seed: int, seconds: float) -> str:
    chance, bounds, counts = Random(seed), Bounds(), Counter[str]()
    until = time.process_time() + seconds
    while time.process_time() < until:
        kind: Kind = chance.choice(("json", "protobuf"))
        name, schema, payload = (_json if kind == "json" else _protobuf)(chance)
        description = describe(kind, name, schema)
        decoder = bounds.run(lambda d=description: described_decoder.__wrapped__(d, "keep"), schema)
        counts[f"{kind}_schemas"] += 1
        if decoder is None:
            continue
        payloads = [payload() for _ in range(BATCH)]
        sizes = np.array([len(one) for one in payloads], np.int64)
        rows = Rows(b"".join(payloads), np.cumsum(sizes) - sizes, sizes)
        batches = bounds.run(lambda d=decoder, r=rows: [*d.decode(r, True)], (schema, payloads))
        for batch, damaged in batches or ():
            batch.validate(full=True)
            counts[f"{kind}_rows"] += len(batch) - (0 if damaged is None else int(damaged.sum()))
    assert counts["json_rows"], "no message was ever read: the attack attacks nothing"
    assert counts["protobuf_rows"], "no message was ever read: the attack attacks nothing"
    return ", ".join(f"{count} {what}" for what, count in counts.items())


Made = tuple[str, bytes, Callable[[], bytes]]
"""A name, a schema, and what makes payloads."""


def _spoiled(data: bytes, chance: Random, often: float) -> bytes:
    """With some bytes changed, cut or doubled."""
    if not data or chance.random() >= often:
        return data
    at, end = sorted((chance.randrange(len(data)), chance.randrange(len(data))))
    turned = bytes([data[at] ^ 1 << chance.randrange(8)])
    return chance.choice((data[:at], data[:at] + turned + data[at + 1 :], data[:end] + data[at:], b""))


# ---- JSON ----


def _json(chance: Random) -> Made:
    document = _part(chance, 0)
    document["definitions"] = {name: _part(chance, 1) for name in NAMES[:2]}
    text = json.dumps(document)
    if chance.random() < 0.02:
        text = text.replace("{}", '{"properties": {"a": ' * 20_000, 1)
    return (
        chance.choice(NAMES[:-3]),
        _spoiled(text.encode(), chance, 0.1),
        lambda: _spoiled(json.dumps(_value(chance, 0)).encode(), chance, 0.1),
    )


def _part(chance: Random, level: int) -> dict[str, Any]:
    part: dict[str, Any] = {}
    if chance.random() < 0.8:
        part["type"] = chance.choice(WORDS)
    if level < 5 and chance.random() < 0.7:
        count = chance.choice((1, 2, 3, 60) if level < 2 else (1, 2))
        part["properties"] = {name: _part(chance, level + 1) for name in chance.choices(NAMES, k=count)}
        part["type"] = "object" if chance.random() < 0.9 else part.get("type")
    if chance.random() < 0.4:
        part["items"] = _part(chance, level + 1) if level < 5 else chance.choice(STRANGE)
    if chance.random() < 0.2:
        part["$ref"] = chance.choice(REFERENCES)
    if chance.random() < 0.1:
        part[chance.choice(("oneOf", "contentEncoding", "properties", "items", "type"))] = chance.choice(
            (*STRANGE, "base64")
        )
    return part


def _value(chance: Random, level: int) -> Any:
    if level > 4 or chance.random() < 0.3:
        return chance.choice(VALUES)
    if chance.random() < 0.3:
        return [_value(chance, level + 1) for _ in range(chance.randrange(4))]
    return {name: _value(chance, level + 1) for name in chance.sample(NAMES, chance.randrange(1, 6))}


# ---- protobuf ----


def _protobuf(chance: Random) -> Made:
    whole = pb.FileDescriptorSet()
    files = chance.choice((1, 1, 2))
    for number in range(files):
        file = whole.file.add(name=f"{number}.proto", package=chance.choice(("p", "")), syntax="proto3")
        if chance.random() < 0.3:
            file.dependency.append(f"{chance.randrange(files)}.proto")
        for message in range(chance.randrange(1, 4)):
            _message(chance, file.message_type.add(name=f"M{message}"), file.package)
    package = whole.file[0].package
    name = f"{package}.M0".lstrip(".") if chance.random() < 0.9 else chance.choice(("p.M7", "p.", "", "\u202e"))
    return name, _spoiled(whole.SerializeToString(), chance, 0.1), lambda: _fields(chance, 0)


def _fields(chance: Random, level: int) -> bytes:
    """Fields of a message on the wire, most of them whole."""
    parts: list[bytes] = []
    for _ in range(chance.randrange(4)):
        number, width = chance.randrange(1, 7), chance.choice((0, 0, 1, 2, 2, 2, 5))
        inside = _fields(chance, level + 1) if level < 20 and chance.random() < 0.5 else b"text"[: chance.randrange(5)]
        content = {0: b"\x05", 1: bytes(8), 2: bytes([min(len(inside), 127)]) + inside, 5: bytes(4)}[width]
        parts.append(bytes([number << 3 | width]) + content)
    return _spoiled(b"".join(parts), chance, 0.1)


def _message(chance: Random, message: Any, package: str) -> None:
    for number in range(chance.randrange(1, 6)):
        kind = chance.randrange(1, 19) if chance.random() < 0.7 else 11
        field = message.field.add(name=f"f{number}", number=number + 1, type=kind, label=chance.choice((1, 1, 3)))
        if kind in (10, 11, 14):
            of = chance.choice(("M0", "M1", "M2", "google.protobuf.Timestamp"))
            field.type_name = f".{package}.{of}" if package else f".{of}"
        if chance.random() < 0.05:
            field.number = chance.choice((0, -1, 1, 19_000, (1 << 29) - 1, 1 << 29))


def _again() -> None:
    """References that lead into themselves are followed for ever."""

    class Forgetful(list[str]):
        def __contains__(self, item: object) -> bool:
            return False

    real = objects._JsonBuilder.__init__

    def made(self: Any, *given: Any) -> None:
        real(self, *given)
        self._followed = Forgetful()

    objects._JsonBuilder.__init__ = made  # type: ignore[method-assign]


MUTANTS: Final[dict[str, Callable[[], None]]] = {"references for ever": _again}
"""Readers without one of their bounds: the attack must see harm."""

if __name__ == "__main__":
    main(attack, MUTANTS)
