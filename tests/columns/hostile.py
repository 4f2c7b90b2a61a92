"""Decodes what nobody encoded, in bulk: `python -m tests.columns.hostile SEED ROUNDS`.

Payloads lie against a page that may not be read. Each damaged one lies between two whole ones, which must come out as
they are; of itself, the reference decoder says whether it is a message, and which. Prints refused and taken ones.
"""

from __future__ import annotations

import random
import sys
from typing import Any

import numpy as np

from rtmw.columns import Decoder, decoder
from rtmw.columns.rows import Rows
from rtmw.errors import ValueMismatch
from rtmw.types import MessageType, from_description, resolve
from tests.columns.payloads import expected_row
from tests.types.hostile import VALUES, Cliff, damaged
from tests.types.messages import Tree


def bulk(columns: Decoder, payloads: list[bytes], cliff: Cliff) -> list[Any]:
    """Rows; the damaged payload is the last in memory, and the middle row."""
    memory = cliff.put(payloads[0] + payloads[1])
    first, second = len(payloads[0]), len(payloads[1])
    position, size = np.array([0, first, 0]), np.array([first, second, first])
    ((batch, _),) = columns.decode(Rows(memory, position, size), True)
    batch.validate(full=True)
    rows: list[Any] = batch.to_pylist()
    return rows


def verdict(type: MessageType, payload: bytes) -> Any:
    assert type.decode is not None
    try:
        return type.decode(payload)
    except ValueMismatch:
        return None


def check(value: Any, payloads: list[bytes], rows: list[Any], message_type: MessageType) -> bool:
    """Whether the damaged payload is a message."""
    whole, good = expected_row(type(value), verdict(message_type, payloads[0])), verdict(message_type, payloads[1])
    assert repr(rows[0]) == repr(rows[2]) == repr(whole), rows
    is_message = any(part is not None for part in rows[1].values())
    if payloads[0][:2] == payloads[1][:2]:  # the reference decoder knows one encoding only
        assert is_message == (good is not None), (payloads[1], rows[1])
        expected = expected_row(type(value), good) if is_message else None
        assert not is_message or repr(rows[1]) == repr(expected), (rows[1], expected)
    return is_message


def main(seed: int, rounds: int) -> None:
    chance, cliff, outcomes = random.Random(seed), Cliff(), [0, 0]
    for value in VALUES:
        if isinstance(value, Tree):
            continue
        kind = from_description(resolve(type(value)).description)
        columns, whole = decoder(kind), value.serialize()
        for _ in range(rounds):
            payloads = [whole, damaged(whole, chance)]
            outcomes[check(value, payloads, bulk(columns, payloads, cliff), kind)] += 1
    print(*outcomes)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
