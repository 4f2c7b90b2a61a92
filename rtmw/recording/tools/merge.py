"""Several recordings as one, in the order of their times."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rtmw.recording.batch import COLUMNS
from rtmw.recording.ordered import CarriedOver, MessageFilter, Stretch, in_order
from rtmw.recording.recording import Recording
from rtmw.recording.tools.copying import Copier, Progress, Written, no_progress, writer_like
from rtmw.recording.tools.cut import ALL, Section
from rtmw.recording.tools.whole import written_whole
from rtmw.recording.writer import RecordingWriter

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(slots=True)
class _Joined:
    """Rows of several chunks in one memory; the channels under their new numbers."""

    data: bytes | memoryview
    channel: NDArray[Any]
    sequence: NDArray[Any]
    log_time: NDArray[Any]
    publish_time: NDArray[Any]
    position: NDArray[Any]
    size: NDArray[Any]
    priority: NDArray[Any]
    publisher: NDArray[Any]
    expires: NDArray[Any]
    flags: NDArray[Any]

    def where(self, mask: NDArray[np.bool_]) -> _Joined:
        columns = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "data"}
        return _Joined(self.data, **{name: column[mask] for name, column in columns.items()})


def merge(
    sources: Sequence[Path],
    target: Path,
    progress: Progress = no_progress,
    section: Section = ALL,
    compression: str | None = None,
) -> Written:
    """Writes messages and attachments of several recordings as one. What was carried over comes once.

    `section`: topics that one of them has, and seconds since the first of them began; unlike `cut`, nothing is carried
    over from before. `compression`: lz4, zstd or none; None: as the first one is.
    Raises FileExistsError, RecordingError for topics that are not there and where nothing was to be written because the
    section is beside the time of all of them, RecordingDamaged, OSError.
    """
    with ExitStack() as opened:
        recordings = [opened.enter_context(Recording(path)) for path in sources]
        temporary = opened.enter_context(written_whole(target))
        with writer_like(temporary, recordings, compression) as writer:
            written = _merge(recordings, writer, progress, section)
        if written.is_empty:
            section.refuse_beside(*recordings)
        return written


def _merge(recordings: Sequence[Recording], writer: RecordingWriter, progress: Progress, section: Section) -> Written:
    copier = Copier(writer)
    names, (start_ns, end_ns) = section.names(*recordings), section.span(*recordings)
    numbers = [
        copier.define(one.schemas, {n: c for n, c in one.channels.items() if names is None or c.topic in names})
        for one in recordings
    ]
    topics = sorted({channel.topic for recording in recordings for channel in recording.channels.values()})
    table = _table(numbers)
    topic_of = np.zeros(1 << 16, np.int64)
    for recording, mapping in zip(recordings, numbers, strict=True):
        for number in mapping:
            topic_of[mapping[number]] = topics.index(recording.channels[number].topic)
    carried = CarriedOver(len(topics))
    identity = {number: number for mapping in numbers for number in mapping.values()}
    done, count = 0, sum(recording.message_count for recording in recordings)
    for stretch in in_order(recordings, MessageFilter([frozenset(mapping) for mapping in numbers], start_ns, end_ns)):
        joined = _join(stretch, table)
        again = carried.again(topic_of[joined.channel], joined.publish_time, joined.flags)
        rows: Any = joined.where(~again) if again.any() else joined
        writer.write_batch(rows, identity)
        _miss(stretch, numbers, writer)
        done += len(stretch)
        copier.messages += len(stretch) - int(again.sum())
        progress(done, count)
    for recording, mapping in zip(recordings, numbers, strict=True):
        for chunk in recording.chunks:
            if not chunk.message_count and recording.header.is_ours:
                copier.add(recording.read(chunk), mapping)  # it may say what was missed
        copier.add_attachments(recording, start_ns, end_ns)
        copier.add_metadata(recording)
    writer.metadata("rtmw.merged", {"from": ", ".join(recording.path.name for recording in recordings)})
    return copier.written()


def _miss(stretch: Stretch, numbers: Sequence[dict[int, int]], writer: RecordingWriter) -> None:
    for part in stretch.parts:
        if part.is_first:
            for missed in part.batch.missed:
                if missed.channel in numbers[part.recording]:
                    writer.missed(numbers[part.recording][missed.channel], missed.cause, missed.count)


def _table(numbers: Sequence[dict[int, int]]) -> NDArray[np.uint16]:
    """Returns a table of the new number of each channel of each recording."""
    table = np.zeros((len(numbers), 1 << 16), np.uint16)
    for at, mapping in enumerate(numbers):
        for number, new in mapping.items():
            table[at, number] = new
    return table


def _join(stretch: Stretch, table: NDArray[np.uint16]) -> _Joined:
    parts = stretch.parts
    begins = np.cumsum([0, *(len(part.batch.data) for part in parts)])
    data = parts[0].batch.data if len(parts) == 1 else b"".join(part.batch.data for part in parts)
    columns = {name: stretch.column(name) for name in COLUMNS if name not in ("channel", "position")}
    return _Joined(
        data,
        channel=stretch.each(lambda part: table[part.recording, part.batch.channel]),
        position=stretch.column("position") + begins[stretch.part()],
        **columns,
    )
