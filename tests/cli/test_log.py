"""`rtmw log`: what it says, and its status."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from cyclonedds.idl import IdlStruct, types

import rtmw
from rtmw.cli import main
from tests.child import Spawn

Told = tuple[int, str, str]


@dataclass
class Order(IdlStruct, typename="shop.Order"):
    id: types.int32
    note: str


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with rtmw.Log(tmp_path / "orders", segment="64K") as log:
        for number in range(200):
            log.append(b"%d" % number * 100, key=number)
        with log.read(cursor="billing") as records:
            for _ in range(3):
                next(records).commit()
    return tmp_path / "orders"


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> Told:
    status = main(["log", *map(str, arguments)])
    return status, *capsys.readouterr()


def test_list_finds_the_logs_of_a_folder(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rtmw.Log(path.with_name("typed"), Order).close()
    path.with_name("other").mkdir()
    (path.with_name("other") / "log").write_text("no log")
    status, out, err = run(capsys, "list", path.parent)
    assert (status, err) == (0, "")
    assert out.splitlines()[0] == "2 logs"
    assert [line.split()[:2] for line in out.splitlines()[2:]] == [
        [str(path), "bytes"],
        [f"{path.parent}/typed", "shop.Order"],
    ]
    assert json.loads(run(capsys, "list", path, "--json")[1])["path"] == str(path)


def test_info_shows_segments_cursors_and_the_writer(
    path: Path, capsys: pytest.CaptureFixture[str], spawn: Spawn
) -> None:
    status, out, err = run(capsys, "info", path)
    assert (status, err) == (0, "")
    lines = out.splitlines()
    assert "log of bytes, 2 segments" in lines[0]
    assert lines[1] == "nobody writes"
    assert set(lines[2].split()[0]) == {"|", "#", "."}
    assert lines[3].lstrip().startswith("^ billing: ")
    child = spawn(f"import rtmw; log = rtmw.Log({str(path)!r}); log.append(b'x'); print('writes', flush=True); input()")
    assert child.line() == "writes"
    facts = json.loads(run(capsys, "info", path, "--json")[1])
    assert facts["writer"] == f"child_0.py ({child.pid})"
    assert [cursor["name"] for cursor in facts["cursors"]] == ["billing"]
    assert facts["segments"][0]["base"] == facts["start"] == 0


def test_tail_prints_the_last_records_or_those_from_a_start(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = run(capsys, "tail", path, "-n", 3, "--json")
    assert (status, err) == (0, "")
    records = [json.loads(line) for line in out.splitlines()]
    assert [record["key"] for record in records] == [197, 198, 199]
    assert "key=199" in run(capsys, "tail", path, "-n", 1)[1]
    out = run(capsys, "tail", path, "--start", records[1]["position"], "--json")[1]
    assert [json.loads(line)["key"] for line in out.splitlines()] == [198, 199]
    out = run(capsys, "tail", path, "--start", "2020-01-01T00:00+00:00", "--most", 2, "--json")[1]
    assert [json.loads(line)["key"] for line in out.splitlines()] == [0, 1]


def test_tail_follows(path: Path, spawn: Spawn) -> None:
    child = spawn(f"""
        from rtmw.cli import main
        main(["log", "tail", {str(path)!r}, "-n", "1", "--follow", "--most", "3", "--json"])
    """)
    assert json.loads(child.line())["key"] == 199
    with rtmw.Log(path) as log:
        for number in (200, 201):
            log.append(b"x", key=number)
            assert json.loads(child.line())["key"] == number
    assert child.wait(20) == 0


def test_append_makes_a_record_of_the_type_of_the_log(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "append", path, "größer", "--key", "k", "--id", "i")[0] == 0
    first = json.loads(run(capsys, "append", path, "größer", "--key", "k", "--id", "i", "--json")[1])
    with rtmw.Log(path) as log:
        *_, record = log.read()
    assert (record.position, record.data, record.key, record.id) == (first["position"], "größer".encode(), "k", "i")
    typed = path.with_name("typed")
    rtmw.Log(typed, Order).close()
    assert run(capsys, "append", typed, '{"id": 7, "note": "n"}')[0] == 0
    with rtmw.Log(typed, Order) as orders:
        assert [record.value for record in orders.read()] == [Order(7, "n")]
    status, _, err = run(capsys, "append", typed, "no json")
    assert status == 1
    assert "is no JSON for it" in err


@pytest.mark.parametrize(
    ("kind", "text", "value", "told"),
    [(str, "hi", "hi", "  hi"), (str, '"hi"', "hi", "  hi"), (dict, '{"zz": [1]}', {"zz": [1]}, "  zz: [1]")],
)
def test_logs_of_texts_and_json_take_and_show_the_values_themselves(
    kind: Any, text: str, value: object, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "log"
    rtmw.Log(path, kind).close()
    assert run(capsys, "append", path, text)[0] == 0
    with rtmw.Log(path, kind) as log:
        assert [record.value for record in log.read()] == [value]
    assert run(capsys, "tail", path)[1].splitlines()[1:] == [told]
    assert json.loads(run(capsys, "tail", path, "--json")[1])["value"] == value
    assert json.loads(run(capsys, "export", path, "--jsonl", "-")[1])["value"] == value


def test_check_and_salvage_say_what_is_missing(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "check", path) == (0, f"{path}: whole, 200 records in 2 segments read\n", "")
    first = path / f"{0:020}.seg"
    data = bytearray(first.read_bytes())
    data[12288 + 40] ^= 1
    first.write_bytes(data)
    status, out, _ = run(capsys, "check", path)
    assert status == 1
    assert "damaged, 199 records" in out
    assert "missing: positions 0 up to 152 (152 B): no valid record is there" in out
    assert f"rtmw log salvage {path}" in out
    assert json.loads(run(capsys, "check", path, "--json")[1])["missing"][0]["end"] == 152
    status, out, err = run(capsys, "salvage", path, "-o", path.with_name("new"))
    assert (status, err) == (0, "")
    assert "199 records, at new positions" in out
    assert "missing: positions 0 up to 152" in out
    assert run(capsys, "check", path.with_name("new"))[0] == 0
    assert run(capsys, "salvage", path, "-o", path.with_name("new"))[0] == 1


def test_trim_asks_cursors_unless_it_is_forced(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    end = rtmw.Log(path, create=False).end
    status, _, err = run(capsys, "trim", path, end)
    assert status == 1
    assert "the cursor 'billing' may want records before that; --force" in err
    status, out, _ = run(capsys, "trim", path, end, "--force")
    assert status == 0
    assert "begins at" in out
    assert json.loads(run(capsys, "trim", path, end, "--force", "--json")[1])["removed"] == 0
    with rtmw.Log(path, create=False) as log:
        assert log.stats().earliest > 0


def test_export_writes_a_record_a_line(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = path.with_name("out.jsonl")
    assert run(capsys, "export", path, "--jsonl", target) == (0, f"{target} has 200 records\n", "")
    assert [json.loads(line)["key"] for line in target.read_text().splitlines()] == list(range(200))
    status, out, err = run(capsys, "export", path, "--jsonl", "-")
    assert (status, err) == (0, "")
    assert len(out.splitlines()) == 200
    assert run(capsys, "export", path, "--jsonl", target)[0] == 1


@pytest.mark.parametrize("command", ["info", "check", "tail"])
def test_what_is_no_log_is_said_in_a_sentence(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = run(capsys, command, tmp_path / "none")
    assert (status, out) == (1, "")
    assert err.startswith("rtmw: there is no log")
