"""Members that are not asked for have no columns; which payloads are damaged does not depend on them."""

from __future__ import annotations

import ctypes
import random
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psutil import Process

from rtmw.columns import described_decoder, merged_versions
from rtmw.columns._columns import NUMBER, STRUCT, Program
from rtmw.columns.program import Op
from rtmw.columns.rows import Rows
from rtmw.errors import ValueMismatch
from rtmw.types import resolve
from tests.columns.payloads import side_by_side
from tests.columns.test_fixed import Numbers, Pose
from tests.columns.test_hostile import described, union
from tests.types.hostile import VALUES, damaged
from tests.types.idl_strategies import messages
from tests.types.messages import Tree

FLAT = [value for value in VALUES if not isinstance(value, Tree)]
thorough = settings(
    max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


def places_in(description: bytes, chance: random.Random) -> tuple[int, ...]:
    count = len(described_decoder(description).schema(False))
    return tuple(sorted(chance.sample(range(count), chance.randint(1, count))))


def decoded(description: bytes, payloads: list[bytes], places: tuple[int, ...] | None, how: Any = "keep") -> Any:
    """Columns, and which rows are damaged."""
    rows = Rows(*side_by_side(payloads))
    ((batch, bad),) = merged_versions((description,), how, places).decode(rows, 0, True)
    batch.validate(full=True)
    return batch, np.zeros(len(rows), bool).tolist() if bad is None else bad.tolist()


def refusal(description: bytes, payloads: list[bytes], places: tuple[int, ...] | None) -> str:
    versions = merged_versions((description,), "keep", places)
    with pytest.raises(ValueMismatch) as refused:
        list(versions.decode(Rows(*side_by_side(payloads)), 0, False))
    return str(refused.value)


def check(description: bytes, payloads: list[bytes], places: tuple[int, ...], how: Any = "keep") -> int:
    """How many payloads are damaged."""
    all_columns, expected = decoded(description, payloads, None, how)
    batch, bad = decoded(description, payloads, places, how)
    assert bad == expected
    wanted = all_columns.select([*places])
    assert batch.schema == wanted.schema
    assert repr(batch.to_pylist()) == repr(wanted.to_pylist())  # a NaN is not equal to itself
    return sum(bad)


@thorough
@given(messages("union", "optional", "appendable"), st.integers(1, 20), st.randoms(use_true_random=False))
def test_columns_that_are_asked_for_are_as_if_all_were(
    message: tuple[Any, Any], count: int, chance: random.Random
) -> None:
    cls, value = message
    description = resolve(cls).description
    assert check(description, [value.serialize()] * count, places_in(description, chance)) == 0


@pytest.mark.parametrize("how", ["keep", "widen", "long"])
def test_numbers_at_fixed_places_keep_them_where_others_are_left_out(how: str) -> None:
    values = [Numbers(n, n, -n, n, Pose(n, n / 2, n % 2 == 0), n / 4, n, -n, n % 3 == 0) for n in range(100)]
    description = resolve(Numbers).description
    for place in range(len(described_decoder(description).schema(False))):
        assert check(description, [value.serialize() for value in values], (place,), how) == 0


def test_the_same_payloads_are_damaged_whichever_columns_are_asked_for() -> None:
    chance, found = random.Random(20261124), 0
    for value in FLAT:
        description, whole = resolve(type(value)).description, value.serialize()
        for _ in range(200):
            payloads = [whole, damaged(whole, chance), whole]
            places = places_in(description, chance)
            if check(description, payloads, places):
                found += 1
                assert refusal(description, payloads, places) == refusal(description, payloads, None)
    assert 200 < found < 1000


def test_a_number_that_its_column_cannot_have_is_damage_also_where_the_column_is_left_out() -> None:
    value = Numbers(1, 2, 3, 4, Pose(5, 6.0, True), 7.0, 1 << 63, 9, False)
    names = described_decoder(resolve(Numbers).description).schema(False).names
    for place in range(len(names)):
        assert check(resolve(Numbers).description, [value.serialize()], (place,), "long") == 1


def test_rows_without_content_have_a_limit_also_where_their_column_is_left_out() -> None:
    branches = union(*([f"c{i}", [i], "int8"] for i in range(200)))
    kind = described({"U": branches}, ["a", "int8"], ["b", {"sequence": {"type": "U"}}])
    few, many = (b"\0\1\0\0\7\0\0\0" + n.to_bytes(4, "little") + b"\xff" * n for n in (100, 10_000))
    assert check(kind.description, [few, many], (0,)) == 1


def most_memory(rows: Rows, places: tuple[int, ...] | None) -> int:
    """Bytes by which this process grows, at most, while it decodes. What it has freed before is given back first."""
    versions = merged_versions((resolve(Numbers).description,), "keep", places)
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    before = Process().memory_info().rss
    assert sum(len(batch) for batch, _ in versions.decode(rows, 0, False)) == len(rows)
    found = re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())
    assert found is not None
    return (int(found[1]) << 10) - before


def test_what_is_left_out_takes_no_memory() -> None:
    count = 500_000
    payload = Numbers(1, 2, 3, 4, Pose(5, 6.0, True), 7.0, 8, 9, False).serialize()
    rows = Rows(*side_by_side([payload] * count))
    assert most_memory(rows, (0,)) < count + (2 << 20)  # one byte a row
    assert most_memory(rows, (0, 6)) < 9 * count + (2 << 20)
    assert most_memory(rows, None) > 30 * count


def test_a_program_leaves_out_members_of_the_message_only() -> None:
    inner = [Op(STRUCT, first=1, length=1), Op(STRUCT, first=2, length=1), Op(NUMBER, (1, 1), 1, skipped=True)]
    with pytest.raises(ValueError, match="a skipped op that is no member"):
        Program([*inner], False)
