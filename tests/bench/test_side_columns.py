"""What columns beside chunks would cost is counted from a recording."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyarrow")

from bench.side_columns import measured
from bench.telemetry import recorded


def test_each_step_has_its_time_and_its_bytes(tmp_path: Path) -> None:
    path = recorded(tmp_path, 30_000)
    found = measured(path)
    assert found["file, bytes"] == path.stat().st_size / 30_000
    assert 8 < found["columns beside, bytes"] < 60
    assert found["columns beside: read one, ns"] < found["read, decompress and decode, ns"]
    assert all(value > 0 for value in found.values())
