"""`rtmw topic echo --filter 'a.b > 5'`: one comparison of a field with a value."""

from __future__ import annotations

import argparse
import json
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rtmw.cli.values import part_at

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
        part = part_at(plain, self.field)
        return part.lack is None and self._compare(part.value) is True

    def fault(self, plain: Any) -> str | None:
        """Why no message of this one's type can pass, as the end of a sentence; None if one may."""
        part = part_at(plain, self.field)
        if part.varies:
            return None
        if part.lack is not None:
            return f"has no field {self.field}; {part.lack}"
        if part.value is not None and self._compare(part.value) is None:
            return f"has {part.value!r} as {self.field}, which is neither above nor below {self.value!r}"
        return None

    def _compare(self, found: Any) -> bool | None:
        """Compares a value that was found with the filter's. None: the two cannot be compared so."""
        try:
            return bool(OPERATORS[self.operator](found, self.value))
        except TypeError:
            return None
