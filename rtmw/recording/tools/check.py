"""Is a recording whole? Everything in it is read and compared with everything that is said about it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from rtmw.checksum import crc32
from rtmw.columns import described_decoder
from rtmw.columns.rows import Rows
from rtmw.errors import RecordingError, UnsupportedType, ValueMismatch
from rtmw.recording import records
from rtmw.recording.batch import CARRIED
from rtmw.recording.contents import UNSET_NS
from rtmw.recording.index import is_finished
from rtmw.recording.ranges import ranges_of
from rtmw.recording.recording import Recording
from rtmw.recording.records import DATA_END, FOOTER, HEAD, MAGIC, Fields, Opcode, damaged
from rtmw.recording.schemas import described_payloads
from rtmw.recording.tools.copying import Progress, no_progress
from rtmw.recording.tools.recover import Found, Gap, Salvage

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rtmw.columns import Decoder
    from rtmw.recording.batch import Batch
    from rtmw.recording.contents import Chunk

_BEFORE_PAYLOAD: Final = HEAD + 22
"""Bytes of a message record before its payload."""
_ENTRY: Final = np.dtype([("time", "<i8"), ("position", "<i8")])
_WINDOW: Final = 1 << 20
_BANDS: Final = 8


@dataclass(slots=True)
class Checked:
    """The findings of a check."""

    path: Path
    chunks: int = 0
    messages: int = 0
    """Messages in chunks that are whole."""
    problems: list[str] = field(default_factory=list[str])
    """The problems, each in one sentence; none: what is there of the recording is whole."""
    ending: str = ""
    """Why the recording has no end, in one sentence; "": it has one, or is damaged."""
    gaps: Counter[str] = field(default_factory=Counter[str])
    """Messages of each topic that were published and are not in the recording, by their sequences."""
    missed: Counter[str] = field(default_factory=Counter[str])
    """How many of `gaps` the recorder itself says that it missed, by topic."""

    undecodable: Counter[str] = field(default_factory=Counter[str])
    """JSON and protobuf payloads of each topic that are no messages of its type."""

    @property
    def is_whole(self) -> bool:
        return not self.problems and not self.ending


def check(path: Path, progress: Progress = no_progress) -> Checked:
    """Reads all of a recording. Raises OSError; damage is in what it gives."""
    checked = Checked(path)
    try:
        with Recording(path) as recording:
            _check(recording, checked, progress)
    except FileNotFoundError:
        checked.problems.append(f"{path} is a link to a file that is not there")
    except RecordingError as error:
        checked.problems.append(str(error))
    return checked


def _check(recording: Recording, checked: Checked, progress: Progress) -> None:
    if not recording.complete:
        why = f"{recording.path} is not complete: {recording.incomplete_because}"
        if recording.lacks_end and not _goes_on(recording):
            checked.ending = f"{why}. Its recorder was killed or still writes, or the file was cut"
        else:
            checked.problems.append(why)
    sequences, payloads = _Sequences(recording), _Payloads(recording)
    for done, chunk in enumerate(recording.chunks, 1):
        try:
            stored = recording.read_stored(chunk)
            _check_indexes(recording, chunk, stored)
            batch = recording.as_published(stored)
            _check_ranges(recording, chunk, batch)
        except RecordingError as error:
            checked.problems.append(str(error))
            sequences.forget()
        else:
            checked.chunks += 1
            checked.messages += len(batch)
            sequences.see(batch, checked)
            payloads.see(batch, checked)
        progress(done, len(recording.chunks))
    checked.problems += payloads.problems(checked)
    for look in (_check_data_crc, _check_extras):
        try:
            look(recording)
        except RecordingError as error:
            checked.problems.append(str(error))


def _goes_on(recording: Recording) -> bool:
    """Does a whole chunk lie behind what was read? Then there is damage before it, and not only an end that lacks."""
    behind = max((chunk.position for chunk in recording.chunks), default=recording.header.end)
    parts = [type(part) for part in Salvage(recording._file, behind)]
    return Gap in parts and Found in parts[parts.index(Gap) :]


def _check_indexes(recording: Recording, chunk: Chunk, batch: Batch) -> None:
    """The message indexes behind a chunk lead to its messages. There need not be any."""
    begin = chunk.position + chunk.length
    if chunk.is_run or chunk.side_position <= begin:
        return
    fields = Fields(recording.path, recording._file.read(begin, chunk.side_position - begin), begin, "message index")
    found: dict[int, NDArray[np.void]] = {}
    while fields.left():
        if fields.number(1) != Opcode.MESSAGE_INDEX:
            fields.wrong("here should be a message index")
        record = fields.part("message index", 8)
        channel = record.number(2)
        found[channel] = np.frombuffer(record.bytes(record.number(4)), _ENTRY)
        if recording.header.is_ours and record.left():
            record.wrong(f"{record.left()} bytes too many")
    for channel in chunk.counts if found else ():
        rows = batch.channel == channel
        entries = found.get(channel, np.zeros(0, _ENTRY))
        entries = entries[np.argsort(entries["position"], kind="stable")]
        positions = batch.position[rows] - _BEFORE_PAYLOAD
        times = np.where(entries["time"] < 0, UNSET_NS, entries["time"])
        same = np.array_equal(entries["position"], positions) and np.array_equal(times, batch.log_time[rows])
        if not same:
            raise damaged(recording.path, begin, f"the message index of channel {channel} does not fit its messages")


def _check_ranges(recording: Recording, chunk: Chunk, batch: Batch) -> None:
    """The ranges by which queries skip chunks are those of the messages. Raises RecordingDamaged."""
    for number, claimed in recording.ranges(chunk).items():
        kind = recording.message_type(number) if number in recording.channels else None
        of_channel = batch.channel == number
        found = ranges_of(kind.description, batch.where(of_channel)) if kind is not None and of_channel.any() else ()
        if not set(claimed) <= set(found):
            raise damaged(recording.path, chunk.side_position, f"the ranges of channel {number} are not its messages'")


def _check_data_crc(recording: Recording) -> None:
    file = recording._file
    if not is_finished(file):
        return
    footer = file.size - len(MAGIC) - FOOTER
    summary, _ = records.read_footer(file.read(footer + HEAD, FOOTER - HEAD))
    end = (summary or footer) - DATA_END
    record = file.read(end, DATA_END)
    if records.read_head(record) != (Opcode.DATA_END, DATA_END - HEAD):
        raise damaged(file.path, end, "here should be the end of the data")
    wanted, crc = records.read_data_end(record[HEAD:]), 0
    for at in range(0, end, _WINDOW) if wanted else ():
        crc = crc32(file.read(at, min(_WINDOW, end - at)), crc)
    if crc != wanted:
        raise damaged(file.path, 0, "the data section does not match its CRC")


def _check_extras(recording: Recording) -> None:
    _ = recording.metadata
    for attachment in recording.attachments:
        recording.attachment(attachment)


class _Payloads:
    """JSON and protobuf payloads are what their schemas say, where the libraries are installed that decode them."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._decoders: dict[int, Decoder] = {}
        self._why: dict[str, str] = {}
        """What is wrong with the first payload that cannot be decoded, or why none can be, by topic."""
        for channel in recording.channels.values():
            try:
                description = described_payloads(recording.schemas.get(channel.schema_id), channel)
                if description is not None:
                    self._decoders[channel.id] = described_decoder(description)
            except UnsupportedType as error:
                self._why[channel.topic] = str(error)
            except ImportError:
                continue

    def see(self, batch: Batch, checked: Checked) -> None:
        for number in batch.chunk.counts.keys() & self._decoders.keys():
            found = batch.where(batch.channel == number)
            rows, topic = Rows(found.data, found.position, found.size), self._recording.channels[number].topic
            for _, mask in self._decoders[number].decode(rows, True):
                checked.undecodable[topic] += int(np.count_nonzero(mask)) if mask is not None else 0
            if checked.undecodable[topic] and topic not in self._why:
                self._why[topic] = f"chunk at byte {batch.chunk.position}: {self._first(number, rows)}"

    def _first(self, number: int, rows: Rows) -> str:
        try:
            _ = [*self._decoders[number].decode(rows, False)]
        except ValueMismatch as error:
            return str(error)
        return "it can be decoded now"

    def problems(self, checked: Checked) -> list[str]:
        checked.undecodable = +checked.undecodable
        return [
            f"{topic}: {checked.undecodable[topic]} payloads cannot be decoded; {why}"
            if topic in checked.undecodable
            else f"{topic}: {why}"
            for topic, why in sorted(self._why.items())
        ]


