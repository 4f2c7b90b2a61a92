"""Metadata and attachments: what lies in a recording besides messages."""

from __future__ import annotations

from typing import Final

from rtmw.checksum import crc32
from rtmw.recording import records
from rtmw.recording.contents import Attachment
from rtmw.recording.damage import damaged
from rtmw.recording.fields import Fields
from rtmw.recording.file import File
from rtmw.recording.records import CRC, HEAD, Opcode

_NAMES: Final = 1 << 16


def _content(file: File, position: int, length: int, opcode: Opcode) -> Fields:
    data = file.read(position, length)
    what = opcode.name.lower()
    if length < HEAD or records.read_head(data) != (opcode, length - HEAD):
        raise damaged(file.path, position, f"here should be {what} of {length} bytes")
    return Fields(file.path, memoryview(data)[HEAD:], position + HEAD, what)


def read_metadata(file: File, position: int, length: int, is_ours: bool) -> tuple[str, dict[str, str]]:
    fields = _content(file, position, length, Opcode.METADATA)
    found = records.read_metadata(fields)
    if is_ours and fields.left():
        fields.wrong(f"{fields.left()} bytes too many")
    return found


def read_attachment(file: File, attachment: Attachment) -> bytes:
    """Returns an attachment's data. Raises RecordingDamaged where it does not match its CRC."""
    length = records.read_head(file.read(attachment.position, HEAD))[1] + HEAD
    fields = _content(file, attachment.position, length, Opcode.ATTACHMENT)
    found = records.read_attachment_head(fields, attachment.position)
    data = fields.bytes(found.size)
    covered = file.read(attachment.position + HEAD, fields.taken())
    crc = fields.number(CRC)
    if found != attachment:
        name = attachment.name
        fields.wrong(f"it is {found.name!r} of {found.size} bytes, and {name!r} in the index, or of other times")
    if crc and crc32(covered) != crc:
        fields.wrong(f"the attachment {found.name!r} does not match its CRC")
    return bytes(data)


def attachment_at(file: File, position: int, length: int) -> Attachment:
    """The head of an attachment record; the data is not read."""
    head = file.window(position + HEAD, min(length - HEAD, _NAMES))
    fields = Fields(file.path, head, position + HEAD, "attachment")
    found = records.read_attachment_head(fields, position)
    if found.size > length - HEAD - fields.taken() - CRC:
        fields.wrong(f"it claims to have {found.size} bytes, and has not")
    return found
