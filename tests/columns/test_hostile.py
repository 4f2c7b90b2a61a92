"""Payloads that nobody encoded: never read beyond, taken for what the reference decoder takes them for, and counted."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from rtmw.columns import _columns, decoder
from rtmw.columns.program import Op
from rtmw.columns.rows import Rows
from rtmw.errors import UnsupportedType
from rtmw.types import from_description, resolve
from rtmw.types.message_type import make
from tests.columns.payloads import expected_row, side_by_side
from tests.types.messages import Colour, Plot, Point, Reading

ROUNDS = 1500


def test_damaged_payloads_are_judged_as_the_reference_decoder_judges_them() -> None:
    command = [sys.executable, "-m", "tests.columns.hostile", "20261122", str(ROUNDS)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    refused, taken = map(int, done.stdout.split())
    assert refused > taken > 0


@pytest.mark.parametrize("bad", [[0], [7], [0, 1, 2], [3, 9], list(range(10))])
def test_permissive_makes_a_damaged_payload_a_row_of_nulls_and_leaves_the_others(bad: list[int]) -> None:
    values = [Plot("t" * n, [Point(n, True, "a")] * (n % 5), [n] * 3, b"abcd", b"x" * n) for n in range(10)]
    payloads = [value.serialize() for value in values]
    for row in bad:
        payloads[row] = payloads[row][:-1]
    ((batch, damaged),) = decoder(resolve(Plot)).decode(Rows(*side_by_side(payloads)), True)
    batch.validate(full=True)
    nothing = dict.fromkeys(batch.schema.names)
    expected = [nothing if row in bad else expected_row(Plot, values[row]) for row in range(10)]
    assert batch.to_pylist() == expected
    assert damaged is not None
    assert np.flatnonzero(damaged).tolist() == bad


def test_memory_is_taken_for_what_is_there_only() -> None:
    payload = Reading("a", [1.0] * 4, Colour.RED, "").serialize()
    lying = payload.replace(b"\4\0\0\0", b"\xff\xff\xff\x7f", 1)
    ((batch, damaged),) = decoder(resolve(Reading)).decode(Rows(*side_by_side([lying])), True)
    assert damaged is not None
    assert batch.nbytes < 10_000


def described(types: dict[str, Any], *fields: list[Any]) -> Any:
    document = {"name": "A", "kind": "cdr", "xcdr": 1, "extensibility": "final", "fields": [*fields], "types": types}
    return from_description(make(document).description)


def struct(*fields: list[Any]) -> dict[str, Any]:
    return {"kind": "struct", "extensibility": "final", "fields": [*fields]}


def test_a_small_description_of_a_million_columns_is_refused() -> None:
    chain = {f"S{i}": struct(["a", {"type": f"S{i + 1}"}], ["b", {"type": f"S{i + 1}"}]) for i in range(20)}
    with pytest.raises(Exception, match="more than 4096 columns"):
        decoder(described(chain | {"S20": struct(["x", "int8"])}, ["a", {"type": "S0"}]))


def test_a_type_nested_for_ever_is_refused() -> None:
    chain = {f"S{i}": struct(["a", {"type": f"S{i + 1}"}]) for i in range(90)}
    with pytest.raises(Exception, match="nested more than 64 deep"):
        decoder(described(chain | {"S90": struct(["x", "int8"])}, ["a", {"type": "S0"}]))


def test_rows_of_elements_without_content_are_refused() -> None:
    with pytest.raises(Exception, match="elements without content"):
        decoder(described({"E": struct()}, ["a", {"array": {"type": "E"}, "length": 1 << 30}]))


@pytest.mark.parametrize("element", ["octet", "int16"])
def test_an_array_of_no_elements_which_would_be_an_offset_for_no_byte_is_refused(element: str) -> None:
    with pytest.raises(UnsupportedType, match="an array of no elements"):
        decoder(described({}, ["a", {"sequence": "int8"}], ["b", {"array": element, "length": 0}]))


def union(*cases: list[Any]) -> dict[str, Any]:
    head = {"kind": "union", "extensibility": "final", "discriminator": "uint8", "implicit": 255}
    return head | {"cases": [*cases]}


def test_branches_that_are_not_there_have_a_limit_in_one_payload() -> None:
    """Each is a null in a column: a byte would become as many rows as the union has branches."""
    kind = described({"U": union(*([f"c{i}", [i], "int8"] for i in range(200)))}, ["a", {"sequence": {"type": "U"}}])
    few, many = (n.to_bytes(4, "little") + b"\xff" * n for n in (100, 10_000))
    payloads = side_by_side([b"\0\1\0\0" + few, b"\0\1\0\0" + many])
    ((batch, damaged),) = decoder(kind).decode(Rows(*payloads), True)
    assert damaged is not None
    assert damaged.tolist() == [False, True]
    assert len(batch.to_pylist()[0]["a"]) == 100


def test_labels_of_all_columns_have_a_limit() -> None:
    """A column has a table of its own: a description of some kilobytes would become gigabytes."""
    enum = {"kind": "enum", "members": [[f"a{i}", i] for i in range(1500)], "bit_bound": None}
    with pytest.raises(UnsupportedType, match="more than 65536 labels"):
        decoder(described({"E": enum}, *([f"a{i}", {"type": "E"}] for i in range(100))))


def test_a_message_without_members_is_a_row_without_columns() -> None:
    payloads = side_by_side([b"\0\1\0\0"] * 3)
    ((batch, damaged),) = decoder(described({})).decode(Rows(*payloads), False)
    assert (batch.num_columns, batch.num_rows, damaged) == (0, 3, None)


STRUCT = Op(_columns.STRUCT, first=1, length=1)
BAD = {
    "a message is a struct": [Op(_columns.BOOLEAN, (1, 1))],
    "does not exist": [STRUCT, Op(99)],
    "of a size that does not exist": [STRUCT, Op(_columns.NUMBER, (3, 3), 4)],
    "does not lead behind itself": [STRUCT._replace(length=2), Op(_columns.TEXT)],
    "of elements without content": [STRUCT, Op(_columns.SEQUENCE, first=2), Op(_columns.TEXT)],
    "without the branch": [
        STRUCT,
        Op(_columns.UNION, first=2, length=1, labels=((1, 7),)),
        Op(_columns.BOOLEAN, (1, 1)),
        Op(_columns.TEXT),
    ],
    "something else than bits": [STRUCT, Op(_columns.BITMASK, (1, 1), first=2, length=1), Op(_columns.TEXT)],
}


@pytest.mark.parametrize("reason", BAD)
def test_a_program_that_leads_out_of_its_table_is_not_taken(reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        _columns.Program([*BAD[reason]], False)


def test_an_op_within_itself_is_not_taken() -> None:
    with pytest.raises(ValueError, match="does not lead behind itself"):
        _columns.Program([Op(_columns.STRUCT, first=0, length=1)], False)


def test_positions_and_sizes_are_as_many() -> None:
    program = _columns.Program([Op(_columns.STRUCT)], False)
    with pytest.raises(ValueError, match="as many of each"):
        program.decode(b"", np.zeros(2, np.int64), np.zeros(1, np.int64), False)
