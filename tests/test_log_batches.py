"""Batches: the same records as `read` gives, as columns."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cyclonedds.idl import IdlStruct, types

import rtmw
from rtmw.durable_log.batches import MOST_BYTES, MOST_ROWS


@dataclass
class Order(IdlStruct, typename="shop.Order"):
    id: types.int32
    amount: types.float64
    key: str


@pytest.fixture
def log(tmp_path: Path) -> rtmw.Log[bytes]:
    """Three segments, with records of all sizes up to two batches' bytes."""
    made = rtmw.Log(tmp_path / "log", segment="512K", sync=False)
    for number in range(3000):
        made.append(b"%d" % number * (number % 50), key=number if number % 3 else None, id=f"{number}")
    made.append(b"large" * (MOST_BYTES * 2 // 5))
    made.append(b"last").resolve()
    return made


def rows(batches: Any) -> list[tuple[int, int, int, bytes]]:
    return [
        row
        for batch in batches
        for row in zip(
            batch.position.tolist(), batch.time_ns.tolist(), batch.epoch.tolist(), batch.values(), strict=True
        )
    ]


def one_by_one(records: rtmw.LogRecords[bytes]) -> list[tuple[int, int, int, bytes]]:
    return [(record.position, record.time_ns, record.epoch, record.value) for record in records]


def test_batches_have_the_records_that_are_read_one_by_one(log: rtmw.Log[bytes]) -> None:
    batches = list(log.read_batches())
    assert rows(batches) == one_by_one(log.read())
    assert len(batches) > 3
    assert max(map(len, batches)) <= MOST_ROWS
    for batch in batches:
        assert len(batch.data) <= MOST_BYTES or len(batch) == 1
        assert batch.offsets[0] == 0
        assert batch.offsets[-1] == len(batch.data)
        assert len(batch.position) == len(batch) == len(batch.offsets) - 1


def test_reading_batches_begins_at_a_position_and_says_where_it_is(log: rtmw.Log[bytes]) -> None:
    everything = one_by_one(log.read())
    batches = log.read_batches(everything[100][0])
    assert batches.position == everything[100][0]
    first = next(batches)
    assert batches.position == everything[100 + len(first)][0]
    assert rows([first, *batches]) == everything[100:]
    assert rows(log.read_batches(rtmw.Start.LATEST)) == []


def test_a_batch_is_a_table_of_arrow(log: rtmw.Log[bytes]) -> None:
    found = [row for batch in log.read_batches() for row in batch.to_arrow().to_pylist()]
    expected = list(log.read())
    assert [row["payload"] for row in found] == [record.data for record in expected]
    assert [row["key"] for row in found] == [None if r.key is None else str(r.key) for r in expected]
    assert [row["id"] for row in found] == [r.id for r in expected]
    assert [row["position"] for row in found] == [r.position for r in expected]
    assert [row["time_ns"] for row in found] == [r.time_ns for r in expected]


def test_members_of_typed_records_are_columns(tmp_path: Path) -> None:
    with rtmw.Log(tmp_path / "log", Order) as log:
        log.append_many([Order(number, number / 2, "x" * number) for number in range(100)])
        (batch,) = log.read_batches()
    table = batch.to_arrow()
    assert table.column("amount").to_pylist() == [number / 2 for number in range(100)]
    assert table.column("key_").to_pylist() == ["x" * number for number in range(100)]
    assert table.column("key").null_count == 100
    assert batch.values()[7] == Order(7, 3.5, "x" * 7)


def test_values_of_a_numpy_type_are_arrays(tmp_path: Path) -> None:
    with rtmw.Log(tmp_path / "log", np.float32) as log:
        log.append_many([np.arange(number, dtype=np.float32) for number in range(1, 9)])
        (batch,) = log.read_batches()
    assert [value.tolist() for value in batch.values()] == [list(map(float, range(number))) for number in range(1, 9)]


def test_a_commit_of_a_batch_is_for_all_of_its_records(log: rtmw.Log[bytes]) -> None:
    everything = one_by_one(log.read())
    with log.read_batches(cursor="bulk") as batches:
        first = next(batches)
        first.commit()
    with log.read(cursor="bulk") as records:
        assert next(records).position == everything[len(first)][0]
    with pytest.raises(rtmw.LogError, match="read without a cursor cannot be committed"):
        next(log.read_batches()).commit()


def test_batches_follow_what_is_appended_until_the_log_is_closed(log: rtmw.Log[bytes]) -> None:
    batches = log.read_batches(rtmw.Start.LATEST, follow=True)
    seen: list[bytes] = []
    enough = threading.Event()

    def follow() -> None:
        for batch in batches:
            seen.extend(batch.values())
            if len(seen) == 50:
                enough.set()

    thread = threading.Thread(target=follow)
    thread.start()
    for number in range(50):
        log.append(b"%d" % number)
    assert enough.wait(60)
    assert seen == [b"%d" % number for number in range(50)]
    log.close()
    thread.join(60)
    assert not thread.is_alive()


def test_a_task_reads_batches(log: rtmw.Log[bytes]) -> None:
    async def read() -> list[rtmw.LogBatch[bytes]]:
        return [batch async for batch in log.read_batches()]

    assert rows(asyncio.run(read())) == one_by_one(log.read())


def turn_a_bit(log: rtmw.Log[bytes], position: int) -> None:
    segment = max((path for path in log.path.glob("*.seg") if int(path.stem) <= position), key=lambda p: int(p.stem))
    with open(segment, "r+b") as file:
        file.seek(12288 + position - int(segment.stem) + 32)
        byte = file.read(1)[0]
        file.seek(-1, 1)
        file.write(bytes([byte ^ 1]))


@pytest.mark.parametrize("name", ["read", "read_batches"])
def test_what_lies_before_damage_is_given_and_then_the_damage_is_told(log: rtmw.Log[bytes], name: str) -> None:
    everything = one_by_one(log.read())
    turn_a_bit(log, everything[1500][0])
    found: list[int] = []
    reading = getattr(log, name)()

    def go_on() -> None:
        for one in reading:
            found.extend([one.position] if isinstance(one, rtmw.LogRecord) else one.position.tolist())

    with pytest.raises(rtmw.LogDamaged) as caught:
        go_on()
    assert found == [row[0] for row in everything[:1500]]
    assert caught.value.start == everything[1500][0]
    with pytest.raises(rtmw.LogDamaged):
        go_on()
    assert len(found) == 1500


def test_records_that_were_read_ahead_are_not_given_after_close(log: rtmw.Log[bytes]) -> None:
    records = log.read()
    first = next(records)
    iterator = iter(records)
    assert next(iterator).position == first.end
    records.close()
    assert list(iterator) == []
    assert list(records) == []


def test_who_breaks_off_goes_on_behind_it(log: rtmw.Log[bytes]) -> None:
    records, seen = log.read(), list[int]()
    while len(seen) < 3002:
        end = 0
        for record in records:
            seen.append(record.position)
            end = record.end
            if len(seen) % 7 == 0:
                break
        assert records.position == (log.end if len(seen) == 3002 else end)
    assert seen == [record.position for record in log.read()]


def test_records_are_equal_if_all_of_them_is(log: rtmw.Log[bytes]) -> None:
    one, other = list(log.read())[:2], list(log.read())[:2]
    assert one == other
    assert one[0] != other[1]
    assert one[0] != "record"
    assert len({*one, *other}) == 2


def test_only_a_log_makes_records() -> None:
    with pytest.raises(TypeError, match="cannot create"):
        rtmw.LogRecord()
