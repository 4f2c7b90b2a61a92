"""`rtmw.cli.values` and `filters`: message values to plain data, to text, and back."""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path

import numpy as np
import pytest

from rtmw.cli.echo import Filter
from rtmw.cli.values import from_plain, lines, load_type, part_at, to_json, to_plain
from rtmw.recording.contents import Cause
from rtmw.text.strict_json import as_json
from topics import river, telemetry


def test_dataclasses_become_objects_and_enums_their_names() -> None:
    alarm = telemetry.Alarm(host="pump", source="cpu", severity=telemetry.Severity.WARNING, text="hot", value=2.0)
    plain = to_plain(alarm)
    assert plain["severity"] == "WARNING"
    assert json.loads(json.dumps(plain)) == plain


def test_keys_that_are_enums_become_their_names() -> None:
    assert to_plain({Cause.EARLY: 2}) == {"EARLY": 2}


def test_bytes_are_shown_as_text_if_they_are_text_and_else_as_hex() -> None:
    assert to_plain(b"hello\nworld") == "hello\nworld"
    assert to_plain(b"\x00\xff") == {"hex": "00ff"}
    assert to_plain(memoryview(b"view")) == "view"


def test_numpy_arrays_become_lists_and_structured_ones_lists_of_objects() -> None:
    assert to_plain(np.array([[1, 2], [3, 4]])) == [[1, 2], [3, 4]]
    assert to_plain(np.array([(1, 2.5)], dtype=[("n", "i4"), ("x", "f8")])) == [{"n": 1, "x": 2.5}]
    assert to_plain(np.float64(1.5)) == 1.5


def test_what_json_describes_becomes_the_dataclass_again() -> None:
    for value in (
        telemetry.Cpu(host="pump", percent=12.5, cores=[1.0, 24.0], context_switches=7),
        river.Reading(station="A", parameter="oxygen", value=8.25, quality=river.Quality.UNCERTAIN, measured_ns=5),
        river.Alarm(station="A", raised=False),
    ):
        again = from_plain(type(value), json.loads(json.dumps(to_plain(value))))
        assert again == value
        assert again.serialize() == value.serialize()


def test_a_whole_number_in_json_is_good_for_a_float_field() -> None:
    value = from_plain(river.Reading, {"station": "A", "value": 8})
    assert isinstance(value.value, float)


def test_a_field_that_the_type_does_not_have_is_named_with_those_it_has() -> None:
    with pytest.raises(TypeError, match=r"no field depht; it has .*station"):
        from_plain(river.Reading, {"station": "A", "depht": 8})


def test_numbers_that_are_not_finite_are_read_as_json_has_them() -> None:
    assert math.isnan(from_plain(river.Reading, {"station": "A", "value": "NaN"}).value)
    assert from_plain(river.Reading, {"station": "A", "value": "-Infinity"}).value == -math.inf


def test_an_enum_name_that_does_not_exist_is_refused_with_those_that_do() -> None:
    with pytest.raises(ValueError, match="Quality has no GREAT; it has GOOD, UNCERTAIN, BAD"):
        from_plain(river.Reading, {"station": "A", "quality": "GREAT"})


def test_fields_are_picked_by_path_also_inside_lists() -> None:
    plain = {"a": {"b": [10, 20]}}
    assert part_at(plain, "a.b.1").value == 20
    for wrong, lack in (
        ("b", "it has a"),
        ("a.c", "a has b"),
        ("a.b.2", "a.b is a list of 2"),
        ("a.b.x", "a.b is a list of 2"),
        ("a.b.1.z", "a.b.1 is 20, without fields"),
    ):
        assert part_at(plain, wrong).lack == lack


@pytest.mark.parametrize(
    ("filter_text", "fault"),
    [
        ("speed > 5", "has no field speed; it has a, name, maybe, choice, raw"),
        ("a.speed > 5", "has no field a.speed; a has b, many"),
        ("a.b.c > 5", "has no field a.b.c; a.b is 7, without fields"),
        ("name > 5", "has 'pump' as name, which is neither above nor below 5"),
        ("a.b > 9", None),
        ("name == 5", None),
        ("a.many.3 == 1", None),
        ("maybe.x == 1", None),
        ("maybe > 1", None),
        ("choice.value.x == 1", None),
        ("choice.value > 'x'", None),
        ("choice.kind == 1", "has no field choice.kind; choice has discriminator, value"),
        ("raw.hex == 00", None),
    ],
)
def test_a_filter_that_no_message_of_a_type_can_pass_says_so_and_one_that_another_may_pass_does_not(
    filter_text: str, fault: str | None
) -> None:
    plain = {
        "a": {"b": 7, "many": [1]},
        "name": "pump",
        "maybe": None,
        "choice": {"discriminator": 1, "value": 2},
        "raw": "text",
    }
    assert Filter.parse(filter_text).fault(plain) == fault


def test_values_are_printed_a_field_a_line_and_long_lists_are_cut() -> None:
    found = lines({"name": "x", "inner": {"n": 1}, "many": list(range(100)), "none": {}})
    assert found[:3] == ["name: x", "inner:", "  n: 1"]
    assert found[3].startswith("many: [0, 1,")
    assert found[3].endswith("... 100 in all]")
    assert lines("text") == ["text"]


def test_text_of_a_message_cannot_steer_the_terminal() -> None:
    assert lines({"note": "héllo \x1b[31mred"}) == ["note: héllo \\x1b[31mred"]


@pytest.mark.parametrize(
    ("filter_text", "passes"),
    [
        ("a.b > 5", True),
        ("a.b>=7", True),
        ("a.b < 7", False),
        ("name == pump", True),
        ('name != "pump"', False),
        ("missing == 1", False),
        ("name > 5", False),
    ],
)
def test_a_filter_compares_one_field(filter_text: str, passes: bool) -> None:
    assert Filter.parse(filter_text)({"a": {"b": 7}, "name": "pump"}) is passes


@pytest.mark.parametrize("wrong", ["", "a.b", "> 5", "a.b >", "a = 5"])
def test_a_filter_of_another_form_is_wrong_usage(wrong: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="field operator value"):
        Filter.parse(wrong)


def test_types_are_loaded_by_module_and_class() -> None:
    assert load_type("topics.telemetry:Cpu") is telemetry.Cpu


@pytest.mark.parametrize("wrong", ["topics.telemetry", "topics.nothing:Cpu", "topics.telemetry:Nothing", "json:dumps"])
def test_a_name_that_is_no_dataclass_is_wrong_usage(wrong: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        load_type(wrong)


def test_what_a_module_raises_when_it_is_imported_is_told_with_the_name_of_the_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "raises_at_import.py").write_text("import rtmw\nraise rtmw.TypeMismatch('the log is one of bytes')\n")
    monkeypatch.syspath_prepend(tmp_path)
    told = "importing raises_at_import raises TypeMismatch: the log is one of bytes"
    with pytest.raises(argparse.ArgumentTypeError, match=told):
        load_type("raises_at_import:Order")


def test_the_quick_way_to_json_says_what_the_long_way_says() -> None:
    values = (
        None,
        True,
        7,
        -(1 << 70),
        1.5,
        math.inf,
        'ä\u202e\n"',
        b"level",
        b"a\nb\tc",
        b"\x1b[31m",
        b"\xff",
        b"",
        [b"x"],
    )
    for value in (*values, np.array([1, 2]), {"a": b"\x00"}, telemetry.Severity.WARNING, memoryview(b"view")):
        assert to_json(value) == as_json(to_plain(value)), value
