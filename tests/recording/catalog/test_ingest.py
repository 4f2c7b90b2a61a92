"""ingest: each message of recordings is a row of a table that lasts, once, whatever happens on the way."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from cyclonedds.idl import IdlStruct, types

pytest.importorskip("pyarrow")
pytest.importorskip("deltalake")

import deltalake
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from rtmw.cli import main
from rtmw.recording import Recording
from rtmw.recording.catalog import Catalog, ParquetTopic, folder_of
from rtmw.types import resolve
from tests.cli.command import Run
from tests.recordings import SECOND, Maker, New, Old
from tests.types.coded import encode
from tests.types.messages import Various

FORMS = pytest.mark.parametrize("form", ["delta", "parquet"])
DAY = 86_400


@dataclass
class More(IdlStruct, typename="plant.Level"):
    """Another version of it, with a member more."""

    metres: types.float32
    station: str


def payload(value: Any) -> bytes:
    return encode(resolve(type(value)), value)


def record(path: Path, values: dict[int, Any], topic: str = "level", **options: Any) -> Path:
    """Messages of one type, by the second at which they come."""
    with Maker(path, chunk_bytes=500, **options) as maker:
        channel = maker.channel(topic, type(next(iter(values.values()))))
        for second, value in values.items():
            maker.write(channel, second * SECOND, value if isinstance(value, bytes) else payload(value))
    return path


def levels(first: int, count: int) -> dict[int, Any]:
    return {second: Old(float(second)) for second in range(first, first + count)}


@pytest.fixture
def ingest(capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs the command: its status, what it printed, and what it complained about."""

    def call(*arguments: object) -> tuple[int, str, str]:
        capsys.readouterr()
        status, shown = main(["recording", "ingest", *map(str, arguments)]), capsys.readouterr()
        return status, shown.out, shown.err

    return call


def add(folder: Path, form: str, *paths: Path, **options: Any) -> Any:
    with Catalog(folder, form, **options) as catalog:
        for path in paths:
            catalog.add(path)
    return catalog.ingested


def read(folder: Path, form: str, topic: str = "level") -> pa.Table:
    where = str(folder / topic)
    if form == "delta":
        table: Any = deltalake.DeltaTable(where)
        return table.to_pyarrow_table()
    return ds.dataset(where, partitioning="hive", format="parquet").to_table()


def metres(folder: Path, form: str, topic: str = "level") -> list[float]:
    return sorted(read(folder, form, topic).column("metres").to_pylist())


@FORMS
def test_each_message_is_a_row_once_however_often_it_is_added(tmp_path: Path, form: str) -> None:
    path = record(tmp_path / "a.mcap", levels(0, 100))
    assert add(tmp_path / "t", form, path, path).messages == {"level": 100}
    assert add(tmp_path / "t", form, path).messages == {"level": 0}
    assert metres(tmp_path / "t", form) == [float(n) for n in range(100)]


@FORMS
@pytest.mark.parametrize("topic", ["pump/speed", "/rosout", "..", "a b~c@d%2F#?", ".hidden", "Füße"])
def test_any_name_of_a_topic_is_the_name_of_a_folder(tmp_path: Path, form: str, topic: str) -> None:
    path = record(tmp_path / "a.mcap", levels(0, 100), topic)
    assert add(tmp_path / "t", form, path, commit_bytes=1000).messages == {topic: 100}
    assert add(tmp_path / "t", form, path).messages == {topic: 0}
    (folder,) = (tmp_path / "t").iterdir()
    assert not folder.name.startswith((".", "_"))
    assert metres(tmp_path / "t", form, folder.name) == [float(n) for n in range(100)]


def test_no_two_topics_have_one_folder() -> None:
    topics = ["a/b", "a@2Fb", "a%2Fb", "@2E", ".", "_", "@5F", "~", "@7E", "a.b", "a_b"]
    assert len({folder_of(Path("t"), topic) for topic in topics}) == len(topics)


