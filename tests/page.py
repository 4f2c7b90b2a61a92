"""What pages of the documentation say: their tables of bytes, which are held against real bytes, and their programs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

_FENCE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SIZES = {"u8": 1, "u16": 2, "u32": 4, "u64": 8}


def programs(path: Path) -> list[str]:
    """The Python programs of a page, which stand between fences."""
    return _FENCE.findall(path.read_text(encoding="utf-8"))


@dataclass(frozen=True)
class Row:
    at: int
    size: int | None
    """None: the rest."""
    what: str


@dataclass(frozen=True)
class Page:
    path: Path

    def table(self, heading: str) -> list[Row]:
        """The rows of the first table under a heading."""
        _, _, rest = self.path.read_text(encoding="utf-8").partition(f"# {heading}\n")
        rows = re.findall(r"^\| (\d+) \| (\S+) \| (.*) \|$", re.split(r"\n#+ ", rest)[0], re.MULTILINE)
        assert rows, f"the page has no table under {heading!r}"
        return [Row(int(at), None if size == "…" else SIZES.get(size) or int(size), what) for at, size, what in rows]

    def field(self, data: bytes, heading: str, what: str) -> int:
        """The number that the page's row which begins with `what` says to be there."""
        (row,) = (row for row in self.table(heading) if row.what.startswith(what))
        assert row.size is not None
        return int.from_bytes(data[row.at : row.at + row.size], "little")
