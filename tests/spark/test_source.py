"""The rows of recordings, as Spark's tasks make them; no Spark session is needed for it."""

from __future__ import annotations

import os
import warnings
from collections import Counter
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from uuid import uuid4

import pytest
from pyspark.sql.datasource import Filter, GreaterThan, LessThan
from pyspark.sql.types import StructType

from rtmw.errors import RecordingDamaged, RecordingError, UnsupportedType, ValueMismatch
from rtmw.recording.contents import Chunk
from rtmw.recording.frames.scan import Stream
from rtmw.recording.tools.recover import recover
from rtmw.spark.options import read_options
from rtmw.spark.partitions import Partition, Selection, Surveyed, partitions_of, survey
from rtmw.spark.source import UnprunedReader, schema_of
from tests.recordings import numbered
from tests.spark.plant import BEGIN, MS, Deep, Plant, Speed, report, speed
from tests.spark.plant_folder import record_plant
from tests.spark.query import Query

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return record_plant(tmp_path_factory.mktemp("plant"))


def at(number: float) -> datetime:
    return EPOCH + timedelta(microseconds=(BEGIN + number * MS) // 1000)


def test_each_message_is_a_row_with_what_the_recording_says_of_it(folder: Path) -> None:
    rows = Query(folder / "a.mcap", topic="pump/1/speed").rows()
    assert len(rows) == 1500
    assert [row for row in rows if row["sequence"] == 1234] == [
        {
            "topic": "pump/1/speed",
            "log_time": at(1234),
            "publish_time": at(1234),
            "sequence": 1234,
            "priority": 1234 % 8,
            "publisher": (1 << 63) + 5 - (1 << 64),
            "expires": None,
            "file": str(folder / "a.mcap"),
            "offset": 12 * 102 + 17,
            "log_time_ns": BEGIN + 1234 * MS + 1,
            "publish_time_ns": BEGIN + 1234 * MS,
            "pump": 1234 % 5,
            "rpm": 1234 / 7,
            "turns": Decimal((1 << 63) + 1234),
            "state": "RUNNING",
        }
    ]


def test_the_offset_is_the_number_of_the_message_in_its_file(folder: Path) -> None:
    assert Query(folder / "a.mcap").column("offset") == [*range(3060)]


def test_members_whose_names_are_taken_get_others(folder: Path) -> None:
    query = Query(folder, topic="report")
    assert query.schema.fieldNames()[-5:] == ["topic_", "Priority_", "speeds", "image", "corners"]
    row = next(row for row in query.rows() if row["topic_"] == "r101")
    assert (row["Priority_"], row["image"], row["corners"]) == (101, bytes([101]), [101.0, 0.5])
    assert [(one["pump"], one["rpm"], one["state"]) for one in row["speeds"]] == [(1, 101 / 7, "RUNNING")] * 2


def test_without_a_topic_rows_have_payloads_and_types(folder: Path) -> None:
    query = Query(folder)
    assert query.schema.fieldNames()[-2:] == ["type", "payload"]
    rows = query.rows()
    assert Counter((row["topic"], row["type"]) for row in rows) == {
        ("pump/1/speed", "plant::Speed"): 4500,
        ("pump/2/speed", "plant::Speed"): 1500,
        ("report", "plant::Report"): 60,
        ("raw", "bytes"): 30,
    }
    assert all(row["payload"] == speed(row["sequence"]).serialize() for row in rows if row["type"] == "plant::Speed")


@pytest.mark.parametrize("name", ["plant.Speed", "plant::Speed", "plant/Speed"])
def test_a_type_names_all_of_its_topics(folder: Path, name: str) -> None:
    rows = Query(folder, type=name, columns="topic,rpm").rows()
    assert {row["topic"] for row in rows} == {"pump/1/speed", "pump/2/speed"}


def test_raw_messages_are_payloads(folder: Path) -> None:
    assert Query(folder, topic="raw", columns="payload").column("payload") == [bytes([n]) for n in range(30)]


def test_topics_may_be_several_or_a_pattern(folder: Path) -> None:
    assert len(Query(folder, topic="pump/2/speed, report").rows()) == 1560
    assert "rpm" in Query(folder, topic="pump/*").schema.fieldNames()
    assert "payload" in Query(folder, topic="*r*").schema.fieldNames()


def test_carried_messages_do_not_come_twice_unless_they_are_asked_for(folder: Path) -> None:
    assert Query(folder, topic="pump/1/speed").column("sequence").count(2998) == 1
    assert Query(folder, topic="pump/1/speed", carried="true").column("sequence").count(2998) == 2


def test_an_expiry_is_a_time_or_null(folder: Path) -> None:
    assert Counter(Query(folder, topic="pump/1/speed").column("expires")) == {None: 1500, at(0): 3000}


@pytest.mark.parametrize(
    ("start", "end"),
    [(str(at(1000)), "2025-10-09 08:53:21.100"), (str(BEGIN + 999 * MS + 2), str(BEGIN + 1099 * MS + 2))],
)
def test_a_slice_of_time_reads_only_its_chunks(folder: Path, start: str, end: str) -> None:
    query = Query(folder / "a.mcap", type="plant.Speed", start=start, end=end)
    assert sorted(query.column("sequence")) == [*range(1000, 1100)]
    (only,) = query.partitions
    assert only.extent.bytes < 0.1 * only.skipped.bytes
    assert only.extent.chunks + only.skipped.chunks == 48
    assert only.extent.messages + only.skipped.messages == 3060


def test_chunks_without_a_wanted_topic_are_skipped(folder: Path) -> None:
    (only,) = Query(folder / "deeper", topic="raw").partitions
    assert only.extent.chunks < only.skipped.chunks / 10


def test_columns_may_be_chosen_by_name(folder: Path) -> None:
    query = Query(folder / "a.mcap", topic="pump/1/speed", columns="RPM, sequence,payload")
    assert query.schema.fieldNames() == ["rpm", "sequence", "payload"]
    assert query.rows()[4] == {"rpm": 8 / 7, "sequence": 8, "payload": speed(8).serialize()}


def test_a_schema_of_ones_own_chooses_too_and_has_to_be_of_the_same_types(folder: Path) -> None:
    query = Query(folder / "a.mcap", StructType().add("RPM", "double").add("topic", "string"), topic="pump/1/speed")
    assert query.batches()[0].schema.names == ["RPM", "topic"]
    assert query.rows()[0] == {"RPM": 0.0, "topic": "pump/1/speed"}
    with pytest.raises(ValueError, match="column 'rpm' is of type double; the schema of the read says int"):
        Query(folder / "a.mcap", StructType().add("rpm", "integer"), topic="pump/1/speed")


def test_no_columns_at_all_still_count_rows(folder: Path) -> None:
    assert sum(batch.num_rows for batch in Query(folder, StructType([]), topic="raw").batches()) == 30


def test_unsigned_numbers_of_64_bits_are_decimals_or_refused_as_longs(folder: Path) -> None:
    query = Query(folder / "a.mcap", topic="pump/1/speed", unsigned64="long")
    assert query.schema["turns"].dataType.simpleString() == "bigint"
    with pytest.raises(ValueMismatch, match=r"plant.Speed\.turns: .* is beyond 64 bits with a sign"):
        query.rows()


def test_many_partitions_have_the_same_rows(folder: Path) -> None:
    query = Query(folder, type="plant.Speed", partition_bytes="8K")
    assert len(query.partitions) > 20
    assert sorted(query.column("sequence")) == sorted([*range(3000), *range(3000, 6000)])
    assert sum(part.skipped.chunks > 0 for part in query.partitions) <= 1


def of_chunks(count: int, size: int) -> Surveyed:
    """A recording by its index, without the file."""
    numbers = range(count)
    chunks = tuple(Chunk(n, n, 1, n, n, {1: 1}, "lz4", size, size) for n in numbers)
    return Surveyed(Path("long.mcap"), chunks, {1: Stream("t", "bytes", None)})


@pytest.mark.parametrize("count", [64, 300, 792, 1000, 3000])
def test_each_processor_gets_as_many_partitions_so_that_none_is_idle_at_the_end(count: int) -> None:
    """Of a chunk of 1 MiB, a partition has its share, or one chunk more."""
    processors = os.cpu_count() or 1
    recording = of_chunks(count * processors, 1 << 20)
    partitions = partitions_of([recording], Selection(), None)
    assert [chunk.number for part in partitions for run in part.runs for chunk, _ in run.chunks] == [
        *range(count * processors)
    ]
    waves = -(-len(partitions) // processors)
    longest = max(part.extent.chunks for part in partitions)
    assert waves * longest <= count + waves


@pytest.mark.parametrize("count", [192, 383, 384, 792, 3000])
def test_a_task_of_a_long_recording_has_about_256_mib_for_each_costs_as_much_as_some_of_them(count: int) -> None:
    partitions = partitions_of([of_chunks(count * (os.cpu_count() or 1), 1 << 20)], Selection(), None)
    assert all(170 <= part.extent.chunks <= 385 for part in partitions)


def test_small_files_are_packed_into_few_partitions(tmp_path: Path) -> None:
    for number in range(200):
        numbered(tmp_path / f"run_{number}.mcap", ["t"], 3)
    query = Query(tmp_path)
    assert 1 < len(query.partitions) <= 16
    assert len(query.rows()) == 600
    assert [row["file"] for row in query.rows()[::3]] == [str(tmp_path / f"run_{number}.mcap") for number in range(200)]
    assert len(Query(tmp_path, partition_bytes="1K").partitions) == 200


def damaged(folder: Path) -> Path:
    plant = Plant(folder / "bad.mcap")
    plant.put("speed", range(100))
    plant.payload("speed", Speed, 100, speed(100).serialize()[:-2])
    plant.put("speed", range(101, 200))
    return plant.close()


def test_a_damaged_payload_is_an_error_that_names_it_or_a_row_without_members_or_none(tmp_path: Path) -> None:
    path = damaged(tmp_path)
    with pytest.raises(ValueMismatch, match=r"bad\.mcap, chunk at byte .* is damaged.*PERMISSIVE"):
        Query(path, topic="speed").rows()
    permissive = Query(path, topic="speed", mode="permissive")
    assert permissive.schema["rpm"].nullable
    assert {r["sequence"]: r["rpm"] for r in permissive.rows()} == {n: None if n == 100 else n / 7 for n in range(200)}
    rest = Query(path, topic="speed", mode="DROPMALFORMED").column("sequence")
    assert rest == [n for n in range(200) if n != 100]


def test_flipped_bits_are_refused(tmp_path: Path) -> None:
    path = damaged(tmp_path)
    (only,) = Query(path).partitions
    (chunk, _), *_ = only.runs[0].chunks
    data = bytearray(path.read_bytes())
    data[chunk.position + chunk.length // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(RecordingDamaged):
        Query(path).rows()


def test_of_a_recording_without_its_end_whole_chunks_are_read_with_a_warning_or_it_is_refused(tmp_path: Path) -> None:
    plant = Plant(tmp_path / "open.mcap")
    plant.put("speed", range(1000))
    plant.writer.flush()
    plant.put("speed", range(1000, 1010))
    with pytest.warns(UserWarning, match=r"open\.mcap is not complete: .*what is whole is read"):
        assert len(Query(plant.path, topic="speed").rows()) == 1000
    with warnings.catch_warnings(action="error"):
        assert len(Query(plant.path, topic="speed", incomplete="read").rows()) == 1000
        with pytest.raises(RecordingError, match="is not complete"):
            Query(plant.path, topic="speed", incomplete="fail")
        plant.close()
        assert len(Query(plant.path, topic="speed", incomplete="fail").rows()) == 1010


# Proves G171.
def test_a_query_that_needs_less_than_it_reads_warns_once_a_load(folder: Path) -> None:
    options = read_options({"path": str(folder / "a.mcap"), "topic": "pump/1/speed"})
    schema, early = schema_of(options, survey(options)), LessThan(("log_time_ns",), BEGIN + 100 * MS)
    everything: list[list[Filter]] = [[], [GreaterThan(("rpm",), 3.0)], [GreaterThan(("log_time_ns",), BEGIN)]]
    with warnings.catch_warnings(action="error"):
        for conditions in everything:
            assert UnprunedReader(options, schema, uuid4().hex).pushFilters(conditions) == conditions
    readers = [UnprunedReader(options, schema, uuid4().hex) for _ in range(2)]
    with pytest.warns(UserWarning, match=r"need 2 of 47 chunks, .* rtmw\.spark\.read\(path\)\.where") as warned:
        assert [reader.pushFilters([early]) for reader in (*readers, *readers)] == [[early]] * 4
    assert len(warned) == 2
    assert sum(part.extent.chunks for part in readers[0].partitions() if isinstance(part, Partition)) == 47


def test_an_empty_recording_has_one_partition_without_rows(tmp_path: Path) -> None:
    query = Query(Plant(tmp_path / "empty.mcap").close())
    assert [type(part) for part in query.partitions] == [Partition]
    assert query.rows() == []


def test_a_topic_whose_type_changed_asks_which_one_is_meant(tmp_path: Path) -> None:
    plant = Plant(tmp_path / "changed.mcap")
    plant.put("speed", range(10))
    plant.put("speed", range(10, 12), report)
    path = plant.close()
    with pytest.raises(ValueError, match=r"of 2 types are meant.* plant\.Report \(2 messages on speed\), plant\.Sp"):
        Query(path, topic="speed")
    assert len(Query(path, topic="speed", type="plant.Speed").column("rpm")) == 10
    assert len(Query(path, topic="speed", typed="false").column("payload")) == 12


def test_a_type_that_columns_cannot_hold_is_read_as_payloads(tmp_path: Path) -> None:
    plant = Plant(tmp_path / "deep.mcap")
    plant.put("deep", range(3), lambda number: Deep([Deep([])] * number))
    path = plant.close()
    with pytest.raises(UnsupportedType, match=r'contains itself.*"typed", "false"'):
        Query(path, topic="deep")
    assert len(Query(path, topic="deep", typed="false").rows()) == 3


def test_a_path_may_be_a_list_a_pattern_or_a_url(folder: Path) -> None:
    files = f"{folder}/a.mcap,{folder}/deeper"
    for path in (folder, files, f"{folder}/**/*.mcap", f"file://{folder}", f"{folder}/*"):
        assert len(Query(path, topic="pump/2/speed, pump/1/speed").rows()) == 6000


def test_a_recording_is_read_once_however_often_it_is_named(folder: Path) -> None:
    assert len(Query(f"{folder},{folder}/a.mcap", topic="report").rows()) == 60


WRONG: list[tuple[str, dict[str, str], str]] = [
    ("nowhere", {}, "there is no recording .*nowhere"),
    ("", {"topic": "pump"}, r"no topic 'pump' in 2 recording\(s\); there are pump/1/speed, pump/2/speed, raw, report"),
    ("", {"topic": "raw", "type": "plant.Speed"}, "no topic 'raw' with messages of plant.Speed"),
    ("", {"type": "plant.Motor"}, "no messages of type 'plant.Motor'"),
    ("", {"topics": "a"}, "rtmw has no option 'topics' for reading; there are carried, columns"),
    ("", {"mode": "SLOPPY"}, "mode='SLOPPY' is not known: one of FAILFAST, PERMISSIVE, DROPMALFORMED was expected"),
    ("", {"typed": "maybe"}, "true or false was expected"),
    ("", {"start": "noon"}, "start='noon' is not known: a time such as"),
    ("", {"partition_bytes": "many"}, "a number of bytes, such as 32M was expected"),
    ("", {"columns": "rpm"}, "there is no column 'rpm'; there are topic, log_time"),
]


@pytest.mark.parametrize(("path", "options", "message"), WRONG, ids=[str(case[1] or case[0]) for case in WRONG])
def test_what_cannot_be_read_is_refused_in_plain_words(
    folder: Path, path: str, options: dict[str, str], message: str
) -> None:
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        Query(folder / path, **options)


def test_what_is_no_recording_in_a_folder_is_named_and_left_out(tmp_path: Path) -> None:
    numbered(tmp_path / "b.mcap", ["t"], 5)
    (tmp_path / "stray.mcap").write_bytes(b"abc")
    (tmp_path / "cut.mcap").write_bytes((tmp_path / "b.mcap").read_bytes()[:20])
    (tmp_path / "link.mcap").symlink_to(tmp_path / "nowhere")
    with pytest.warns(UserWarning, match="; it is left out") as warned:
        assert len(Query(tmp_path).rows()) == 5
    told = {str(one.message) for one in warned}
    left_out = {"stray.mcap", "link.mcap", "cut.mcap"}
    assert {name for name in left_out if any(name in text for text in told)} == left_out
    assert all(text.endswith("; it is left out") for text in told)
    assert len(Query(tmp_path, incomplete="read").rows()) == 5
    with pytest.raises((RecordingError, FileNotFoundError), match=r"(link|stray|cut)\.mcap"):
        Query(tmp_path, incomplete="fail")
    with pytest.raises(RecordingError, match=r"stray\.mcap is no recording"):
        Query(f"{tmp_path}/b.mcap, {tmp_path}/stray.mcap", incomplete="read")


def test_a_file_that_is_no_recording_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("no recording at all, although it is long enough to be looked at for one")
    with pytest.raises(RecordingError):
        Query(tmp_path / "a.txt")


def test_a_comma_in_the_name_of_a_file_divides_nothing(tmp_path: Path) -> None:
    for name in ("a, b", "c"):
        (tmp_path / name).mkdir()
        numbered(tmp_path / name / "höhe,1.mcap", ["t"], 3)
    assert len(Query(tmp_path / "a, b").rows()) == 3
    assert len(Query(tmp_path / "a, b" / "*,1.mcap").rows()) == 3
    assert len(Query(f"{tmp_path / 'c'}, {tmp_path / '?' / '*.mcap'}").rows()) == 3


def test_a_folder_with_a_recovered_recording_has_each_message_once(tmp_path: Path) -> None:
    path = numbered(tmp_path / "a.mcap", ["t"], 3)
    recover(path, tmp_path / "a.recovered.mcap")
    assert len(Query(tmp_path).rows()) == 3


def test_no_path_is_refused() -> None:
    with pytest.raises(ValueError, match="say which"):
        read_options({"topic": "a"})


@pytest.mark.parametrize(("text", "size"), [("65536", 1 << 16), ("32M", 32 << 20), ("1KiB", 1024), ("2gb", 2 << 30)])
def test_sizes_have_units(text: str, size: int) -> None:
    assert read_options({"path": "a", "partition_bytes": text}).partition_bytes == size
