"""CRC-32 as fast as memory; without the GIL."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from isal import isal_zlib

__all__ = ["crc32"]

crc32 = cast("Callable[..., int]", cast(Any, isal_zlib).crc32)
"""`crc32(data, before=0)`, as zlib's."""
