"""Tables at s3://…: each message is a row once, also of two programs at a time, and what is said when the server fails.

The library of Delta Lake keeps the interpreter's lock while it waits for the server, which is a thread of this process.
So it is always another process that asks it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("deltalake")
pytest.importorskip("moto")

import pyarrow.parquet as pq

from rtmw.recording.places import RemotePath, place
from tests.recording.catalog.test_ingest import DAY, levels, record
from tests.recording.s3 import BUCKET, Server, put, s3_server

TABLES = f"s3://{BUCKET}/tables"
FILES = """
import sys, deltalake
print(*deltalake.DeltaTable(sys.argv[1], storage_options={"allow_http": "true"}).file_uris())
"""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    with s3_server(monkeypatch) as made:
        yield made


def started(*arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "rtmw", "recording", "ingest", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def ingest(*arguments: object) -> tuple[int, str, str]:
    child = started(*arguments)
    out, err = child.communicate(timeout=60)
    return child.returncode, out, err


def messages(*arguments: object) -> Any:
    status, out, err = ingest(*arguments, "--json")
    assert (status, err) == (0, "")
    return json.loads(out)["messages"]


def files() -> list[str]:
    """Of the table, as its log says."""
    command = [sys.executable, "-c", FILES, f"{TABLES}/pump@2Fspeed"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    return done.stdout.split()


def values() -> list[float]:
    """Of all rows of the table. PyArrow lets go of the interpreter's lock while it waits."""
    found = [place(uri) for uri in files()]
    tables = [pq.read_table(one.inside, filesystem=one.system) for one in found if isinstance(one, RemotePath)]
    return sorted(value for table in tables for value in table.column("metres").to_pylist())


def test_each_message_is_a_row_once_however_often_it_is_added(server: Server, tmp_path: Path) -> None:
    path = record(tmp_path / "a.mcap", levels(0, 50) | levels(DAY, 50), "pump/speed")
    uri = put(path, "monday/a.mcap")
    assert messages(uri, "--to", TABLES) == {"pump/speed": 100}
    assert messages(uri, path, "--to", f"{TABLES}/") == {"pump/speed": 0}
    more = record(tmp_path / "b.mcap", levels(1000, 10), "pump/speed")
    assert messages(path, more, "--to", TABLES, "--compact") == {"pump/speed": 10}
    assert len(files()) == 2
    assert values() == sorted(float(n) for n in [*range(50), *range(1000, 1010), *range(DAY, DAY + 50)])


# Proves G156.
def test_of_two_programs_that_add_the_same_at_a_time_one_does(server: Server, tmp_path: Path) -> None:
    first = record(tmp_path / "a.mcap", levels(0, 10), "pump/speed")
    path = record(tmp_path / "b.mcap", levels(100, 50), "pump/speed")
    assert ingest(first, "--to", TABLES)[0] == 0
    children = [started(path, "--to", TABLES) for _ in range(3)]
    ends = [(child.communicate(timeout=60), child.returncode) for child in children]
    assert 0 in [status for _, status in ends]
    for (_, err), status in ends:
        assert status == 0 or "Delta Lake refuses the rows" in err
    assert values() == [float(n) for n in [*range(10), *range(100, 150)]]
    lists = [condition for method, where, condition in server.conditions if "_delta_log" in where and method == "PUT"]
    assert lists
    assert {*lists} == {"*"}


# Proves G156.
def test_a_server_that_fails_for_a_moment_is_asked_again_and_one_that_is_gone_is_named(
    server: Server, tmp_path: Path
) -> None:
    path = record(tmp_path / "a.mcap", levels(0, 50), "pump/speed")
    server.failing_writes = 2
    assert messages(path, "--to", TABLES) == {"pump/speed": 50}
    assert values() == [float(n) for n in range(50)]
    server.stop()
    status, _out, err = ingest(record(tmp_path / "b.mcap", levels(60, 5), "pump/speed"), "--to", TABLES)
    assert status == 1
    assert f"{TABLES}/pump@2Fspeed cannot be reached: the server cannot be reached" in err
    assert "\x1b" not in err


def test_a_bucket_that_is_not_there_is_named(server: Server, tmp_path: Path) -> None:
    status, _out, err = ingest(record(tmp_path / "a.mcap", levels(0, 5)), "--to", "s3://elsewhere/tables")
    assert status == 1
    assert "there is no such bucket" in err


def test_tables_of_parquet_are_refused_there(tmp_path: Path) -> None:
    path = record(tmp_path / "a.mcap", levels(0, 5))
    status, _out, err = ingest(path, "--to", TABLES, "--format", "parquet")
    assert status == 1
    assert "needs --format delta" in err
    assert ingest(path, "--to", (tmp_path / "t").as_uri())[0] == 0
    assert [found.name for found in (tmp_path / "t").iterdir()] == ["level"]
