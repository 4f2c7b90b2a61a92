"""A settings file in TOML: its values, on which line each stands, and errors that say so.

The standard library's parser does not say on which line a table or a key stands; `TomlLines` does.
"""

from __future__ import annotations

import os
import re
import tomllib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Self

from rtmw.errors import RtmwError

_LONGEST: Final = 600


def in_short(text: str) -> str:
    """A text that quotes what a file says, which may be long: its beginning and its end, where the advice is."""
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST // 2]} … {text[-_LONGEST // 2 :]}"


class SettingsError(RtmwError):
    """A setting is not one, or its value cannot be; the message names the file, the line and the key."""


_MANY_LINES: Final = re.compile(r'("""|\'\'\').*?\1', re.DOTALL)
_HEADER: Final = re.compile(r"\s*\[\[?[^\[\]=,]+\]\]?\s*(#.*)?$")


class TomlLines:
    """Finds on which line a table or a key stands. The text must be valid TOML."""

    def __init__(self, text: str) -> None:
        blank = _MANY_LINES.sub(lambda found: "\n" * found.group().count("\n"), text)
        self._lines = blank.splitlines()

    def headers(self, table: str) -> list[int]:
        """Lines, from 1 on, with `[table]` or `[[table]]`."""
        header = re.compile(rf"\s*\[\[?\s*[\"']?{re.escape(table)}[\"']?\s*\]")
        return [number for number, line in enumerate(self._lines, 1) if header.match(line)]

    def key(self, header: int, key: str) -> int:
        """The line of a key in the table whose header stands there; the header's, if it is not found."""
        assigns = re.compile(rf"\s*[\"']?{re.escape(key)}[\"']?\s*[=.]")
        for number in range(header, len(self._lines)):
            if assigns.match(self._lines[number]):
                return number + 1
            if _HEADER.match(self._lines[number]):
                break
        return header


@dataclass(frozen=True)
class SettingsFile:
    """A settings file: its text and values at the time it was read."""

    path: Path
    text: str
    values: dict[str, Any]

    @classmethod
    def read(cls, path: Path, error: type[RtmwError] = SettingsError) -> Self:
        """Raises `error`, which names the file, and the line where it is not TOML."""
        try:
            text = path.read_text(encoding="utf-8")
        except OSError as fault:
            raise error(f"{path}: {os.strerror(fault.errno or 0)}") from fault
        except ValueError as fault:
            raise error(f"{path}: not TOML: {fault}") from fault
        return cls.parse(path, text, error)

    @classmethod
    def parse(cls, path: Path, text: str, error: type[RtmwError] = SettingsError) -> Self:
        """Raises what `read` does. `text`: of that file, at some time."""
        try:
            return cls(path, text, tomllib.loads(text))
        except ValueError as fault:
            raise error(f"{path}: not TOML: {fault}") from fault
        except RecursionError:
            raise error(f"{path}: lists or tables lie too deep in one another; no setting has more than two") from None

    @cached_property
    def lines(self) -> TomlLines:
        return TomlLines(self.text)

    def entries(
        self, name: str, words: str, error: type[RtmwError] = SettingsError
    ) -> list[tuple[dict[str, Any], int]]:
        """Each table `[[name]]`, with its line. `words`: what such tables are. Raises `error`."""
        headers = self.lines.headers(name)
        found: list[Any] = self.values.get(name, [])
        if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
            at = headers[0] if headers else self.lines.key(0, name)
            raise error(f"{self.at(at)}: {words} are [[{name}]], in two brackets: there may be many")
        if len(headers) != len(found):
            headers = [self.lines.key(0, name)] * len(found)  # as a list of tables in one line
        return list(zip(found, headers, strict=True))

    def at(self, line: int) -> str:
        """`node.toml, line 3`; of line 0, which stands for none, the file alone."""
        return f"{self.path}, line {line}" if line else str(self.path)

    def place(self, key: str, table: str = "") -> str:
        """Where it says something: a key at its top or of a table, or a table of that name; else the file alone."""
        header = next(iter(self.lines.headers(table)), 0) if table else 0
        return self.at(self.lines.key(header, key) or next(iter(self.lines.headers(key)), 0))
