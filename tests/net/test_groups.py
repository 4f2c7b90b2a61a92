"""A folder of many files has them in groups: its head names each of them once, and no other."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("folder", ["rtmw/net/dds", "rtmw/net/link"])
def test_the_head_of_a_folder_has_its_files_in_groups(folder: str) -> None:
    head = ast.get_docstring(ast.parse((ROOT / folder / "__init__.py").read_text(encoding="utf-8")), clean=False)
    assert head is not None
    groups = "\n".join(line for line in head.splitlines() if line.startswith("    "))
    named = Counter(re.findall(r"\w+\.(?:py|pyi|c|h)\b", groups))
    files = {path.name for path in (ROOT / folder).iterdir() if path.suffix in (".py", ".pyi", ".c", ".h")}
    assert named == Counter(files - {"__init__.py"})
