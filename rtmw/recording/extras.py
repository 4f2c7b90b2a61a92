"""Metadata and attachments: what lies in a recording besides messages."""

from __future__ import annotations

from typing import Final

from rtmw.recording.checksum import crc32
from rtmw.recording.contents import Attachment
from rtmw.recording.damage import damaged
from rtmw.recording.fields import Fields
from rtmw.recording.file import File
from rtmw.recording.records import Opcode

_HEAD: Final = 9
_NAMES: Final = 1 << 16


def _content(file: File, position: int, length: int, opcode: Opcode) -> Fields:
    data = file.read(position, length)
    what = opcode.name.lower()
    if length < _HEAD or data[0] != opcode or int.from_bytes(data[1:_HEAD], "little") != length - _HEAD:
        raise damaged(file.path, position, f"here should be {what} of {length} bytes")
    return Fields(file.path, memoryview(data)[_HEAD:], position + _HEAD, what)


def read_metadata(file: File, position: int, length: int, is_ours: bool) -> tuple[str, dict[str, str]]:
    fields = _content(file, position, length, Opcode.METADATA)
    found = fields.text(), fields.text_map()
    if is_ours and fields.left():
        fields.wrong(f"{fields.left()} bytes too many")
    return found


def read_attachment(file: File, attachment: Attachment) -> bytes:
    """Its data. Raises RecordingDamaged where it does not match its CRC."""
    length = int.from_bytes(file.read(attachment.position, _HEAD)[1:], "little") + _HEAD
    fields = _content(file, attachment.position, length, Opcode.ATTACHMENT)
    times = fields.time(), fields.time()
    name, media_type = fields.text(), fields.text()
    data = fields.bytes(fields.number(8))
    covered = file.read(attachment.position + _HEAD, fields.taken())
    crc = fields.number(4)
    said = (attachment.name, attachment.media_type, attachment.size)
    if (name, media_type, len(data)) != said or times != (attachment.log_time, attachment.create_time):
        fields.wrong(f"it is {name!r} of {len(data)} bytes, and {attachment.name!r} in the index, or of other times")
    if crc and crc32(covered) != crc:
        fields.wrong(f"the attachment {name!r} does not match its CRC")
    return bytes(data)


def attachment_at(file: File, position: int, length: int) -> Attachment:
    """What an attachment record says of itself; its data is not read."""
    head = file.window(position + _HEAD, min(length - _HEAD, _NAMES))
    fields = Fields(file.path, head, position + _HEAD, "attachment")
    log_time, create_time, name, media_type = fields.time(), fields.time(), fields.text(), fields.text()
    size = fields.number(8)
    if size > length - _HEAD - fields.taken() - 4:
        fields.wrong(f"it claims to have {size} bytes, and has not")
    return Attachment(name, media_type, log_time, create_time, size, position)
