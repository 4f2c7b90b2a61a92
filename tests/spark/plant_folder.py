"""A folder of two recordings that tests of reading share."""

from __future__ import annotations

from pathlib import Path

from tests.spark.plant import BEGIN, Plant, report


def record_plant(folder: Path) -> Path:
    """4,500 and 1,500 speeds of two pumps, 60 reports, 30 raw messages; the second file begins with a carried one."""
    first = Plant(folder / "a.mcap")
    for begin in range(0, 3000, 100):
        first.put("pump/1/speed", range(begin, begin + 100, 2))
        first.put("pump/2/speed", range(begin + 1, begin + 100, 2))
        first.put("report", range(begin, begin + 2), report)
    first.close()
    (folder / "deeper").mkdir()
    second = Plant(folder / "deeper" / "b.mcap")
    second.put("pump/1/speed", [2998], flags=1)
    second.put("pump/1/speed", range(3000, 6000), expires=BEGIN)
    second.put("raw", range(30), lambda number: bytes([number]))
    second.close()
    return folder
