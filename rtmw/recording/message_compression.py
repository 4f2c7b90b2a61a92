"""Messages that were compressed one by one: bags of ROS 2 with `compression_mode: message`.

The file itself does not say so; `metadata.yaml` beside it does, and it may be gone. But each payload begins with the
magic number of zstd, and no CDR payload does: the first byte of its header is 0.
"""

from __future__ import annotations

from collections.abc import Collection
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from rtmw.recording.damage import damaged
from rtmw.recording.decompression import LARGEST, check_claim, decompress

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from rtmw.recording.batch import Batch

_MAGIC: Final = 0xFD2FB528
"""The first four bytes of a zstd frame, as a number."""


def compressed_rows(batch: Batch, channels: Collection[int]) -> NDArray[np.intp]:
    """The numbers of the rows whose payloads are zstd frames. `channels`: those of CDR messages."""
    rows = np.flatnonzero((batch.size >= 4) & np.isin(batch.channel, [*channels]))
    data = np.frombuffer(batch.data, np.uint8)
    for byte, expected in enumerate(_MAGIC.to_bytes(4, "little")):
        rows = rows[data[batch.position[rows] + byte] == expected]
    return rows


def decompressed(path: Path, batch: Batch, channels: Collection[int]) -> Batch:
    """The batch with all payloads as they were published. Raises RecordingDamaged for one that is cut or damaged."""
    rows = compressed_rows(batch, channels)
    if not len(rows):
        return batch
    payloads: list[bytes | memoryview] = [batch.payload(row) for row in range(len(batch))]
    left = LARGEST
    numbers: list[int] = rows.tolist()
    for row in numbers:
        try:
            payloads[row] = _payload(payloads[row], left)
        except ValueError as error:
            what = f"message {row} of a chunk is compressed by itself, and cannot be read: {error}"
            raise damaged(path, batch.chunk.position, what) from error
        left -= len(payloads[row])
    size = np.array([len(payload) for payload in payloads], np.int64)
    return batch.having(b"".join(payloads), position=np.cumsum(size) - size, size=size)


def _payload(packed: bytes | memoryview, most: int) -> bytes | memoryview:
    library: Any = import_module("zstandard")
    try:
        size: int = library.frame_content_size(packed)
    except library.ZstdError as error:
        raise ValueError(str(error)) from error
    if size < 0:
        raise ValueError("it does not say how large it is uncompressed")
    reason = check_claim("zstd", len(packed), size)
    if reason is None and size > most:
        reason = f"the messages of its chunk have more than {LARGEST} bytes uncompressed"
    if reason is not None:
        raise ValueError(reason)
    return decompress("zstd", packed, size)