@FORMS
def test_days_are_partitions_and_members_are_columns(tmp_path: Path, form: str) -> None:
    add(tmp_path / "t", form, record(tmp_path / "a.mcap", levels(0, 5) | levels(DAY, 5) | levels(3 * DAY, 5)))
    found = read(tmp_path / "t", form)
    assert len(set(found.column("day").to_pylist())) == 3
    assert len([*(tmp_path / "t" / "level").glob("day=*/*.parquet")]) == 3
    assert {"log_time", "publish_time", "sequence", "priority", "publisher", "file", "metres"} <= {*found.column_names}


@FORMS
# Proves G153.
def test_what_has_come_to_a_recording_that_grows_is_added(tmp_path: Path, form: str) -> None:
    path = tmp_path / "a.mcap"
    with Maker(path, chunk_bytes=500) as maker:
        channel = maker.channel("level", Old)
        for second, value in levels(0, 60).items():
            maker.write(channel, second * SECOND, payload(value))
        maker.writer.flush()
        assert add(tmp_path / "t", form, path).messages == {"level": 60}
        for second, value in levels(60, 30).items():
            maker.write(channel, second * SECOND, payload(value))
    assert add(tmp_path / "t", form, path).messages == {"level": 30}
    assert metres(tmp_path / "t", form) == [float(n) for n in range(90)]


@FORMS
def test_a_recording_that_was_renamed_or_copied_is_known(tmp_path: Path, form: str) -> None:
    path = record(tmp_path / "a.mcap", levels(0, 50))
    add(tmp_path / "t", form, path)
    shutil.copy(path, tmp_path / "copy.mcap")
    path.rename(tmp_path / "other.mcap")
    assert add(tmp_path / "t", form, tmp_path / "copy.mcap", tmp_path / "other.mcap").messages == {"level": 0}


@FORMS
def test_a_recording_that_only_begins_like_another_is_not_taken_for_it(tmp_path: Path, form: str) -> None:
    add(tmp_path / "t", form, record(tmp_path / "a.mcap", levels(0, 100)))
    other = record(tmp_path / "b.mcap", levels(0, 50) | {second: Old(-1.0) for second in range(500, 550)})
    assert add(tmp_path / "t", form, other).messages == {"level": 100}


@FORMS
def test_a_member_that_a_later_version_has_is_a_column_more(tmp_path: Path, form: str) -> None:
    first = record(tmp_path / "a.mcap", levels(0, 5))
    later = record(tmp_path / "b.mcap", {second: More(1.5, "Elbe") for second in range(DAY, DAY + 5)})
    add(tmp_path / "t", form, first)
    assert add(tmp_path / "t", form, later).problems == {}
    if form == "delta":
        assert read(tmp_path / "t", form).column("station").to_pylist().count("Elbe") == 5


@FORMS
def test_a_member_of_another_type_is_refused_in_words_and_all_else_is_added(tmp_path: Path, form: str) -> None:
    add(tmp_path / "t", form, record(tmp_path / "a.mcap", levels(0, 5)))
    other = record(tmp_path / "b.mcap", {second: New(1.1) for second in range(5)})
    done = add(tmp_path / "t", form, other, record(tmp_path / "c.mcap", {1: b"raw"}, "raw"))
    assert done.messages == {"level": 0, "raw": 1}
    assert done.problems == {
        f"{other}, level": "column 'metres' is float in the table, and double in this recording, whose type has "
        "changed: widen the column to double with --evolve, or add it to another folder"
    }
    assert metres(tmp_path / "t", form) == [0.0, 1.0, 2.0, 3.0, 4.0]


@dataclass
class Wide(IdlStruct, typename="plant.Level"):
    """Another version with numbers that a float does not hold, and a wider count."""

    metres: types.float64
    count: types.int64
    inner: types.sequence[types.int64]


@dataclass
class Narrow(IdlStruct, typename="plant.Level"):
    metres: types.float32
    count: types.int32
    inner: types.sequence[types.int16]


@dataclass
class Text(IdlStruct, typename="plant.Level"):
    metres: str


