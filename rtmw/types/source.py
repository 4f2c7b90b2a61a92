"""Python source under construction: lines, indentation, names that do not clash, and objects the code refers to."""

from __future__ import annotations

import re
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from rtmw.types.layout import Runs


class Source:
    """Generated functions receive their constants as default arguments, which Python reads as fast as locals."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.objects: dict[str, Any] = {}
        self._indent = 2
        self._names = 0
        self._known: dict[int, str] = {}

    def line(self, text: str) -> None:
        self.lines.append("    " * self._indent + text)

    def insert(self, place: int, texts: list[str]) -> None:
        """Lines in front of the one that is now at `place`, at the present indentation."""
        self.lines[place:place] = ["    " * self._indent + text for text in texts]

    def name(self, stem: str) -> str:
        self._names += 1
        return f"{stem}{self._names}"

    def constant(self, stem: str, value: Any) -> str:
        """A name for an object; the same name for the same object."""
        if id(value) not in self._known:
            name = self.name(stem)
            self._known[id(value)] = name
            self.objects[name] = value
        return self._known[id(value)]

    def look_up(self, target: str, runs: Runs, key: str | None) -> None:
        """Assigns the entry of a run: from a table by phase, or from its cache by the length in the variable `key`."""
        if runs.open and key is None:
            self.line(f"{target} = {self.constant('table', runs.table())}[p & 7]")
            return
        cache, entry = self.constant("cache", runs.cache), self.constant("entry", runs.entry)
        if runs.open:
            self.line(f"n = {key} << 3 | p & 7")
            key = "n"
        self.line("try:")
        self.line(f"    {target} = {cache}[{key or 0}]")
        self.line("except KeyError:")
        self.line(f"    {target} = {entry}({key or 0})")

    def method(self, method: str, owner: str) -> str:
        """A name for a method of a constant, looked up once."""
        return self.constant(method, getattr(self.objects[owner], method))

    def drop_unread(self, variable: str) -> None:
        """Takes the assignments of a variable out, if nothing but these mentions it."""
        assigned = re.compile(rf"\s*{variable} \+?= ")
        others = [line for line in self.lines if not assigned.match(line)]
        if not any(re.search(rf"\b{variable}\b", line) for line in others):
            self.lines = others

    @contextmanager
    def block(self, head: str) -> Generator[None, None, None]:
        self.line(head)
        self._indent += 1
        mark = len(self.lines)
        yield
        if len(self.lines) == mark:
            self.line("pass")
        self._indent -= 1

    def function(self, head: str, arguments: str, first: str, failure: str) -> str:
        """The text of the function: `first` opens the guarded body, `failure` is what happens on any exception."""
        bound = "".join(f", {name}={name}" for name in self.objects)
        opening = [f"def {head}({arguments}{bound}):", f"    {first}", "    try:"]
        closing = ["    except Exception as error:", f"        {failure}"]
        return "\n".join([*opening, *self.lines, *closing, ""])
