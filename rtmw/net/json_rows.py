"""Long lists of a document that is told again and again: a row is written as JSON again only when it has changed."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterable
from itertools import islice
from typing import Any, Final, Generic, TypeVar, cast

TOLD_MOST: Final = 1000
"""Rows of a list that nothing else bounds."""

Key = TypeVar("Key", bound=Hashable)


class JsonRows(Generic[Key]):
    """Rows by their keys, in the order in which they came."""

    def __init__(self) -> None:
        self._rows: dict[Key, dict[str, Any]] = {}
        self._texts: dict[Key, str] = {}
        self._text: str | None = "[]"

    def __contains__(self, key: Key) -> bool:
        return key in self._rows

    def put(self, key: Key, row: dict[str, Any]) -> None:
        """In place of what had the key before."""
        if self._rows.get(key) != row:
            self._rows[key], self._texts[key], self._text = row, json.dumps(row), None

    def keep(self, is_there: Callable[[Key], bool]) -> None:
        """Drop the rows of keys that are gone."""
        for key in [key for key in self._rows if not is_there(key)]:
            del self._rows[key], self._texts[key]
            self._text = None

    def fill(self: JsonRows[int], rows: Iterable[dict[str, Any]], most: int = TOLD_MOST) -> int:
        """Take the first rows in place of all; how many more there are."""
        every = iter(rows)
        self._rows = dict(enumerate(islice(every, most)))
        self._texts, self._text = {key: json.dumps(row) for key, row in self._rows.items()}, None
        return sum(1 for _ in every)

    def rows(self) -> list[dict[str, Any]]:
        return [*self._rows.values()]

    @property
    def text(self) -> str:
        """All of it as JSON."""
        if self._text is None:
            self._text = f"[{', '.join(self._texts.values())}]"
        return self._text


def document(told: dict[str, Any]) -> bytes:
    """As JSON; values may be JsonRows."""
    parts = (f"{json.dumps(name)}: {_text(value)}" for name, value in told.items())
    return f"{{{', '.join(parts)}}}".encode()


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return document(cast("dict[str, Any]", value)).decode()
    return value.text if isinstance(value, JsonRows) else json.dumps(value)


def plain(value: Any) -> Any:
    """The same without JsonRows, for callers that read values."""
    if isinstance(value, dict):
        return {name: plain(one) for name, one in cast("dict[str, Any]", value).items()}
    return value.rows() if isinstance(value, JsonRows) else value
