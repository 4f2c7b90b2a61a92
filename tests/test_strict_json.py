"""`rtmw.text.strict_json`: what is written as JSON is JSON, whatever a message has."""

from __future__ import annotations

import json
import math
from datetime import date
from typing import Any

import pytest

from rtmw.text.strict_json import as_json


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
