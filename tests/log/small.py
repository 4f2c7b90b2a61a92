"""The log of the golden files in `golden_small`: trimmed, with ids, a cursor, indexes, and compacted segments."""

from __future__ import annotations

import struct
import time
from pathlib import Path

import rtmw

KEYS = (None, "a", "b", None, "c", "a", "b", "a", None, "b", "a", "a")
"""Of its records. The first two lie in a segment that is trimmed; what lies in the next three is compacted."""
LENGTH = 20_000
STAYS = (3, 4, 7, 8, 9, 10, 11)
"""The records that are left: of each key the newest of the full segments, those without a key, and the last segment."""
BEGINS = 2
COMMITTED = 6
"""The cursor `c` stands behind this one."""


def small_write(folder: Path) -> list[int]:
    """Gives the positions of all records."""
    with rtmw.Log(folder, segment="64K") as log:
        positions = [log.append(content(number), key=key, id=number).position for number, key in enumerate(KEYS)]
        log.trim(positions[BEGINS])
        with log.read(cursor="c") as records:
            for record in records:
                record.commit()
                if record.position == positions[COMMITTED]:
                    break
    return positions


def content(number: int) -> bytes:
    return b"%d" % number + bytes(LENGTH)


def small_compact(folder: Path) -> None:
    """To one record a key, whatever the cursor wants, as far as segments are full; with indexes."""
    last = max(int(path.stem) for path in folder.glob("*.seg"))
    with rtmw.Log(folder, segment="64K", retention=rtmw.Retention(per_key=1, cursors=False)) as log:
        log.append_many([])
        end = time.monotonic() + 60
        while compacted(folder) != last or len(list(folder.glob("*.idx"))) < len(list(folder.glob("*.seg"))) - 1:
            assert time.monotonic() < end
            time.sleep(0.01)


def compacted(folder: Path) -> int:
    """Up to where the newest mark of the file says that the log is compacted; 0: there is no such file."""
    if not (folder / "compacted").exists():
        return 0
    data = (folder / "compacted").read_bytes()
    return max(struct.unpack_from("<QQ", data, at + 24) for at in (4096, 8192))[1]
