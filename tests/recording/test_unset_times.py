"""Times that no clock shows (2^63 and later, mostly 2^64-1) were not set: the messages are there, without a time."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from mcap.writer import CompressionType, Writer

import rtmw
from rtmw.recording import Recording
from rtmw.recording.contents import UNSET_NS
from rtmw.recording.recordings import info
from rtmw.recording.tools.check import check
from rtmw.recording.tools.copying import Section, cut, merge

BEGIN = 1_700_000_000_000_000_000
UNSET = (1 << 64) - 1
TIMES = [(0, 0), (UNSET, 1), (2, UNSET), (3, 3), (1 << 63, UNSET), (5, 5)]
"""Log and publish times; those that are set since BEGIN."""


def stamp(time: int) -> int:
    return time if time >= 1 << 63 else BEGIN + time * 1_000_000


def write(path: Path, times: list[tuple[int, int]], *, chunked: bool = True) -> Path:
    """A recording of somebody else: message n is the byte n."""
    with path.open("wb") as file:
        writer = Writer(file, compression=CompressionType.NONE, use_chunking=chunked)
        writer.start()
        channel = writer.register_channel("t", "application/octet-stream", 0)
        for number, (log_time, publish_time) in enumerate(times):
            writer.add_message(channel, stamp(log_time), bytes([number]), stamp(publish_time), number)
        writer.finish()
    return path


@pytest.fixture(params=[True, False], ids=["chunks", "no chunks"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return write(tmp_path / "a.mcap", TIMES, chunked=request.param)


def test_a_message_without_a_time_does_not_cost_its_chunk(path: Path) -> None:
    with Recording(path) as recording:
        found = [(m.log_time, m.publish_time, m.payload[0]) for m in recording.messages()]
    assert found == [(*(min(stamp(time), UNSET_NS) for time in both), n) for n, both in enumerate(TIMES)]
    assert check(path).problems == []
    assert info(path).seconds < 1


def test_a_message_without_a_time_lies_in_no_section_of_time(path: Path) -> None:
    with Recording(path) as recording:
        since = [m.payload[0] for m in recording.messages(start_ns=stamp(2))]
        until = [m.payload[0] for m in recording.messages(end_ns=stamp(3))]
    assert (since, until) == ([2, 3, 5], [0, 2])


def test_its_time_is_null_in_columns(path: Path, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    import pyarrow.dataset as ds

    from rtmw.recording.tools.export import export_parquet

    export_parquet([path], tmp_path / "out", Section())
    rows = ds.dataset(tmp_path / "out", partitioning="hive").to_table().sort_by("sequence").to_pylist()
    assert [row["log_time_ns"] for row in rows] == [None if a >= 1 << 63 else stamp(a) for a, _ in TIMES]
    assert [row["publish_time"] for row in rows] == [
        None if b >= 1 << 63 else datetime.fromtimestamp(BEGIN / 1e9, UTC).replace(microsecond=b * 1000)
        for _, b in TIMES
    ]
    assert [row["hour"] for row in rows] == [None if a >= 1 << 63 else "2023-11-14T22" for a, _ in TIMES]


def test_its_time_is_null_in_spark(path: Path) -> None:
    pytest.importorskip("pyspark")
    from tests.spark.query import Query

    query = Query(path)
    assert [row["log_time_ns"] is None for row in query.rows()] == [a >= 1 << 63 for a, _ in TIMES]
    assert [row["publish_time"] is None for row in query.rows()] == [b >= 1 << 63 for _, b in TIMES]
    assert len(Query(path, start=str(stamp(2))).rows()) == 3


def test_tools_keep_it_at_the_time_of_the_message_before(path: Path, tmp_path: Path) -> None:
    cut(path, tmp_path / "cut.mcap", Section(("t",)))
    merge([path], tmp_path / "merged.mcap")
    for name in ("cut.mcap", "merged.mcap"):
        with Recording(tmp_path / name) as recording:
            found = [(m.log_time, m.publish_time, m.payload[0]) for m in recording.messages()]
        times = [(0, 0), (0, 1), (2, 2), (3, 3), (3, 3), (5, 5)]
        assert found == [(stamp(a), stamp(b), n) for n, (a, b) in enumerate(times)]


@pytest.mark.parametrize(
    "times", [TIMES, [(UNSET, UNSET)] * 6, [(UNSET, 0)] * 5 + [(7, 7)]], ids=["some", "all", "most"]
)
@pytest.mark.usefixtures("domain")
def test_a_recording_with_unset_times_is_replayed_whole(tmp_path: Path, times: list[tuple[int, int]]) -> None:
    path = write(tmp_path / "a.mcap", times)
    with rtmw.Subscriber("t", depth=10) as subscriber, rtmw.Replay(path) as replay:
        replay.run()
        assert [sample.value[0] for sample in subscriber.take_many(10)] == [*range(6)]
