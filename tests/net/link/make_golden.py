"""Writes what each connection of a line carries in one direction: `python -m tests.net.link.make_golden`."""

from __future__ import annotations

import struct
from pathlib import Path

from tests.net.link.format import ack, begin, control, drop, frame, more

GOLDEN = Path(__file__).parent / "golden"
BEFORE = (frame(1, b"hello"),)
URGENT = (
    ack(0, 256, []),
    frame(2, b""),
    frame(8, struct.pack("<Q", 7)),
    control(1, b"a control"),
    begin(1, 1, b"an alarm", priority=6),
    begin(1, 2, b"in ", size=9, priority=5),
    begin(1, 2, b"overtakes", priority=6),
    more(1, b"parts", 5),
    more(1, b".", 5),
    frame(10, struct.pack("<H", 0) + b"the end"),
)
TWIN = (begin(1, 1, b"an alarm", priority=6),)
BULK = (
    begin(1, 3, b"two were lost before"),
    begin(1, 4, b"exp", size=100),
    drop(1, 4),
    begin(1, 5, b""),
)

if __name__ == "__main__":
    GOLDEN.mkdir(exist_ok=True)
    for name, frames in {"before": BEFORE, "urgent": URGENT, "bulk": BULK, "twin": TWIN}.items():
        (GOLDEN / name).write_bytes(b"".join(frames))