def narrow(first: int, count: int) -> dict[int, Any]:
    return {second: Narrow(float(second), second, [second % 100]) for second in range(first, first + count)}


BIG = 2**40
WIDE: dict[int, Any] = {second: Wide(second + 0.1, BIG + second, [BIG]) for second in range(DAY, DAY + 5)}


def counts(folder: Path, form: str) -> list[int]:
    return sorted(read(folder, form).column("count").to_pylist())


@FORMS
# Proves G154.
def test_evolving_widens_a_column_in_all_rows_and_nothing_is_lost(tmp_path: Path, form: str, ingest: Run) -> None:
    first, wide = record(tmp_path / "a.mcap", narrow(0, 60)), record(tmp_path / "b.mcap", WIDE)
    to, how = tmp_path / "t", ["--to", tmp_path / "t", "--format", form]
    add(to, form, first, commit_bytes=1000)
    assert ingest(wide, *how)[0] == 1
    assert ingest(wide, *how, "--evolve")[0] == 0
    assert counts(to, form) == [*range(60), *(BIG + second for second in range(DAY, DAY + 5))]
    assert metres(to, form) == [*map(float, range(60)), *(second + 0.1 for second in range(DAY, DAY + 5))]
    assert read(to, form).schema.field("inner").type.value_type == pa.int64()
    files = [file for file in (to / "level").glob("day=*/*.parquet") if file.name in live_files(to, form)]
    assert {str(pq.read_schema(file).field("count").type) for file in files} == {"int64"}
    assert add(to, form, first, wide).messages == {"level": 0}
    later = record(tmp_path / "c.mcap", narrow(2 * DAY, 5))  # narrower ones need no wider column
    assert add(to, form, later).problems == {}
    assert len(counts(to, form)) == 70


def live_files(folder: Path, form: str) -> set[str]:
    if form == "parquet":
        return {file.name for file in (folder / "level").glob("day=*/part-*")}
    return {uri.rsplit("/", 1)[-1] for uri in deltalake.DeltaTable(str(folder / "level")).file_uris()}


@FORMS
def test_recordings_of_one_call_are_widened_together(tmp_path: Path, form: str) -> None:
    first, wide = record(tmp_path / "a.mcap", narrow(0, 5)), record(tmp_path / "b.mcap", WIDE)
    assert add(tmp_path / "t", form, first, wide, evolve=True).problems == {}
    assert len(counts(tmp_path / "t", form)) == 10


@FORMS
def test_what_no_wider_type_holds_is_refused_also_when_evolving(tmp_path: Path, form: str) -> None:
    add(tmp_path / "t", form, record(tmp_path / "a.mcap", levels(0, 5)))
    other = record(tmp_path / "b.mcap", {1: Text("high")})
    problems = add(tmp_path / "t", form, other, evolve=True).problems
    assert [*problems.values()] == [
        "column 'metres' is float in the table, and string in this recording, whose type has changed: add it to "
        "another folder"
    ]
    assert metres(tmp_path / "t", form) == [0.0, 1.0, 2.0, 3.0, 4.0]


@FORMS
def test_values_of_every_kind_come_back(tmp_path: Path, form: str) -> None:
    add(tmp_path / "t", form, record(tmp_path / "a.mcap", {1: Various.example()}, "various"))
    (row,) = read(tmp_path / "t", form, "various").to_pylist()
    assert [part["text"] for part in row["parts"]] == ["one", None, None]
    assert row["colours"] == ["RED", "GREEN"]
    assert row["maybe"] == {"x": 1.0, "flag": True, "letter": "b"}


@FORMS
def test_a_damaged_recording_is_named_and_the_others_are_added(tmp_path: Path, form: str) -> None:
    damaged, whole = record(tmp_path / "a.mcap", levels(0, 100)), record(tmp_path / "b.mcap", levels(500, 10))
    data = bytearray(damaged.read_bytes())
    with Recording(damaged) as recording:
        data[recording.chunks[2].position + 60] ^= 1
    damaged.write_bytes(data)
    done = add(tmp_path / "t", form, damaged, whole)
    assert (str(damaged) in done.damaged, done.problems) == (True, {})
    assert metres(tmp_path / "t", form)[-10:] == [float(n) for n in range(500, 510)]


