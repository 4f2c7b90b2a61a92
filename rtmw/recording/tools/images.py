"""Images of recordings as files: raw ones as PNG, compressed ones as they are."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import numpy as np

from rtmw.errors import RecordingError, ValueMismatch
from rtmw.recording.batch import CARRIED
from rtmw.recording.contents import UNSET_NS
from rtmw.recording.places import written_whole
from rtmw.recording.recording import Recording
from rtmw.recording.tools.copying import Progress, no_progress
from rtmw.recording.versions import dds_name, some

if TYPE_CHECKING:
    from rtmw.recording.batch import Batch
    from rtmw.recording.contents import Channel
    from rtmw.recording.tools.copying import Section

RAW: Final = {"sensor_msgs.msg.Image", "foxglove.RawImage"}
COMPRESSED: Final = {"sensor_msgs.msg.CompressedImage", "foxglove.CompressedImage"}
"""Types of images, with dots."""
ENCODINGS: Final = {
    "mono8": (1, "u1", ""), "8UC1": (1, "u1", ""), "mono16": (1, "u2", ""), "16UC1": (1, "u2", ""),
    "rgb8": (3, "u1", ""), "bgr8": (3, "u1", "bgr"), "8UC3": (3, "u1", "bgr"),
    "rgba8": (4, "u1", ""), "bgra8": (4, "u1", "bgr"),
}  # fmt: skip
"""Channels of a pixel, the kind of each, and whether blue comes first."""
_SIGNATURES: Final = (
    (b"\xff\xd8\xff", ".jpg"), (b"\x89PNG\r\n\x1a\n", ".png"), (b"RIFF", ".webp"), (b"BM", ".bmp"),
    (b"II*\0", ".tiff"), (b"MM\0*", ".tiff"),
)  # fmt: skip
_PNG: Final = b"\x89PNG\r\n\x1a\n"
_COLOURS: Final = {1: 0, 3: 2, 4: 6}
"""PNG's number for so many channels: grey, RGB, RGBA."""
_LEVEL: Final = 3


@dataclass(slots=True)
class Images:
    """The outcome of an export of images."""

    images: Counter[str] = field(default_factory=Counter[str])
    """Images written, by topic."""
    left_out: dict[str, str] = field(default_factory=dict[str, str])
    """Why the first image that could not be written could not, by topic."""
    left_out_count: int = 0


def export_images(sources: Sequence[Path], folder: Path, section: Section, progress: Progress = no_progress) -> Images:
    """Writes FOLDER/TOPIC/TIME.png (.jpg, …), the time in nanoseconds since 1970, of publishing if that is known.

    Images that cannot be written are counted. Raises FileExistsError, RecordingError where there is no topic with
    images, RecordingDamaged, OSError: then there is no folder.
    """
    found, has_images = Images(), False
    with written_whole(folder) as temporary:
        temporary.mkdir()
        for recording in section.each(sources):
            channels = _channels(recording, section)
            has_images |= bool(channels)
            _export(recording, channels, temporary, section, found, progress)
        if not has_images:
            raise RecordingError(
                f"there is no topic with images, which are messages of {some(sorted(RAW | COMPRESSED))}"
            )
    return found


def _channels(recording: Recording, section: Section) -> dict[int, Channel]:
    """The channels with images, of the topics that are meant."""
    names = section.names(recording) if section.topics is not None else None
    return {
        number: channel
        for number, channel in recording.channels.items()
        if (names is None or channel.topic in names) and dds_name(recording.type_name(channel)) in RAW | COMPRESSED
    }


def _export(
    recording: Recording,
    channels: dict[int, Channel],
    folder: Path,
    section: Section,
    found: Images,
    progress: Progress,
) -> None:
    topics = sorted({channel.topic for channel in channels.values()})
    start_ns, end_ns = section.span(recording)
    chunks = recording.select(topics, start_ns, end_ns) if topics else []
    for done, batch in enumerate(recording.batches(topics, start_ns, end_ns) if topics else (), 1):
        for number, channel in channels.items():
            for row in np.flatnonzero((batch.channel == number) & (batch.flags & CARRIED == 0)).tolist():
                _write(recording, channel, batch, row, folder, found)
        progress(min(done, len(chunks)), len(chunks))


