"""Decompressing into a size that is known and bounded, whatever the compressed bytes would like to become."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any, Final

LARGEST: Final = 1 << 32
"""No chunk is larger, uncompressed."""

_RATIO: Final = {"": 1, "lz4": 255, "zstd": 1 << 15}
"""The most bytes that one byte can become: nothing is allocated for a size that cannot be true."""
_SLACK: Final = 1 << 17
_SUSPICIOUS: Final = 1 << 28
"""Bytes beyond which one byte may become 255 at most: a small file must not take all memory."""

_LZ4_MAGIC: Final = b"\x04\x22\x4d\x18"
_LZ4_SAYS_SIZE: Final = 0x08


def check_claim(compression: str, size: int, uncompressed_size: int) -> str | None:
    """Why `size` bytes cannot become `uncompressed_size`; None if they can."""
    if compression not in _RATIO:
        return f"the compression {compression!r} is not known; known are lz4, zstd and none"
    if uncompressed_size > LARGEST:
        return f"it claims to have {uncompressed_size} bytes uncompressed; at most {LARGEST} are read"
    if uncompressed_size > size * _RATIO[compression] + _SLACK or (not compression and size != uncompressed_size):
        return f"it claims to have {uncompressed_size} bytes uncompressed, which its {size} bytes cannot become"
    if uncompressed_size > max(_SUSPICIOUS, size * _RATIO["lz4"] + _SLACK):
        return f"its {size} bytes would become {uncompressed_size}: beyond {_SUSPICIOUS}, at most 255 of one are read"
    return None


def decompress(compression: str, data: bytes | memoryview, size: int) -> bytes | memoryview:
    """The uncompressed bytes. Raises ValueError, with a reason, unless there are exactly `size` of them."""
    match compression:
        case "":
            made: bytes | memoryview = data
        case "lz4":
            arrow = sys.modules.get("pyarrow")
            made = _lz4_by_arrow(arrow, data, size) if arrow and says_size(data, size) else _lz4(data, size)
        case _:
            made = _zstd(data, size)
    if len(made) != size:
        raise ValueError(f"it has {len(made)} bytes uncompressed, and should have {size}")
    return made


def says_size(data: bytes | memoryview, size: int) -> bool:
    """The head of an LZ4 frame has this size; whoever decompresses it then makes sure that it is true."""
    head = bytes(data[:14])
    if len(head) < 14 or head[:4] != _LZ4_MAGIC or not head[4] & _LZ4_SAYS_SIZE:
        return False
    return head[6:] == size.to_bytes(8, "little")


def _lz4_by_arrow(arrow: Any, data: bytes | memoryview, size: int) -> memoryview:
    """Straight to where it stays: two thirds of the time of the other."""
    try:
        return memoryview(arrow.Codec("lz4").decompress(data, size))
    except OSError as error:
        raise ValueError(f"it cannot be decompressed: {error}") from error


def _lz4(data: bytes | memoryview, size: int) -> bytes:
    frame: Any = import_module("lz4.frame")
    decompressor = frame.LZ4FrameDecompressor()
    try:
        made: bytes = decompressor.decompress(data, max_length=size + 1)
    except RuntimeError as error:
        raise ValueError(f"it cannot be decompressed: {error}") from error
    if not decompressor.eof:
        raise ValueError(f"its compressed data is cut short, or becomes more than {size} bytes")
    if decompressor.unused_data:
        raise ValueError("something follows its compressed data")
    return made


def _zstd(data: bytes | memoryview, size: int) -> bytes | memoryview:
    library: Any = import_module("zstandard")
    try:
        if library.frame_content_size(data) != size:
            return _zstd_stream(library, data, size)
        made: bytes = library.ZstdDecompressor().decompress(data, allow_extra_data=False)
        return made
    except library.ZstdError as error:
        raise ValueError(f"it cannot be decompressed: {error}") from error


def _zstd_stream(library: Any, data: bytes | memoryview, size: int) -> memoryview:
    """Decompresses data that has several frames, or one that does not say its size. Raises ValueError unless `size`
    is right."""
    into = bytearray(size + 1)
    filled = 0
    with library.ZstdDecompressor().stream_reader(data, read_across_frames=True) as reader:
        while filled <= size and (count := reader.readinto(memoryview(into)[filled:])):
            filled += count
    if filled > size:
        raise ValueError(f"it becomes more than {size} bytes")
    return memoryview(into)[:filled].toreadonly()
