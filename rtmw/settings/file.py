"""A settings file in TOML: its values, and on which line each stands."""

from __future__ import annotations

import os
import tomllib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from rtmw.errors import RtmwError
from rtmw.settings.errors import SettingsError
from rtmw.settings.toml_lines import TomlLines


@dataclass(frozen=True)
class SettingsFile:
    """As it was when it was read."""

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
