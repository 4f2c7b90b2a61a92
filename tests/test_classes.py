"""A plain class goes wherever an IdlStruct goes: logs, transfers, recordings and their columns, `echo`."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, Optional

import msgspec
import pydantic
import pytest
from cyclonedds.idl import IdlEnum, IdlStruct, types

import rtmw
from tests.child import Spawn
from tests.cli.command import Run
from tests.cli.conftest import run  # noqa: F401 (a fixture)
from tests.page import programs
from tests.transfer.core_process import PATIENCE, serving_transfers


class State(Enum):
    OFF = 0
    ON = 4


@dataclass
class Speed:
    pump: rtmw.int32
    rpm: float
    state: State
    note: str | None = None
    marks: list[float] = field(default_factory=list)


class SpeedStruct(msgspec.Struct):
    pump: rtmw.int32
    rpm: float


class SpeedModel(pydantic.BaseModel):
    pump: rtmw.int32
    rpm: float


class IdlState(IdlEnum, typename="State"):
    OFF = 0
    ON = 4


@dataclass
class IdlSpeed(IdlStruct, typename="Speed"):
    pump: types.int32
    rpm: types.float64
    state: IdlState
    note: Optional[str] = None  # noqa: UP045 (cyclonedds does not know the other spelling)
    marks: types.sequence[types.float64] = field(default_factory=list)


VALUES: list[Any] = [
    Speed(7, 1.5, State.ON, "high", [0.5]),
    SpeedStruct(7, 1.5),
    SpeedModel(pump=7, rpm=1.5),
    "hello",
    {"limit": 3, "names": ["a", "b"]},
]
each_value = pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)


@each_value
def test_a_log_keeps_values_of_plain_classes(tmp_path: Path, value: Any) -> None:
    with rtmw.Log(tmp_path / "log", type(value)) as log:
        log.append(value)
    with rtmw.Log(tmp_path / "log", type(value)) as again:
        assert [record.value for record in again.read()] == [value]
    with pytest.raises(rtmw.TypeMismatch, match="the log is one of"):
        rtmw.Log(tmp_path / "log", bytes)


def test_letters_have_bodies_of_plain_classes(domain_id: int, tmp_path: Path) -> None:
    with (
        serving_transfers(domain_id, tmp_path),
        rtmw.Sender("plant") as sender,
    ):
        for number, value in enumerate(VALUES):
            with rtmw.Inbox(f"ingest{number}", type=type(value)) as inbox:
                sender.send(f"ingest{number}", value)
                letter = inbox.take(timeout=PATIENCE)
                assert letter is not None
                with letter:
                    assert letter.body == value


def test_a_member_called_dtype_does_not_make_a_body_an_array(domain_id: int, tmp_path: Path) -> None:
    @dataclass
    class Described:
        dtype: str

    with (
        serving_transfers(domain_id, tmp_path),
        rtmw.Sender("plant") as sender,
        rtmw.Inbox("ingest", type=Described) as inbox,
    ):
        sender.send("ingest", Described("float32"))
        letter = inbox.take(timeout=PATIENCE)
        assert letter is not None
        with letter:
            assert letter.body == Described("float32")


def test_a_recording_has_the_columns_of_the_equal_idlstruct(domain: rtmw.Domain, tmp_path: Path) -> None:
    with (
        rtmw.Recorder(["plain", "idl", "chatter"], tmp_path / "run", domain=domain) as recorder,
        rtmw.Publisher("plain", Speed, domain=domain) as plain,
        rtmw.Publisher("idl", IdlSpeed, domain=domain) as idl,
        rtmw.Publisher("chatter", str, domain=domain) as chatter,
    ):
        plain.publish(VALUES[0])
        idl.publish(IdlSpeed(7, 1.5, IdlState.ON, "high", [0.5]))
        chatter.publish("hello")
    with rtmw.Recording(recorder.paths[0]) as recording:
        members = ["pump", "rpm", "state", "note", "marks"]
        found, same = recording.to_arrow("plain", columns=members), recording.to_arrow("idl", columns=members)
        assert (found.schema, found.to_pylist()) == (same.schema, same.to_pylist())
        assert found.to_pylist() == [{"pump": 7, "rpm": 1.5, "state": "ON", "note": "high", "marks": [0.5]}]
        assert recording.to_arrow("chatter", columns=["data"]).to_pylist() == [{"data": "hello"}]


def test_echo_prints_the_members(run: Run, domain: rtmw.Domain) -> None:  # noqa: F811
    with rtmw.Publisher("speed", Speed, domain=domain, history=1) as publisher:
        publisher.publish(VALUES[0])
        _, out, _ = run("topic", "echo", "speed", "--count", "1", "--timeout", "5", "--json")
    value = json.loads(out)["value"]
    assert value == {"pump": 7, "rpm": 1.5, "state": "ON", "note": "high", "marks": [0.5]}


def test_the_programs_of_the_page_run(spawn: Spawn) -> None:
    printed = ["1500.0", None, "3"]
    for source, line in zip(programs(Path(__file__).parents[1] / "docs" / "types.md"), printed, strict=True):
        child = spawn(source)
        assert line is None or child.line() == line
        assert child.wait() == 0, child.stderr
