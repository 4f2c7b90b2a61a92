"""How the records of a chunk are made smaller."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

__all__ = ["COMPRESSIONS", "Compress", "compressor"]

Compress = Callable[[bytes | memoryview], bytes]

COMPRESSIONS = ("lz4", "zstd", "none")

_FASTEST = 1


def compressor(name: str) -> Compress | None:
    """A function of one thread; None: nothing is compressed."""
    if name not in COMPRESSIONS:
        raise ValueError(f"compression is one of {', '.join(COMPRESSIONS)}, not {name!r}")
    if name == "none":
        return None
    return _lz4() if name == "lz4" else _zstd()


def _lz4() -> Compress:
    frame: Any = import_module("lz4.frame")

    # Of larger blocks no less is left, and whoever decompresses them needs more memory than fits into a cache.
    def compress(data: bytes | memoryview) -> bytes:
        return frame.compress(data, block_size=frame.BLOCKSIZE_MAX64KB)  # type: ignore[no-any-return]

    return compress


def _zstd() -> Compress:
    library: Any = import_module("zstandard")
    return library.ZstdCompressor(level=_FASTEST).compress  # type: ignore[no-any-return]
