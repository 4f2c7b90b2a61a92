"""The journal, for a restart that goes on with transfers between nodes: how far they are, and their sources.

A log of its own, whose loss costs bytes that are sent again, and never a transfer: that one is there, and that it has
come, says the log of the core. docs/formats/transfer-format.md has its records.

A full disk refuses what begins (BEGIN) and what somebody waits for (MARK, PLACE) with LogFull. All else holds from the
call on, and is written when there is room: a crash before that costs bytes that are sent again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import rtmw
from rtmw.closing import Closing
from rtmw.errors import LogFull
from rtmw.transfer.carry.content import file_name
from rtmw.transfer.fields import Fields, packed_text
from rtmw.transfer.files import Fingerprint
from rtmw.transfer.records import TransferId
from rtmw.transfer.wire.frames import HASH, START, Mark, Offer, pack, unpack

__all__ = ["Coming", "Going", "Journal"]

VERSION: Final = 1
SEGMENT: Final = "16M"
REWRITE_BYTES: Final = 8 << 20
"""Bytes of records, after which what has ended is left out."""
_FRESH, _BEGIN, _PLACE, _END, _SOURCE, _DONE, _MARK, _SENT, _LEFT = range(9)
_FINGERPRINT: Final = 40


@dataclass(frozen=True, slots=True)
class Coming:
    """A transfer of which a part is here."""

    offer: Offer
    folder: str
    """The folder of the inbox; empty: none is needed."""
    mark: Mark = START
    is_placed: bool = False
    """All of it is whole and durable, and its files may be visible."""
    left_ns: int = 0
    """Since when its node does not send it, by the wall clock; 0: it does."""


@dataclass(slots=True)
class Going:
    """A transfer that is sent."""

    accepted: tuple[Fingerprint, ...]
    mark: Mark = field(default=START)


class Journal(Closing):
    """Opened by one process at a time. Raises LogLocked, LogDamaged, LogFailed, TransfersDamaged; LogFull: see the head
    of this file, and where there is no journal yet."""

    def __init__(self, path: Path) -> None:
        self._is_behind = False
        """Some of what holds is not in the log."""
        self.coming: dict[TransferId, Coming] = {}
        self.going: dict[TransferId, Going] = {}
        self._log: rtmw.Log[bytes] = rtmw.Log(path, sync=False, segment=SEGMENT, dedupe=1)
        try:
            self._log.trim(0)  # takes the lock, and cuts what a killed writer has left
            for record in self._log.read():
                self._apply(record.data, record.position)
            self._begun = self._log.end
            self._catch_up()
        except BaseException:
            self._log.close()
            raise

    def arriving_names(self) -> set[str]:
        """Return the names for files of what is arriving (`file_name`)."""
        return {file_name(id) for id in self.coming}

    def begin(self, offer: Offer, folder: str) -> None:
        """Note that a transfer has begun to arrive. Raises LogFull."""
        self._put(_BEGIN, offer.id, packed_text(folder, "the folder") + pack(offer))

    def mark(self, id: TransferId, mark: Mark) -> rtmw.Appended:
        """Note up to which mark a transfer has come. Raises LogFull."""
        return self._put(_MARK, id, _pack_mark(mark))

    def place(self, id: TransferId) -> rtmw.Appended:
        """Note that a transfer is whole and durable. Raises LogFull."""
        return self._put(_PLACE, id, b"")

    def end(self, id: TransferId) -> None:
        if id in self.coming:
            self._put_or_defer(_END, id, b"")

    def left(self, id: TransferId, wall_ns: int) -> None:
        """Note since when its node does not send a transfer; 0: it does again."""
        if id in self.coming:
            self._put_or_defer(_LEFT, id, wall_ns.to_bytes(8, "little"))

    def source(self, id: TransferId, accepted: tuple[Fingerprint, ...]) -> None:
        self._put_or_defer(_SOURCE, id, b"".join(one.pack() for one in accepted))

    def sent(self, id: TransferId, mark: Mark) -> None:
        if id in self.going:
            self._put_or_defer(_SENT, id, _pack_mark(mark))

    def done(self, id: TransferId) -> None:
        if id in self.going:
            self._put_or_defer(_DONE, id, b"")

    def keep_going(self, is_wanted: Callable[[TransferId], bool]) -> None:
        """Forget the marks of all other transfers: a core that died has not said that they were done."""
        for id in [id for id in self.going if not is_wanted(id)]:
            self.done(id)

    def _put(self, kind: int, id: TransferId, content: bytes) -> rtmw.Appended:
        """Log a record, and apply it. Raises LogFull; then nothing has happened."""
        if self._is_behind:
            self._fresh()
        data = _packed(kind, id, content)
        (position,), end = self._log._places([data], ends=kind != _BEGIN)
        self._apply(data, position)
        if position - self._begun > REWRITE_BYTES:
            self._catch_up()
        return rtmw.Appended(self._log, position, end)

    def _put_or_defer(self, kind: int, id: TransferId, content: bytes) -> None:
        """Apply a record, and log it. If the disk is full, it is written later."""
        try:
            self._put(kind, id, content)
        except LogFull:
            self._apply(_packed(kind, id, content), self._begun)
            self._is_behind = True

    def _catch_up(self) -> None:
        """Write the journal anew; on a full disk, that is done with the next record."""
        try:
            self._fresh()
        except LogFull:
            self._is_behind = True

    def _apply(self, data: bytes, position: int) -> None:
        fields = Fields(data, position, "record of the journal")
        version, kind = fields.number(1), fields.number(1)
        if version != VERSION or fields.number(2) or kind > _LEFT:
            fields.wrong(f"version {version}, kind {kind}")
        incarnation, sequence = fields.number(8), fields.number(8)
        id = TransferId(fields.short_text(), incarnation, sequence)
        if kind == _FRESH:
            self.coming.clear()
            self.going.clear()
        elif kind == _BEGIN:
            folder = fields.short_text()
            offer = unpack(bytes(fields.bytes(fields.left())), position, of_sender=True)
            if not isinstance(offer, Offer):
                fields.wrong("a BEGIN without an offer")
            self.coming[id] = Coming(offer, folder)
        elif kind in (_MARK, _PLACE) and id in self.coming:
            one = self.coming[id]
            self.coming[id] = replace(one, mark=_mark(fields)) if kind == _MARK else replace(one, is_placed=True)
        elif kind == _LEFT and id in self.coming:
            self.coming[id] = replace(self.coming[id], left_ns=fields.number(8))
        elif kind == _END:
            self.coming.pop(id, None)
        elif kind == _SOURCE:
            number = fields.left() // _FINGERPRINT
            self.going[id] = Going(tuple(Fingerprint.unpack(bytes(fields.bytes(_FINGERPRINT))) for _ in range(number)))
        elif kind == _SENT and id in self.going:
            self.going[id].mark = _mark(fields)
        elif kind == _DONE:
            self.going.pop(id, None)

    def _fresh(self) -> None:
        """Write all anew that has not ended, and trim what was before. Raises LogFull."""
        records = [_packed(_FRESH, TransferId("", 0, 0), b"")]
        for id, coming in self.coming.items():
            records.append(_packed(_BEGIN, id, packed_text(coming.folder, "the folder") + pack(coming.offer)))
            records.append(_packed(_MARK, id, _pack_mark(coming.mark)))
            records += [_packed(_PLACE, id, b"")] if coming.is_placed else []
            records += [_packed(_LEFT, id, coming.left_ns.to_bytes(8, "little"))] if coming.left_ns else []
        for id, going in self.going.items():
            records.append(_packed(_SOURCE, id, b"".join(one.pack() for one in going.accepted)))
            records.append(_packed(_SENT, id, _pack_mark(going.mark)))
        positions, end = self._log._places(records, ends=True)
        rtmw.Appended(self._log, positions[-1], end).resolve()
        self._begun = positions[-1]  # not of the first: else much that does not end is written anew each time
        self._is_behind = False
        self._log.trim(positions[0])

    def close(self) -> None:
        if self._is_behind:
            self._catch_up()
        self._log.close()


def _packed(kind: int, id: TransferId, content: bytes) -> bytes:
    numbers = id.incarnation.to_bytes(8, "little") + id.sequence.to_bytes(8, "little")
    return bytes([VERSION, kind, 0, 0]) + numbers + packed_text(id.node, "the node") + content


def _pack_mark(mark: Mark) -> bytes:
    return mark.position.to_bytes(8, "little") + mark.value + mark.before


def _mark(fields: Fields) -> Mark:
    return Mark(fields.number(8), bytes(fields.bytes(HASH)), bytes(fields.bytes(HASH)))