class _Sequences:
    """Dense within a topic and priority; what is missing between two messages was not recorded."""

    def __init__(self, recording: Recording) -> None:
        self._is_known = recording.header.is_ours
        self._topics = sorted(recording.topics())
        self._topic_of = {number: self._topics.index(c.topic) for number, c in recording.channels.items()}
        self._last = np.zeros(len(self._topics) * _BANDS, np.int64)

    def forget(self) -> None:
        """A chunk could not be read: what comes next follows nothing that is known."""
        self._last[:] = 0

    def see(self, batch: Batch, checked: Checked) -> None:
        for missed in batch.missed:
            checked.missed[self._topics[self._topic_of[missed.channel]]] += missed.count
        fresh = batch.where((batch.flags & CARRIED) == 0)
        if not self._is_known or not len(fresh):
            return
        topic = np.zeros(1 << 16, np.int64)
        topic[list(self._topic_of)] = list(self._topic_of.values())
        keys = topic[fresh.channel] * _BANDS + np.minimum(fresh.priority, _BANDS - 1)
        order = np.argsort(keys, kind="stable")
        keys, sequences = keys[order], fresh.sequence[order].astype(np.int64)
        before = np.empty_like(sequences)
        before[1:] = sequences[:-1]
        first = np.ones(len(keys), bool)
        first[1:] = keys[1:] != keys[:-1]
        before[first] = self._last[keys[first]]
        lost = np.where((before > 0) & (sequences > before), sequences - before - 1, 0)
        self._last[keys] = sequences  # of several rows the last one stays
        for row in np.flatnonzero(lost):
            checked.gaps[self._topics[int(keys[row]) // _BANDS]] += int(lost[row])
