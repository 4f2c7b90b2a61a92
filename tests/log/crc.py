"""CRC-32C, as docs/formats/log-format.md means it: the function of examples/read_log.py."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

EXAMPLE = Path(__file__).parents[2] / "examples" / "read_log.py"


def load_example() -> ModuleType:
    """The reader without rtmw, as a module."""
    spec = importlib.util.spec_from_file_location("read_log", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


_example = load_example()


def crc32c(data: bytes, before: int = 0) -> int:
    return int(_example.crc32c(data, before))
