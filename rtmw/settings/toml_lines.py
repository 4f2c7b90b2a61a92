"""On which line of a TOML file a table or a key stands: the standard library's parser does not say."""

from __future__ import annotations

import re
from typing import Final

_MANY_LINES: Final = re.compile(r'("""|\'\'\').*?\1', re.DOTALL)
_HEADER: Final = re.compile(r"\s*\[\[?[^\[\]=,]+\]\]?\s*(#.*)?$")


class TomlLines:
    """Of a text that is valid TOML."""

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
