"""Payloads read in bulk, of types as hostile programs describe them: columns are valid, and judge as the codec does."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Final

import numpy as np

from rtmw.columns import Decoder, _columns, described_decoder, encode
from rtmw.columns import program as columns_program
from rtmw.columns.rows import Rows
from rtmw.types import MessageType, from_description
from rtmw.types.codec import header_word
from rtmw.types.description import from_document
from rtmw.types.message_type import read_document
from rtmw.types.schema import uncovered
from tests.torture.wire.types_bounds import Bounds, Harm, main
from tests.torture.wire.types_documents import described, packed
from tests.torture.wire.types_values import Payloads


def attack(seed: int, seconds: float) -> str:
    chance, bounds, counts = Random(seed), Bounds(), Counter[str]()
    until = time.process_time() + seconds
    while time.process_time() < until:
        whole = described(chance)
        data = packed(whole, chance)
        kind = bounds.run(partial(from_description, data), whole)
        if kind is None:
            continue
        unsigned = chance.choice(("keep", "widen"))  # with "long" large numbers are refused
        decoder = bounds.run(partial(described_decoder.__wrapped__, kind.description, unsigned), whole)
        if decoder is not None:
            counts["types"] += 1
            _decode(kind, decoder, chance, bounds, counts)
    assert counts["whole"], "no payload was ever whole: the attack attacks nothing"
    return ", ".join(f"{count} {what}" for what, count in counts.items())


def _decode(type: MessageType, decoder: Decoder, chance: Random, bounds: Bounds, counts: Counter[str]) -> None:
    source = Payloads(type, chance)
    payloads = [source.some() for _ in range(chance.randrange(12))]
    if payloads and chance.random() < 0.2:
        payloads = payloads[:1] * len(payloads)
    sizes = np.array([len(one) for one in payloads], np.int64)
    rows = Rows(b"".join(payloads), np.cumsum(sizes) - sizes, sizes)
    given = type.description, payloads
    batches = bounds.run(lambda: [*decoder.decode(rows, True)], given)
    if batches is None:
        return
    ((batch, damaged),) = batches
    batch.validate(full=True)
    counts["rows"] += len(payloads)
    bad = [False] * len(payloads) if damaged is None else [bool(one) for one in damaged]
    counts["whole"] += bad.count(False)
    for one, is_bad in zip(payloads, bad, strict=True):
        _compare(type, one, is_bad)
    if not any(bad):
        bounds.run(lambda: encode(batch, type), given)


def _compare(type: MessageType, data: bytes, is_bad: bool) -> None:
    """The codec knows one encoding of each type, and refuses payloads in any other."""
    document = read_document(type.description)
    if document["kind"] != "cdr":
        return
    schema = from_document(document)
    if uncovered(schema) or data[:2] != header_word(schema).to_bytes(2, "little"):
        return
    assert type.decode is not None
    try:
        type.decode(data)
    except ValueError:
        taken = False
    else:
        taken = True
    if taken == is_bad:
        raise Harm(f"a payload is {'damaged' if is_bad else 'whole'} in bulk only: {type.description!r} {data!r}")


def _larger_elements() -> None:
    real = columns_program.minimum_size
    columns_program.minimum_size = lambda node, schema: 4 * real(node, schema)


def _any_bound() -> None:
    """Of texts and sequences."""
    real = columns_program.Op
    columns_program.Op = lambda *given, **named: real(*given, **named | {"length": _length(*given, **named)})  # type: ignore[assignment]


def _length(code: int, *_: object, length: int = 0, **__: object) -> int:
    return 0 if code in (_columns.TEXT, _columns.SEQUENCE) else length


MUTANTS: Final[dict[str, Callable[[], None]]] = {"larger elements": _larger_elements, "any bound": _any_bound}
"""Readers that judge otherwise than the codec: the attack must see it."""

if __name__ == "__main__":
    main(attack, MUTANTS)
