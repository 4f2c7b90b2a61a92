"""How a recorder writes what it records."""

from __future__ import annotations

from dataclasses import dataclass

from rtmw.recording.places import is_remote
from rtmw.recording.writer import CHUNK_BYTES, COMPRESSIONS

LEAST_CHUNKS, MOST_CHUNKS = 4, 1024


@dataclass(frozen=True)
class Settings:
    """How a recorder writes. Sizes in bytes, times in seconds."""

    compression: str = "lz4"
    chunk_bytes: int = CHUNK_BYTES
    buffer_bytes: int = 256 << 20
    split_bytes: int | None = None
    split_every: float | None = None
    keep: int | None = None
    sync_every: float | None = 5.0
    snapshot: float | None = None
    reliable: bool = False
    append: bool = False
    ros2: bool = False
    upload: str | None = None
    upload_remove: bool = False
    upload_patience: float = 60.0

    def __post_init__(self) -> None:
        if self.compression not in COMPRESSIONS:
            raise ValueError(f"compression is one of {', '.join(COMPRESSIONS)}, not {self.compression!r}")
        for name in ("chunk_bytes", "buffer_bytes", "split_bytes", "split_every", "keep", "sync_every", "snapshot"):
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not value > 0):
                raise ValueError(f"{name}={value!r} is not possible; it must be a number above 0")
        if self.buffer_bytes < LEAST_CHUNKS * self.chunk_bytes:
            raise ValueError(
                f"a buffer of {self.buffer_bytes} bytes holds fewer than {LEAST_CHUNKS} chunks of {self.chunk_bytes};"
                " make it larger, or chunks smaller"
            )
        if self.split_bytes is not None and self.split_bytes < self.chunk_bytes:
            raise ValueError(
                f"files of {self.split_bytes} bytes have no room for a chunk of {self.chunk_bytes};"
                " split them later, or make chunks smaller"
            )
        if self.upload is not None and not is_remote(self.upload):
            raise ValueError(f"upload={self.upload!r} is no remote place, such as s3://bucket/prefix")
        if self.upload_remove and self.upload is None:
            raise ValueError("upload_remove=True needs upload, the place where the files go")
        if not self.upload_patience >= 0:
            raise ValueError(f"upload_patience={self.upload_patience!r} is not possible; it must be a number from 0")
        if self.snapshot is not None and (self.split_bytes or self.split_every):
            raise ValueError("a snapshot is one file; it is not split")

    @property
    def chunks(self) -> int:
        """Number of chunks that the buffer has room for, at most MOST_CHUNKS."""
        return min(MOST_CHUNKS, self.buffer_bytes // self.chunk_bytes)
