"""The table of settings in docs/node.md, as NODE declares it: `python -m tests.settings_tables` writes it again."""

from __future__ import annotations

import re
from pathlib import Path

from rtmw.net.settings import NODE

PAGE = Path(__file__).parents[1] / "docs" / "node.md"


def main() -> None:
    text = PAGE.read_text(encoding="utf-8")
    head = re.escape(NODE.documented().partition("\n")[0])
    PAGE.write_text(re.sub(rf"{head}\n(\|.*\n)+", lambda _: NODE.documented() + "\n", text), encoding="utf-8")


if __name__ == "__main__":
    main()