KILLED = """
import os, signal, sys
from pathlib import Path
import pandas, pyarrow.pandas_compat  # pyarrow would import them in each copy
from rtmw.recording.catalog import Catalog
path, folder, form, most = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], int(sys.argv[4])
first = [Path(name) for name in sys.argv[5:]]  # is in the table before

def add(table, calls):
    with Catalog(table, form, commit_bytes=1500) as catalog:
        for name in first:
            catalog.add(name)

    def count(event, arguments):
        nonlocal calls
        if event in ("os.rename", "os.mkdir", "open", "os.remove") and str(table) in str(arguments[0]):
            calls -= 1
            if calls == 0:
                os.kill(os.getpid(), signal.SIGKILL)
    sys.addaudithook(count)
    with Catalog(table, form, evolve=bool(first), commit_bytes=6000) as catalog:
        catalog.add(path)

if not most:
    add(folder, 0)
for calls in range(1, most):
    child = os.fork()
    if not child:
        add(folder / f"{calls}-", calls)
        os._exit(0)
    print(calls, os.waitpid(child, 0)[1], flush=True)
"""


# Proves G153.
def test_a_program_that_is_killed_at_any_file_that_it_touches_leaves_each_row_once(tmp_path: Path) -> None:
    path, folder = record(tmp_path / "a.mcap", levels(0, 30) | levels(DAY, 30)), tmp_path / "tables"
    command = [sys.executable, "-c", KILLED, str(path), str(folder), "parquet", "45"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    ends = [(int(calls), int(end)) for calls, end in (line.split() for line in done.stdout.splitlines())]
    assert {end for _, end in ends} == {signal.SIGKILL, 0}
    for calls, _ in ends:
        add(folder / f"{calls}-", "parquet", path)
        assert metres(folder / f"{calls}-", "parquet") == sorted(float(n) for n in [*range(30), *range(DAY, DAY + 30)])
        assert [*(folder / f"{calls}-").rglob(".part-*")] == []


# Proves G154.
def test_a_program_that_is_killed_while_it_widens_a_column_leaves_each_row_once(tmp_path: Path) -> None:
    first, wide = record(tmp_path / "a.mcap", narrow(0, 30) | narrow(DAY // 2, 30)), record(tmp_path / "b.mcap", WIDE)
    command = [sys.executable, "-c", KILLED, str(wide), str(tmp_path / "t"), "parquet", "60", str(first)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    ends = [(int(calls), int(end)) for calls, end in (line.split() for line in done.stdout.splitlines())]
    assert {end for _, end in ends} == {signal.SIGKILL, 0}
    kept = [*range(30), *range(DAY // 2, DAY // 2 + 30)]
    for calls, _ in ends:
        table = tmp_path / "t" / f"{calls}-"
        left = [count for file in (table / "level").glob("day=*/part-*") for count in pq.read_table(file)["count"]]
        assert sorted(count.as_py() for count in left if count.as_py() < BIG) == kept
        add(table, "parquet", wide, evolve=True)
        assert counts(table, "parquet") == [*kept, *(BIG + second for second in range(DAY, DAY + 5))]
        assert [*table.rglob(".part-*")] == []
        kinds = {str(pq.read_schema(file).field("count").type) for file in (table / "level").glob("day=*/part-*")}
        assert kinds == {"int64"}


def killed_when(is_due: Callable[[], bool], command: list[str]) -> None:
    child = subprocess.Popen(command)
    while child.poll() is None and not is_due():
        pass
    child.kill()
    child.wait()


# Proves G153.
def test_a_program_that_is_killed_between_commits_of_delta_leaves_each_row_once(tmp_path: Path) -> None:
    path, table = record(tmp_path / "a.mcap", levels(0, 3000)), tmp_path / "t" / "level" / "_delta_log"
    for commits in (1, 3, 6):
        command = [sys.executable, "-c", KILLED, str(path), str(tmp_path / "t"), "delta", "0"]
        killed_when(lambda: table.is_dir() and len([*table.glob("*.json")]) >= commits, command)  # noqa: B023
    add(tmp_path / "t", "delta", path)
    assert metres(tmp_path / "t", "delta") == [float(n) for n in range(3000)]


def test_one_program_at_a_time_adds_to_a_table_of_parquet(tmp_path: Path, ingest: Run) -> None:
    folder, path = tmp_path / "t", record(tmp_path / "a.mcap", levels(0, 5))
    table = ParquetTopic(folder / "level")
    status, _out, err = ingest(path, "--to", folder, "--format", "parquet")
    assert status == 1
    assert "another program adds to this table" in err
    table.close()
    assert add(folder, "parquet", path).messages == {"level": 5}


def test_a_folder_that_is_no_table_is_left_alone(tmp_path: Path, ingest: Run) -> None:
    precious = tmp_path / "t" / "level" / "precious"
    precious.parent.mkdir(parents=True)
    precious.write_text("mine")
    status, _out, err = ingest(record(tmp_path / "a.mcap", levels(0, 5)), "--to", tmp_path / "t", "--format", "parquet")
    assert (status, os.listdir(precious.parent)) == (1, ["precious"])
    assert "is no table of Parquet files" in err


@pytest.mark.parametrize(("first", "then"), [("parquet", "delta"), ("delta", "parquet")])
def test_a_table_of_one_format_is_not_added_to_as_one_of_the_other(
    tmp_path: Path, ingest: Run, first: str, then: str
) -> None:
    path, to = record(tmp_path / "a.mcap", levels(0, 5)), tmp_path / "t"
    add(to, first, path)
    status, _out, err = ingest(path, "--to", to, "--format", then)
    assert (status, "name another folder" in err) == (1, True)
    assert metres(to, first) == [0.0, 1.0, 2.0, 3.0, 4.0]


def test_a_list_of_commits_with_a_gap_is_refused(tmp_path: Path, ingest: Run) -> None:
    path = record(tmp_path / "a.mcap", levels(0, 100))
    add(tmp_path / "t", "parquet", path, commit_bytes=1000)
    (tmp_path / "t" / "level" / "_commits" / "0000000001.json").unlink()
    status, _out, err = ingest(path, "--to", tmp_path / "t", "--format", "parquet")
    assert status == 1
    assert "0000000002.json is damaged, or one before it is missing" in err


def test_compacting_makes_one_file_a_day_of_many(tmp_path: Path, ingest: Run) -> None:
    path, table = record(tmp_path / "a.mcap", levels(0, 300)), str(tmp_path / "t" / "level")
    add(tmp_path / "t", "delta", path, commit_bytes=1000)
    before = len(deltalake.DeltaTable(table).file_uris())
    _status, out, _err = ingest(path, "--to", tmp_path / "t", "--compact", "--json")
    assert json.loads(out) == {"path": str(tmp_path / "t"), "messages": {"level": 0}, "problems": {}}
    assert 1 == len(deltalake.DeltaTable(table).file_uris()) < before
    assert metres(tmp_path / "t", "delta") == [float(n) for n in range(300)]


def test_the_command_says_how_many_rows_each_topic_got(tmp_path: Path, ingest: Run) -> None:
    path = record(tmp_path / "a.mcap", levels(0, 5))
    status, out, _err = ingest(path, "--to", tmp_path / "t", "--topics", "lev*")
    assert status == 0
    assert "level" in out
    assert ingest(path, "--to", tmp_path / "t", "--compact", "--format", "parquet")[0] == 1


def test_a_topic_that_no_recording_has_is_named_and_all_else_is_added(tmp_path: Path, ingest: Run) -> None:
    path = record(tmp_path / "a.mcap", levels(0, 5))
    status, out, err = ingest(path, "--to", tmp_path / "t", "--topics", "level", "levle")
    assert (status, out.split()[-2:]) == (1, ["level", "5"])
    assert err == "rtmw: topic levle: not added: no recording has it; there are level\n"