def _write(recording: Recording, channel: Channel, batch: Batch, row: int, folder: Path, found: Images) -> None:
    try:
        suffix, data = _image(recording, channel, bytes(batch.payload(row)))
    except (ValueMismatch, RecordingError) as error:
        found.left_out.setdefault(channel.topic, str(error))
        found.left_out_count += 1
        return
    times = (int(batch.publish_time[row]), int(batch.log_time[row]))
    at = next((time for time in times if time != UNSET_NS), 0)
    target = folder / quote(channel.topic, safe="")
    target.mkdir(exist_ok=True)
    _free(target, str(at), suffix).write_bytes(data)
    found.images[channel.topic] += 1


def _free(folder: Path, name: str, suffix: str) -> Path:
    """Several images may have one time."""
    path, number = folder / f"{name}{suffix}", 1
    while path.exists():
        path, number = folder / f"{name}-{number}{suffix}", number + 1
    return path


def _image(recording: Recording, channel: Channel, payload: bytes) -> tuple[str, bytes]:
    """How the name of its file ends, and what is in it. Raises ValueMismatch, RecordingError."""
    type = recording.message_type(channel)
    if type is None or type.decode is None:
        raise RecordingError(recording.type_problem(channel) or f"{channel.topic} has no type that can be decoded")
    value: Any = type.decode(payload)
    if dds_name(recording.type_name(channel)) in COMPRESSED:
        data = _bytes(value.data)
        return _suffix(data, str(value.format)), data
    return ".png", png(pixels_of(value))


def _bytes(data: Any) -> bytes:
    """Octets, however the type has them: bytes, an array, a list of numbers."""
    return data if isinstance(data, bytes) else np.asarray(data, np.uint8).tobytes()


def _suffix(data: bytes, form: str) -> str:
    """Returns the ending of an image's file, by the bytes that it begins with. Raises RecordingError."""
    for signature, suffix in _SIGNATURES:
        if data.startswith(signature) and (suffix != ".webp" or data[8:12] == b"WEBP"):
            return suffix
    raise RecordingError(f"an image of the format {form!r} does not begin as JPEG, PNG, WebP, BMP or TIFF do")


def pixels_of(value: Any) -> Any:
    """A raw image as an array: rows, columns, channels in the order of PNG. Raises RecordingError."""
    if value.encoding not in ENCODINGS:
        raise RecordingError(f"images encoded as {value.encoding!r} cannot be written; {', '.join(ENCODINGS)} can")
    channels, kind, order = ENCODINGS[value.encoding]
    data, width, height, step = _bytes(value.data), int(value.width), int(value.height), int(value.step)
    size = np.dtype(kind).itemsize * channels
    if not width or not height or step < width * size or len(data) < step * (height - 1) + width * size:
        raise RecordingError(f"an image of {width} × {height} pixels, {step} bytes a row, has {len(data)} bytes")
    rows = np.lib.stride_tricks.as_strided(np.frombuffer(data, np.uint8), (height, width * size), (step, 1))
    byte_order = ">" if getattr(value, "is_bigendian", 0) else "<"
    pixels = np.ascontiguousarray(rows).view(f"{byte_order}{kind}").reshape(height, width, channels)
    return pixels[:, :, [2, 1, 0, 3][:channels]] if order else pixels


def png(pixels: Any) -> bytes:
    """An array of rows, columns and channels (1, 3 or 4; 8 or 16 bits) as a PNG file (ISO/IEC 15948)."""
    height, width, channels = pixels.shape
    bits = 8 * pixels.dtype.itemsize
    rows = np.ascontiguousarray(pixels, f">u{pixels.dtype.itemsize}").view(np.uint8).reshape(height, -1)
    filtered = np.zeros((height, rows.shape[1] + 1), np.uint8)  # before each row: no filter
    filtered[:, 1:] = rows
    head = width.to_bytes(4, "big") + height.to_bytes(4, "big") + bytes((bits, _COLOURS[channels], 0, 0, 0))
    parts = ((b"IHDR", head), (b"IDAT", zlib.compress(filtered.tobytes(), _LEVEL)), (b"IEND", b""))
    return b"".join([_PNG, *(_part(name, data) for name, data in parts)])


def _part(name: bytes, data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + name + data + zlib.crc32(name + data).to_bytes(4, "big")
