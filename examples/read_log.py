"""Reads a log without rtmw, as docs/formats/log-format.md describes it: python read_log.py FOLDER"""

import struct
import sys
from collections.abc import Iterator
from pathlib import Path

TABLE: list[int] = []
for number in range(256):
    for _ in range(8):
        number = number >> 1 ^ 0x82F63B78 * (number & 1)
    TABLE.append(number)


def crc32c(data: bytes, before: int = 0) -> int:
    crc = before ^ 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ TABLE[(crc ^ byte) & 255]
    return crc ^ 0xFFFFFFFF


def identity(folder: Path) -> tuple[int, bool]:
    data = (folder / "log").read_bytes()
    if struct.unpack_from("<8s4xI", data) != (b"RTMWLOG\0", crc32c(data[16:])) or data[8] > 2:
        sys.exit(f"{folder} is no log of version 1 or 2")
    return crc32c(data[16:32]), data[8] == 2


def newest_mark(data: bytes, seed: int) -> int:
    valid = [m for m in (data[4096:4144], data[8192:8240]) if struct.unpack_from("<I", m, 8)[0] == crc32c(m[12:], seed)]
    return int(max(struct.unpack_from("<QQ", mark, 24) for mark in valid)[1])


def records(folder: Path) -> Iterator[tuple[int, int, bytes, bytes]]:
    """Position, time in nanoseconds, labels and data of each record."""
    seed, is_replicated = identity(folder)
    position = newest_mark((folder / "start").read_bytes(), seed) if (folder / "start").exists() else 0
    segments = {int(path.stem): path.read_bytes() for path in folder.glob("*.seg") if int(path.stem) >= position}
    told = (folder / "end").read_bytes().ljust(24) if (folder / "end").exists() else bytes(24)
    last = position if is_replicated else newest_mark(segments[max(segments)], seed)
    end = struct.unpack_from("<Q", told, 8)[0] if struct.unpack_from("<I", told)[0] == crc32c(told[4:], seed) else last
    for base, data in sorted(segments.items()):
        at, (version, behind, size) = 12288, struct.unpack_from("<I52xQQ", data, 8)
        if position != base or version > 2:
            sys.exit(f"the segment of {position} is missing, or of another version")
        while at < 12288 + size if version == 2 else position < end and (position == base or position not in segments):
            length, crc, lsn, _, kind, flags, _, time_ns = struct.unpack_from("<IIQIBBHQ", data, at)
            record = data[at : at + (32 + length + 7) // 8 * 8]
            if not position <= lsn <= (behind or position) or crc != crc32c(record[8:], crc32c(record[:4], seed)):
                sys.exit(f"the record at {position} is damaged")
            labels = (8 + sum(struct.unpack_from("<HH", record, 34)) + 7) // 8 * 8 if flags & 1 else 0
            if kind == 1:  # no fence
                yield lsn, time_ns, record[32 : 32 + labels], record[32 + labels : 32 + length]
            position, at = lsn + len(record), at + len(record)
        position = behind or position


if __name__ == "__main__":
    for where, when, about, content in records(Path(sys.argv[1])):
        print(where, when, about[8:], len(content), content[:40])
