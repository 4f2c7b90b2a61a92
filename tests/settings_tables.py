"""The tables of settings in the documents, as declared: `python -m tests.settings_tables` writes them again."""

from __future__ import annotations

import re
from pathlib import Path

from rtmw.net.settings import NODE
from rtmw.transfer.limits import LIMITS

DOCS = Path(__file__).parents[1] / "docs"
TABLES = {"node.md": NODE, "transfer.md": LIMITS}


def main() -> None:
    for name, declared in TABLES.items():
        page = DOCS / name
        head, table = re.escape(declared.documented().partition("\n")[0]), declared.documented().replace("\\", r"\\")
        text = re.sub(rf"{head}\n(\|.*\n)+", table + "\n", page.read_text(encoding="utf-8"))
        page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
