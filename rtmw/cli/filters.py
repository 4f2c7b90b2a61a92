"""`rtmw topic echo --filter 'a.b > 5'`: one comparison of a field with a value."""

from __future__ import annotations

import argparse
import json
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rtmw.cli.values import pick

OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}
FORM = re.compile(r"\s*([\w.]+)\s*(==|!=|<=|>=|<|>)\s*(.+?)\s*")


@dataclass(frozen=True)
class Filter:
    """True of plain data whose field compares so with the value."""

    field: str
    operator: str
    value: Any

    @classmethod
    def parse(cls, text: str) -> Filter:
        """Read `field operator value`; a value that is no JSON is text."""
        match = FORM.fullmatch(text)
        if match is None:
            raise argparse.ArgumentTypeError(f"{text!r} is not of the form: field operator value")
        field, comparison, value = match.groups()
        try:
            return cls(field, comparison, json.loads(value))
        except ValueError:
            return cls(field, comparison, value)

    def __call__(self, plain: Any) -> bool:
        """False as well if there is no such field, or if it cannot be compared with the value."""
        try:
            return OPERATORS[self.operator](pick(plain, self.field), self.value)
        except (KeyError, TypeError):
            return False
