"""The beginning of the file: is it a recording at all, and whose?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from rtmw.errors import RecordingError
from rtmw.recording import records
from rtmw.recording.damage import damaged
from rtmw.recording.fields import Fields
from rtmw.recording.file import File
from rtmw.recording.records import HEAD, MAGIC, Opcode

SQLITE: Final = b"SQLite f"
CONVERT: Final = "Convert it: rtmw recording convert BAG -o NEW.mcap"
_EXTENSION: Final = 4096
"""Later versions of MCAP may append fields, but not so many."""


@dataclass(frozen=True, slots=True)
class Header:
    """The header of a file: the profile, and the library that wrote it."""

    profile: str
    library: str
    end: int
    """Where the data section begins."""

    @property
    def is_ours(self) -> bool:
        """Written by rtmw: every chunk has a side record."""
        return self.library.startswith("rtmw ")


def read_header(file: File) -> Header:
    """Raises RecordingError if the file is no recording, RecordingDamaged if its beginning is not whole."""
    _require_magic(file)
    position = len(MAGIC)
    opcode, size = records.read_head(file.read(position, HEAD))
    if opcode != Opcode.HEADER or size > _EXTENSION:
        raise damaged(file.path, position, "here should be a header")
    fields = Fields(file.path, file.read(position + HEAD, size), position + HEAD, "header")
    header = Header(*records.read_header(fields), position + HEAD + size)
    if header.is_ours and fields.left():
        fields.wrong(f"{fields.left()} bytes too many")
    return header


def _require_magic(file: File) -> None:
    begin = file.window(0, len(MAGIC))
    if begin == MAGIC:
        return
    if not begin:
        raise RecordingError(f"{file.path} is empty: nothing has been recorded yet, or it is no recording")
    if begin == SQLITE:
        raise RecordingError(f"{file.path} is a bag of ROS 2 in SQLite. {CONVERT}")
    if begin[:5] == MAGIC[:5] and len(begin) == len(MAGIC):
        raise RecordingError(f"{file.path} is of MCAP version {chr(begin[5])!r}, or damaged; version '0' is read")
    raise RecordingError(f"{file.path} is no recording: it begins with {begin!r}, and an MCAP file with {MAGIC!r}")
