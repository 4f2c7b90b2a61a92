"""The settings of a daemon: on the command line, in a TOML file, or both; the command line wins.

`values` has the checks that several daemons need. The standard library's parser of TOML does not say on which line a
table or a key stands; `TomlLines` does.

A daemon has a frozen dataclass of its settings and a Declaration with the same names. The declaration refuses what
cannot be used with a SettingsError that names file, line and key. The options of its command and the table of its
documentation are made from the declaration (rtmw/cli/parsing.py, `python -m tests.settings_tables`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar, cast

from rtmw.errors import RtmwError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

__all__ = ["Changes", "Declaration", "Setting", "SettingsError", "SettingsFile", "in_short", "option_of"]

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
        import tomllib  # only needed here

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


Settings = TypeVar("Settings", bound="DataclassInstance")


@dataclass(frozen=True)
class Setting:
    """A setting. Texts are Markdown."""

    name: str
    """The name in the file and of the field of the daemon's dataclass; the command line has a - for each _."""
    check: Callable[[Any], Any]
    """The value that the daemon uses, of one that was given. Raises ValueError: what it must be (values.py)."""
    unit: str
    """The kind of a value, as the command line shows it: BYTES, SECONDS, PATTERN; empty: a flag."""
    meaning: str = ""
    default: str = "none"
    """The default in words."""
    is_list: bool = False
    """A list in the file, and several words on the command line."""
    is_reloaded: bool = False
    """A reload (SIGHUP) takes it in; else it takes effect when the daemon is started again."""

    @property
    def is_flag(self) -> bool:
        return not self.unit


@dataclass(frozen=True)
class Changes:
    """The changes that a reload finds."""

    taken: dict[str, Any]
    """New values, by name."""
    late: tuple[str, ...]
    """Names of those that have changed in the file and need a new start."""


@dataclass(frozen=True)
class Declaration:
    """The settings of a daemon, or of one table of its file."""

    settings: tuple[Setting, ...]
    table: str = ""
    """The table of the file that the settings stand in; empty: they stand at its top, and on the command line."""
    others: tuple[str, ...] = ()
    """Tables of the file that have readers of their own, and fields of the dataclass. A reload takes them in."""
    of_services: tuple[str, ...] = ()
    """Tables of the file that services read, which have processes of their own."""
    error: type[RtmwError] = SettingsError

    @cached_property
    def by_name(self) -> dict[str, Setting]:
        return {setting.name: setting for setting in self.settings}

    @cached_property
    def reloaded(self) -> frozenset[str]:
        """The names of the settings that a reload takes in."""
        return frozenset(setting.name for setting in self.settings if setting.is_reloaded) | {*self.others}

    def read(
        self, base: Settings, source: Path | SettingsFile | None, given: Mapping[str, Any],
        others: Callable[[SettingsFile], Mapping[str, Any]] | None = None,
    ) -> Settings:  # fmt: skip
        """`base`, with what the file says, and above that what was given on the command line, None: nothing.

        `others` reads the other tables. All or nothing: raises `error` for the mistakes at the top of the file and the
        first one of the other tables, a line each.
        """
        if source is not None:
            file = source if isinstance(source, SettingsFile) else SettingsFile.read(source, self.error)
            checked, mistakes = self._look(file.values, file.place)
            try:
                read: Mapping[str, Any] = others(file) if others else {}
            except RtmwError as fault:
                if not mistakes:
                    raise
                raise self.error("\n".join([*mistakes, str(fault)])) from None
            self._refuse(mistakes)
            base = replace(base, **read, **checked)
        named = {name: value for name, value in given.items() if value is not None}
        return replace(base, **self.check(named, option_of))

    def check(self, values: Mapping[str, Any], place: Callable[[str], str]) -> dict[str, Any]:
        """Values as the daemon uses them, without the other tables; `place` says where a key stands.

        Raises `error`, with a line for each mistake.
        """
        checked, mistakes = self._look(values, place)
        self._refuse(mistakes)
        return checked

    def of(self, file: SettingsFile) -> dict[str, Any]:
        """The table of a file, as `check` has it; empty, if the file has none. Raises `error`."""
        given = file.values.get(self.table, {})
        if not isinstance(given, dict):
            raise self.error(f"{file.place(self.table)}: {self.table} must be a table, [{self.table}]")
        return self.check(cast("dict[str, Any]", given), lambda key: file.place(key, self.table))

    def _look(self, values: Mapping[str, Any], place: Callable[[str], str]) -> tuple[dict[str, Any], list[str]]:
        checked, mistakes = dict[str, Any](), list[str]()
        for name, value in values.items():
            if name in self.others or name in self.of_services:
                continue
            if name not in self.by_name:
                mistakes.append(f"{place(name)}: {in_short(self._why_unknown(name, value))}")
                continue
            try:
                checked[name] = self.by_name[name].check(value)
            except ValueError as error:
                mistakes.append(f"{place(name)}: {name} cannot be used: {in_short(str(error))}")
        return checked, mistakes

    def _refuse(self, mistakes: list[str]) -> None:
        if mistakes:
            raise self.error("\n".join(mistakes))

    def _why_unknown(self, name: str, value: Any) -> str:
        there_are = f"there are {', '.join(self.by_name)}"
        if self.table:
            return f"[{self.table}] has no {name}; {there_are}"
        if isinstance(value, dict):
            return f"[{name}] is a table; settings stand at the top of the file, in none"
        return f"there is no setting {name}; {there_are}"

    def changes(self, before: Settings, after: Settings) -> Changes:
        """The changes between two settings of the daemon: those that a reload takes in, and those that it does not."""
        new = {one.name: getattr(after, one.name) for one in fields(after)}
        changed = {name: value for name, value in new.items() if value != getattr(before, name)}
        taken = {name: value for name, value in changed.items() if name in self.reloaded}
        return Changes(taken, tuple(name for name in changed if name not in taken))

    def documented(self) -> str:
        """A table in Markdown, a row a setting."""
        rows = ["| key | meaning | default | SIGHUP |", "|---|---|---|---|"]
        for one in self.settings:
            rows.append(f"| `{one.name}` | {one.meaning} | {one.default} | {'taken in ' if one.is_reloaded else ''}|")
        return "\n".join(rows)


def option_of(name: str) -> str:
    """The option of a setting on the command line."""
    return f"--{name.replace('_', '-')}"
