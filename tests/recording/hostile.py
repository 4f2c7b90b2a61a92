"""Recordings whose bytes claim what is not true."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import lz4.frame
import zstandard
from isal import isal_zlib

from rtmw.recording import records
from rtmw.recording.records import MAGIC, Opcode

CHANNEL = records.channel(1, 0, "topic", "json", {})
MESSAGE = records.record(Opcode.MESSAGE, struct.pack("<HIQQ", 1, 7, 1000, 900), b"payload")


def message(channel: int = 1, log_time: int = 1000, publish_time: int = 900) -> bytes:
    return records.record(Opcode.MESSAGE, struct.pack("<HIQQ", channel, 7, log_time, publish_time), b"payload")


def chunk(
    content: bytes,
    *,
    compression: str = "",
    claim: int | None = None,
    crc: int | None = None,
    times: tuple[int, int] = (1000, 1000),
    pack: Callable[[bytes], bytes] = bytes,
) -> bytes:
    packed = pack(content)
    crc = isal_zlib.crc32(content) if crc is None else crc
    head = struct.pack("<QQQI", *times, len(content) if claim is None else claim, crc)
    name = records.text(compression)
    return records.record(Opcode.CHUNK, head, name, struct.pack("<Q", len(packed)), packed)


def lz4_chunk(content: bytes, claim: int | None = None) -> bytes:
    return chunk(content, compression="lz4", claim=claim, pack=lz4.frame.compress)


def zstd_chunk(content: bytes, claim: int | None = None) -> bytes:
    return chunk(content, compression="zstd", claim=claim, pack=zstandard.compress)


def lz4_tail(content: bytes) -> bytes:
    return chunk(content, compression="lz4", pack=lambda content: lz4.frame.compress(content) + b"tail")


def zstd_tail(content: bytes) -> bytes:
    return chunk(content, compression="zstd", pack=lambda content: zstandard.compress(content) + b"tail")


def write_hostile(path: Path, *parts: bytes) -> Path:
    """A file of others with these records, complete, and without a summary."""
    footer = records.footer_head(0, 0) + bytes(4)
    path.write_bytes(b"".join((MAGIC, records.header("someone"), *parts, records.data_end(0), footer, MAGIC)))
    return path
