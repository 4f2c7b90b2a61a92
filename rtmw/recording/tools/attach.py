"""Attachments and metadata by name: taken out of a recording, and put into it."""

from __future__ import annotations

import mimetypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from rtmw.clock import CLOCK
from rtmw.errors import RecordingError
from rtmw.recording.contents import Attachment
from rtmw.recording.recording import Recording
from rtmw.recording.tools.copying import Copier, Progress, Written, no_progress, writer_like
from rtmw.recording.tools.whole import written_whole
from rtmw.recording.versions import some


@dataclass(frozen=True, slots=True)
class Additions:
    """The attachments and metadata that are added to a recording."""

    files: Sequence[Path] = ()
    """Attachments, under the names of the files."""
    metadata: Mapping[str, Mapping[str, str]] = field(default_factory=dict[str, Mapping[str, str]])
    """Tables of texts, by name."""


def attachment_named(recording: Recording, name: str) -> Attachment:
    """The attachment of this name; of several the last one. Raises RecordingError."""
    found = [one for one in recording.attachments if one.name == name]
    if not found:
        names = sorted({one.name for one in recording.attachments})
        raise RecordingError(f"{recording.path} has no attachment {name!r}; there are {some(names)}")
    return found[-1]


def metadata_named(recording: Recording, name: str) -> list[dict[str, str]]:
    """All metadata of this name, in the order of the file. Raises RecordingError."""
    found = [values for known, values in recording.metadata if known == name]
    if not found:
        names = sorted({known for known, _ in recording.metadata})
        raise RecordingError(f"{recording.path} has no metadata {name!r}; there are {some(names)}")
    return found


def file_name(attachment: Attachment) -> str:
    """The name of an attachment as that of a file, without what leads to another folder. Raises RecordingError."""
    name = PurePosixPath(attachment.name.replace("\\", "/")).name
    if not name or name == ".." or "\0" in name:
        raise RecordingError(f"the attachment {attachment.name!r} has no name that a file can have: say which")
    return name


def extract_to(source: Path, name: str, target: Path | None) -> tuple[Path, int]:
    """Writes an attachment as a file; which, and how many bytes. `target` None: under its own name, here.

    Raises FileExistsError, RecordingError, RecordingDamaged for one that does not match its CRC, OSError.
    """
    with Recording(source) as recording:
        about = attachment_named(recording, name)
        path = Path(file_name(about)) if target is None else target
        data = recording.attachment(about)
    with written_whole(path) as temporary:
        temporary.write_bytes(data)
    return path, len(data)


def attach_to(source: Path, target: Path | None, additions: Additions, progress: Progress = no_progress) -> Written:
    """Writes a recording anew, with more attachments and metadata. `target` None: in the place of the old one.

    Raises FileExistsError, RecordingError for one that is not complete, RecordingDamaged, OSError.
    """
    replaces = target is None
    with Recording(source) as recording, written_whole(target or source, replace=replaces) as temporary:
        if not recording.complete:
            raise RecordingError(f"{source} is not complete: {recording.incomplete_because}; recover it first")
        with writer_like(temporary, [recording]) as writer:
            copier = Copier(writer)
            numbers = copier.define(recording.schemas, recording.channels)
            for done, chunk in enumerate(recording.chunks, 1):
                copier.add(recording.read(chunk), numbers)
                progress(done, len(recording.chunks))
            copier.add_attachments(recording)
            copier.add_metadata(recording)
            for file in additions.files:
                copier.add_attachment(*_attachment(file))
            for name, values in additions.metadata.items():
                writer.metadata(name, values)
    return copier.written()


def _attachment(file: Path) -> tuple[Attachment, bytes]:
    """A file as it is attached: logged now, created when it was last written."""
    data, created = file.read_bytes(), file.stat().st_mtime_ns
    media_type = mimetypes.guess_type(file.name)[0] or "application/octet-stream"
    return Attachment(file.name, media_type, CLOCK.wall_ns(), created, len(data), 0), data
