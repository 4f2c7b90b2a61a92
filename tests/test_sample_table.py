"""`rtmw.table`: live messages as Arrow."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow")

import numpy as np
import pyarrow as pa

import rtmw


@dataclass
class Speed:
    pump: rtmw.int32
    rpm: float
    names: list[str]


@dataclass
class Tree:
    below: dict[str, int]


def test_messages_are_the_rows_that_their_recording_has(domain: rtmw.Domain, tmp_path: Path) -> None:
    with (
        rtmw.Recorder("pump", tmp_path / "run", domain=domain),
        rtmw.Subscriber("pump", Speed, domain=domain) as subscriber,
        rtmw.Publisher("pump", Speed, domain=domain, priority=3) as publisher,
    ):
        for number in range(40):
            publisher.publish(
                Speed(number, number / 3, [f"n{number}"] * (number % 3)), lifetime=60.0 if number % 2 else None
            )
        table = rtmw.table(subscriber.take_many(100))
    with rtmw.Recordings(tmp_path / "run") as recordings:
        recorded = recordings.to_arrow("pump")
    assert table.column_names == [name for name in recorded.column_names if name not in ABSENT]
    assert table.num_rows == 40
    assert table.drop_columns("expires").equals(recorded.select(table.drop_columns("expires").column_names))
    assert table["expires"].is_null().to_pylist() == [number % 2 == 0 for number in range(40)]


ABSENT = ("log_time", "log_time_ns", "file", "offset")


def test_columns_and_payloads_are_chosen_as_of_a_recording(domain: rtmw.Domain) -> None:
    with (
        rtmw.Subscriber("pump", rtmw.ANY, domain=domain) as subscriber,
        rtmw.Publisher("pump", Speed, domain=domain) as publisher,
    ):
        publisher.publish(Speed(1, 2.0, []))
        samples = subscriber.take_many(1)
        assert rtmw.table(samples, columns=["RPM", "pump"]).to_pylist() == [{"rpm": 2.0, "pump": 1}]
        assert rtmw.table(samples, columns="rpm").column_names == ["rpm"]
        plain = rtmw.table(samples, typed=False)
        assert plain["payload"].to_pylist() == [bytes(samples[0])]
        assert plain["type"].to_pylist() == [samples[0].type_name]
        with pytest.raises(ValueError, match="there is no column 'speed'; there are topic, publish_time"):
            rtmw.table(samples, columns=["speed"])


@pytest.mark.parametrize(
    ("type", "values"),
    [
        (bytes, [b"", b"x", b"yz" * 500]),
        (np.dtype([("x", "<f8"), ("n", "<i4")]), [np.zeros(1, [("x", "<f8"), ("n", "<i4")])] * 2),
        (str, ["a", "ü" * 100]),
    ],
)
def test_messages_of_each_kind_are_rows(domain: rtmw.Domain, type: Any, values: list[Any]) -> None:
    with (
        rtmw.Subscriber("t", type, domain=domain) as subscriber,
        rtmw.Publisher("t", type, domain=domain) as publisher,
    ):
        for value in values:
            publisher.publish(value)
        table = rtmw.table(subscriber.take_many(10))
    assert table.num_rows == len(values)
    assert table["sequence"].to_pylist() == [*range(1, len(values) + 1)]
    if type is bytes:
        assert table["payload"].to_pylist() == values


def test_no_messages_are_a_table_without_rows() -> None:
    assert isinstance(rtmw.table([]), pa.Table)
    assert rtmw.table(()).num_rows == 0
    assert rtmw.table(iter(()), columns=["topic"]).column_names == ["topic"]


def test_messages_of_two_types_are_an_error_and_have_payloads(domain: rtmw.Domain) -> None:
    with (
        rtmw.Subscriber("a", rtmw.ANY, domain=domain) as subscriber,
        rtmw.Publisher("a", Speed, domain=domain) as speeds,
        rtmw.Publisher("a", bytes, domain=domain) as raw,
    ):
        speeds.publish(Speed(1, 2.0, []))
        raw.publish(b"raw")
        samples = subscriber.take_many(2)
        with pytest.raises(ValueError, match=r"columns can be those of one type; there are .*Speed.*typed=False"):
            rtmw.table(samples)
        assert rtmw.table(samples, typed=False)["payload"].to_pylist() == [bytes(one) for one in samples]


def test_what_is_no_list_of_samples_is_refused_in_a_sentence(domain: rtmw.Domain) -> None:
    table: Any = rtmw.table
    with rtmw.Subscriber("t", domain=domain) as subscriber, rtmw.Publisher("t", domain=domain) as publisher:
        publisher.publish(b"1")
        sample = subscriber.take()
        assert sample is not None
        for wrong in (subscriber, sample):
            with pytest.raises(TypeError, match=r"subscriber\.take_many\(1000\)"):
                table(wrong)
        with pytest.raises(TypeError, match="takes samples of a subscriber, and bytes is none"):
            table([sample, b"1"])
        sample.release()
        with pytest.raises(ValueError, match="the sample was released"):
            table([sample])


def test_a_table_is_a_copy_that_outlives_the_samples_and_the_domain(domain_id: int) -> None:
    with (
        rtmw.Domain(domain_id) as domain,
        rtmw.Subscriber("t", domain=domain) as subscriber,
        rtmw.Publisher("t", domain=domain) as publisher,
    ):
        publisher.publish(b"kept" * 1000)
        (sample,) = subscriber.take_many(1)
        table = rtmw.table([sample])
        sample.release()
    assert table["payload"].to_pylist() == [b"kept" * 1000]
