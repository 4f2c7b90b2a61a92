"""`topics/`: the IDL files and the dataclasses are the same types, and every topic has its QoS."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import tomllib
from dataclasses import fields
from fnmatch import fnmatchcase
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from cyclonedds.idl import IdlEnum, IdlStruct

from topics import Topic, airport, river, telemetry

ROOT = Path(__file__).parent.parent
FAMILIES: tuple[ModuleType, ...] = (telemetry, river, airport)
TOPICS: list[Topic[Any]] = [item for family in FAMILIES for item in vars(family).values() if isinstance(item, Topic)]


def compile_idl(idl: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "tests" / "idl_compiler.py"), str(idl)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)


def description(struct: Any) -> tuple[bytes, bytes]:
    """XTypes description of a struct: names, types, keys, member ids and extensibility, hashed and in full."""
    machine = struct.__idl__
    return machine.get_type_info().serialize(), machine.get_type_mapping().serialize()


def types_of(module: ModuleType) -> dict[str, Any]:
    """Structs and enums that the module itself defines, by name."""
    found = (item for item in vars(module).values() if isinstance(item, type))
    return {
        item.__name__: item
        for item in found
        if issubclass(item, (IdlStruct, IdlEnum)) and item.__module__.split(".")[-1] != "idl"
    }


@pytest.fixture(scope="module", params=FAMILIES, ids=lambda family: family.__name__)
def family_and_generated(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[ModuleType, ModuleType]:
    """A module of `topics` and what the IDL compiler makes of its IDL file."""
    family: ModuleType = request.param
    name = family.__name__.split(".")[-1]
    folder = tmp_path_factory.mktemp(name)
    result = compile_idl(ROOT / "topics" / f"{name}.idl", folder)
    assert result.returncode == 0, result.stderr
    sys.path.insert(0, str(folder))
    try:
        return family, importlib.import_module(name)
    finally:
        sys.path.remove(str(folder))


def test_the_idl_file_and_the_dataclasses_define_the_same_types(
    family_and_generated: tuple[ModuleType, ModuleType],
) -> None:
    family, generated = family_and_generated
    ours, theirs = types_of(family), types_of(generated)
    assert ours.keys() == theirs.keys()
    for name, ours_type in ours.items():
        if issubclass(ours_type, IdlEnum):
            assert [(item.name, item.value) for item in ours_type] == [(item.name, item.value) for item in theirs[name]]
        else:
            assert [f.name for f in fields(ours_type)] == [f.name for f in fields(theirs[name])], name
            assert description(ours_type) == description(theirs[name]), name


def test_the_compiler_of_this_test_refuses_what_is_not_idl(tmp_path: Path) -> None:
    (tmp_path / "bad.idl").write_text("module bad { struct Broken { dobble value; }; };")
    assert compile_idl(tmp_path / "bad.idl", tmp_path).returncode == 1


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__)
def test_no_type_uses_8_bit_integers_because_older_dds_programs_crash_on_them(family: ModuleType) -> None:
    idl = (ROOT / "topics" / f"{family.__name__.split('.')[-1]}.idl").read_text()
    assert "int8" not in idl
    for kind in types_of(family).values():
        if issubclass(kind, IdlStruct):
            assert not any("int8" in str(annotation) for annotation in kind.__annotations__.values()), kind


def test_what_is_installed_has_one_package_at_its_top_and_the_topics_inside() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]["find"]
    folders = [path.parent.name for path in ROOT.glob("*/__init__.py")]
    assert [name for name in folders if any(fnmatchcase(name, wanted) for wanted in settings["include"])] == ["rtmw"]
    inside = {path.name for path in (ROOT / "rtmw" / "demo" / "topics").iterdir()}
    assert inside >= {path.name for path in (ROOT / "topics").glob("*.*")}


def test_a_programs_own_topics_are_not_in_the_way_of_the_demonstration(tmp_path: Path) -> None:
    (tmp_path / "topics.py").write_text("own = True\n")
    modules = [f"rtmw.demo.{path.stem}" for path in (ROOT / "rtmw" / "demo").glob("[a-z]*.py")]
    program = f"import topics, {', '.join(modules)}; print(topics.own)"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("True\n", "")


@pytest.mark.parametrize("topic", TOPICS, ids=lambda topic: topic.name)
def test_a_message_of_every_topic_survives_cdr(topic: Topic[Any]) -> None:
    key = fields(topic.type)[0].name
    message = topic.type(**{key: "here"})
    assert topic.type.deserialize(message.serialize()) == message


def test_every_topic_has_a_name_of_its_own_and_alarms_go_before_measurements() -> None:
    assert len({topic.name for topic in TOPICS}) == len(TOPICS)
    assert telemetry.ALARM.publisher_qos["priority"] > telemetry.CPU.publisher_qos["priority"]
    assert river.ALARM.publisher_qos["priority"] > river.READING.publisher_qos["priority"]
    assert airport.DELAY_ALARM.publisher_qos["priority"] > airport.DEPARTURE.publisher_qos["priority"]


def test_the_default_qos_of_a_topic_cannot_be_changed_by_accident() -> None:
    with pytest.raises(TypeError):
        telemetry.CPU.publisher_qos["priority"] = 7  # type: ignore[index]
