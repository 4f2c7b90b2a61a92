"""`rtmw.text.strict_json`: what is written as JSON is JSON, whatever a message has."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any

import pytest

from rtmw.text.strict_json import REST, JsonError, as_json, as_object, packed, read, rendered


def strictly(text: str) -> Any:
    """Read as others read, who know no NaN."""

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")

    return json.loads(text, parse_constant=refuse)


@pytest.mark.parametrize("value", [{"a": [1, 2.5, None, "x", True]}, [], "höhe", 10**30])
def test_what_json_has_words_for_is_as_it_is(value: Any) -> None:
    assert strictly(as_json(value)) == value


def test_numbers_that_are_not_finite_are_texts() -> None:
    value = {"a": math.nan, "b": [(math.inf, -math.inf, 1.0)]}
    assert strictly(as_json(value)) == {"a": "NaN", "b": [["Infinity", "-Infinity", 1.0]]}


def test_what_json_has_no_word_for_is_made_plain() -> None:
    assert strictly(as_json({"day": date(2026, 11, 22), "x": math.nan}, str)) == {"day": "2026-11-22", "x": "NaN"}


@dataclass(frozen=True, slots=True)
class Wheel:
    size: float
    name: str = ""
    marks: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Car:
    wheels: tuple[Wheel, ...]
    in_: bool = False
    """`in` is a word of Python."""
    spare: Wheel | None = None
    counts: Mapping[str, int] = field(default_factory=dict[str, int])
    rest: Mapping[str, int] = field(default_factory=dict[str, int], metadata=REST)

    def json_names(self) -> tuple[str, ...]:
        return ("in", "wheels") if self.spare is None else ("wheels", "in", "spare", "counts")


CAR = Car((Wheel(1.5, "left", (1, 2)),), True, Wheel(2.0), {"b": 2, "a": 1}, {"other": 7})
TOLD = (
    '{"wheels": [{"size": 1.5, "name": "left", "marks": [1, 2]}], "in": true, '
    '"spare": {"size": 2.0, "name": "", "marks": []}, "counts": {"b": 2, "a": 1}, "other": 7}'
)


def test_a_dataclass_is_written_as_its_members_in_their_order_and_read_again() -> None:
    assert packed(CAR) == TOLD == json.dumps(as_object(CAR))
    assert read(Car, json.loads(TOLD), "the car") == CAR
    assert packed(Car(())) == '{"in": false, "wheels": []}'


def test_members_that_are_not_known_are_passed_over_and_those_that_lack_have_their_default() -> None:
    told = {"wheels": [{"size": 1, "newer": {}}], "fits": 3, "fits not": "x"}
    assert read(Car, told, "the car") == Car((Wheel(1),), rest={"fits": 3})


def test_what_is_rendered_is_not_made_again() -> None:
    wheels = rendered(CAR.wheels, ["as it was"])
    assert packed(Car(wheels)) == '{"in": false, "wheels": [as it was]}'
    assert as_object(Car(wheels))["wheels"] == [{"size": 1.5, "name": "left", "marks": [1, 2]}]


@pytest.mark.parametrize(
    ("told", "words"),
    [
        (7, "the car is 7; it has to be an object"),
        ({}, "the car lacks wheels"),
        ({"wheels": {}}, "wheels in the car is {}; it has to be a list"),
        ({"wheels": [{"size": 1}, {}]}, "wheels.1 in the car lacks size"),
        ({"wheels": [{"size": True}]}, "wheels.0.size in the car is True; it has to be a number"),
        (
            {"wheels": [{"size": 1, "marks": [1, 2.0]}]},
            "wheels.0.marks.1 in the car is 2.0; it has to be a whole number",
        ),
        ({"wheels": [{"size": math.nan}]}, "wheels.0.size in the car is nan; it has to be a number of less than 2^64"),
        ({"wheels": [{"size": math.inf}]}, "wheels.0.size in the car is inf; it has to be a number of less than 2^64"),
        (
            {"wheels": [], "counts": {"a": 1 << 64}},
            "counts.a in the car is 18446744073709551616; it has to be a whole number of less than 2^64",
        ),
        ({"wheels": [], "in": 1}, "in in the car is 1; it has to be true or false"),
        ({"wheels": [], "spare": "x" * 99}, f"spare in the car is '{'x' * 59}…; it has to be an object"),
        ({"wheels": [], "counts": {"a": None}}, "counts.a in the car is None; it has to be a whole number"),
        ({"wheels": [{"size": 1, "name": None}]}, "wheels.0.name in the car is None; it has to be a text"),
    ],
)
def test_what_does_not_fit_is_an_error_that_says_where_what_and_what_has_to_be(told: Any, words: str) -> None:
    with pytest.raises(JsonError) as error:
        read(Car, told, "the car")
    assert str(error.value) == words
