"""The same rows of telemetry, eight fields each, as a recording, as a log, and as Parquet."""

import base64
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from shutil import rmtree
from typing import Any

import cyclonedds.idl.types as t
from cyclonedds.idl import IdlStruct

import rtmw

TOPIC = "plant/telemetry"
BEGIN_NS = 1_760_000_000 * 10**9
EVERY_NS = 100_000
AT_ONCE = 1_000_000
"""Rows that are made at a time."""
APPENDED = 10_000
"""Records of one append."""


@dataclass
class Telemetry(IdlStruct, typename="bench.Telemetry"):
    stamp: t.int64
    unit: t.int32
    state: t.int32
    temperature: t.float64
    pressure: t.float64
    flow: t.float64
    rpm: t.float32
    load: t.float32


NAMES = ("stamp", "unit", "state", "temperature", "pressure", "flow", "rpm", "load")
KINDS = ("<i8", "<i4", "<i4", "<f8", "<f8", "<f8", "<f4", "<f4")


def rows(first: int, count: int) -> Any:
    """As they lie in a payload behind its first four bytes."""
    import numpy as np

    made = np.empty(count, [("header", "<u4"), *zip(NAMES, KINDS, strict=True)])
    chance = np.random.default_rng(first)
    made["header"] = 0x100
    made["stamp"] = np.arange(first, first + count) * 100
    made["unit"] = chance.integers(0, 50, count)
    made["state"] = chance.integers(0, 4, count)
    for name, middle, spread in (("temperature", 60, 5), ("pressure", 3, 0.2), ("flow", 12, 1)):
        made[name] = chance.normal(middle, spread, count).round(3)
    made["rpm"] = chance.integers(900, 1100, count)
    made["load"] = chance.random(count).round(3)
    return made


def batch(first: int, count: int) -> Any:
    """The same as a record batch of Arrow."""
    import pyarrow as pa

    made = rows(first, count)
    schema = pa.schema([(name, pa.from_numpy_dtype(kind)) for name, kind in zip(NAMES, KINDS, strict=True)])
    return pa.record_batch([pa.array(made[name].copy()) for name in NAMES], schema=schema)


class Messages:
    """Rows as `RecordingWriter.write_batch` takes them."""

    def __init__(self, made: Any, first: int) -> None:
        import numpy as np

        count = len(made)
        self.data = made.tobytes()
        self.position = np.arange(count) * made.itemsize
        self.size = np.full(count, made.itemsize)
        self.sequence = np.arange(first, first + count)
        self.publish_time = BEGIN_NS + self.sequence * EVERY_NS
        self.log_time = self.publish_time + 5_000
        self.channel = self.priority = self.publisher = self.expires = self.flags = np.zeros(count, np.int64)


def recorded(folder: Path, count: int) -> Path:
    """A recording of so many rows, made once."""
    from rtmw.recording import RecordingWriter
    from rtmw.types import resolve

    path = folder / f"telemetry-{count}.mcap"
    if path.exists():
        return path
    half_made, kind = path.with_suffix(".part"), resolve(Telemetry)
    half_made.unlink(missing_ok=True)
    with RecordingWriter(half_made) as writer:
        described = {"rtmw.type": base64.b64encode(kind.description).decode()}
        channel = writer.channel(TOPIC, writer.schema(kind.name, "omgidl", b""), "cdr", described)
        for first in range(0, count, AT_ONCE):
            batch: Any = Messages(rows(first, min(AT_ONCE, count - first)), first)
            writer.write_batch(batch, {0: channel})
    return half_made.rename(path)


def logged(folder: Path, count: int) -> Path:
    """The same rows as a log, made once."""
    path = folder / f"telemetry-{count}.log"
    if path.exists():
        return path
    half_made = path.with_suffix(".part.log")
    rmtree(half_made, ignore_errors=True)
    with rtmw.Log(half_made, Telemetry, sync=False) as log:
        for first in range(0, count, APPENDED):
            made = rows_at(first, count).tolist()
            log.append_many([Telemetry(*fields) for _, *fields in made])
    return half_made.rename(path)


def rows_at(first: int, count: int) -> Any:
    """Rows from one on, as `recorded` has them."""
    begin = first - first % AT_ONCE
    made = _made(begin, min(AT_ONCE, count - begin))
    return made[first - begin : first - begin + APPENDED]


_made = lru_cache(maxsize=1)(rows)


def as_parquet(folder: Path, count: int) -> Path:
    """The same rows as Parquet with Snappy, made once."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = folder / f"telemetry-{count}.parquet"
    if path.exists():
        return path
    half_made = path.with_suffix(".part")
    with pq.ParquetWriter(half_made, batch(0, 0).schema) as writer:
        for first in range(0, count, AT_ONCE):
            writer.write_table(pa.Table.from_batches([batch(first, min(AT_ONCE, count - first))]))
    return half_made.rename(path)
