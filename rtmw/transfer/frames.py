"""Frames between programs and their core on the bus (T5, T6), as bytes; docs/formats/transfer-queues.md has each field.

A frame is one message of the bus: a head that names the program, and one of the messages below. Programs send to the
topic CORE_QUEUE; each process has one queue of its own for all its senders and inboxes (`queue_of`). A body that is
larger than a block comes as a chain: a `Send` with its first block, and a `More` for each further one.

`Barrier` stands where frames come in from the bus, at a core and at programs: it counts and passes over what no process
may send there, so that one message of any program ends nothing for others.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import lru_cache, partial
from operator import attrgetter
from struct import Struct
from typing import Any, Final, NamedTuple

from rtmw.transfer.address import Life, life_of
from rtmw.transfer.errors import TransfersDamaged
from rtmw.transfer.fields import LONGEST_TEXT, Fields, packed_text, packed_words
from rtmw.transfer.header import header_of, pack_sized_header, unpack_sized_header
from rtmw.transfer.messages import (
    Abort,
    Accepted,
    Advanced,
    Alter,
    Ask,
    Begin,
    Commit,
    Core,
    Done,
    Failed,
    GiveUp,
    Got,
    Handed,
    HandedRun,
    Join,
    Leave,
    Message,
    More,
    Move,
    Moves,
    Release,
    RollBack,
    Run,
    Savepoint,
    Send,
    Sends,
    Settle,
    Settled,
    Show,
    Shown,
    Take,
    Undone,
    Untake,
)
from rtmw.transfer.records import Spooled, TransferId, TransferState

__all__ = [
    "BLOCK",
    "CORE_QUEUE",
    "CORE_TOPIC",
    "EVENTS_TOPIC",
    "LARGEST_BYTES",
    "WINDOW",
    "Barrier",
    "Frame",
    "pack_frame",
    "queue_of",
    "unpack_frame",
]


log = logging.getLogger("rtmw.transfer")


class Barrier:
    """Guards one topic. `fault`: why a frame of the process with this pid may not come in; empty: it may."""

    def __init__(self, topic: str, fault: Callable[[Frame, int], str]) -> None:
        self._topic, self._fault = topic, fault
        self.refused = 0
        """Messages that were passed over. The first one is logged."""

    def frame_of(self, data: bytes | memoryview, pid: int) -> Frame | None:
        """The frame in a message of this process; None: the message is passed over."""
        try:
            frame = unpack_frame(data)
            fault = self._fault(frame, pid)
        except TransfersDamaged as error:
            frame, fault = None, str(error)
        if not fault:
            return frame
        self.refused += 1
        if self.refused == 1:
            log.warning(
                "a message of process %d on %s is passed over: %s; more are counted only", pid, self._topic, fault
            )
        return None


VERSION: Final = 1
CORE_TOPIC: Final = "rtmw/transfer/core"
"""Where a core says that it is there; kept for late subscribers."""
EVENTS_TOPIC: Final = "rtmw/transfer/events"
"""Where a core says what has gone wrong: a JSON object an event."""
CORE_QUEUE: Final = "rtmw/transfer/out"
"""The paper's QOUT: from programs to the core."""
BLOCK: Final = 256 << 10
"""Bytes of a body in one frame, at most."""
WINDOW: Final = 8
"""Blocks of a body that may be on their way without a `Got`."""
LARGEST_BYTES: Final = 64 << 10
"""A body up to this size is handed over as bytes, and a larger one as a file."""

_HEAD: Final = Struct("<BBHIQIIQ")
_SEND: Final = Struct("<QH")
"""Transaction, and size of the header."""
_MOVES: Final = Struct("<HH")
"""Number of moves, and size of the node of the first id."""
_MOVE: Final = Struct("<QQBHH")
"""The rest of the id, state, size of the cause, and number of other transfers."""
_SIZE: Final = Struct("<H")
_SETTLE: Final = Struct("<BH")
"""State, and size of the cause."""
_ONE: Final = Struct("<HHH")
"""Numbers of transfers and of ids, and size of the node of the id behind them."""
_ID: Final = Struct("<QQ")
_LEAST: Final = _HEAD.size + _SEND.size


def queue_of(slot: int) -> str:
    """The paper's QIN: the topic from the core to the process that has this slot of the domain."""
    return f"rtmw/transfer/in/{slot}"


class Frame(NamedTuple):
    """A message and its head."""

    life: Life
    """The sender or inbox of the program; of a `Core`, the core."""
    slot: int
    """Slot of the program's process in the domain: it says which queue is its own (`queue_of`)."""
    number: int
    """Number of the request; an answer has the number of what it answers. 0: nobody has asked."""
    message: Message


# ---- bytes ----

_KINDS: Final[dict[int, tuple[type[Message], str]]] = {
    1: (Join, "1ttN"),
    2: (Leave, ""),
    3: (Send, "8hod"),
    4: (More, "d"),
    5: (Begin, ""),
    6: (Savepoint, "8t"),
    7: (RollBack, "88"),
    8: (Release, "88"),
    9: (Commit, "8"),
    10: (Abort, "8"),
    11: (Take, "821"),
    12: (Untake, "8"),
    13: (Settle, "1tN"),
    14: (Alter, "i1"),
    15: (Ask, "i"),
    16: (Show, "t"),
    17: (Sends, "R"),
    19: (GiveUp, ""),
    64: (Done, "8"),
    65: (Accepted, "2I"),
    66: (Failed, "1w"),
    67: (Handed, "84ithb"),
    68: (Moves, "M"),
    69: (Undone, "81"),
    70: (Got, "8"),
    71: (Shown, "1d"),
    73: (HandedRun, "t8thL"),
    74: (Settled, "F"),
    76: (Advanced, "i88"),
    96: (Core, "8t"),
}
"""The layout of a message, field by field: a number of so many bytes, a (t)ext, (w)ords, which are a text that is cut
where it is too long, a (h)eader behind a u16 with its size, the id of a sender ((o)nce) likewise, an (i)d, a (b)ody,
(d)ata, u64 (N)umbers, (R)uns and (F)ailures up to the end, (L)etters behind a u16 with their number likewise; (I)ds and
(M)oves behind a u16 with their number."""
_NEVER_WAS: Final = 255


def pack_frame(frame: Frame) -> bytes:
    """Return a frame as bytes. Raises ValueError: a text is too long."""
    life, message = frame.life, frame.message
    kind, fields = _WRITTEN[type(message)]
    head = _HEAD.pack(VERSION, kind, frame.slot, life.pid, life.start, life.generation, 0, frame.number)
    return head + b"".join([pack(field(message)) for field, pack in fields])


def unpack_frame(data: bytes | memoryview) -> Frame:
    """Read a frame. Raises TransfersDamaged."""
    return _quick_frame(data) or _strict_frame(data)


def _quick_frame(data: bytes | memoryview) -> Frame | None:
    """A frame of a frequent kind, read at once; None: of another kind, or damaged, which the strict reader says."""
    if len(data) < _LEAST:
        return None
    version, kind, slot, pid, start, generation, zero, number = _HEAD.unpack_from(data)
    reader = _QUICK.get(kind)
    if reader is None or version != VERSION or zero or not pid:
        return None
    try:
        message = reader(data)
        return None if message is None else Frame(life_of(pid, start, generation), slot, number, message)
    except ValueError:
        return None


def _quick_send(data: bytes | memoryview) -> Send | None:
    txn, size = _SEND.unpack_from(data, _HEAD.size)
    begin = _HEAD.size + _SEND.size
    body = begin + size
    if body + 2 > len(data):
        return None
    once = body + 2 + int.from_bytes(data[body : body + 2], "little")
    known = bytes(data[body + 2 : once])
    return Send(txn, header_of(bytes(data[begin:body])), known, bytes(data[once:])) if once <= len(data) else None


def _quick_sends(data: bytes | memoryview) -> Sends | None:
    """Read a Sends of one run; None: it has several, or is damaged."""
    begin = _HEAD.size + _SIZE.size
    count = begin + _SIZE.unpack_from(data, _HEAD.size)[0]
    at = count + _SIZE.size
    if at > len(data):
        return None
    header, letters = header_of(bytes(data[begin:count])), _SIZE.unpack_from(data, count)[0]
    if not letters or len(data) - at != letters * header.length:
        return None
    return Sends((Run(header, _bodies(header.length, letters).unpack_from(data, at)),))


def _quick_settle(data: bytes | memoryview) -> Settle | None:
    """Read a Settle without a cause; None: it has one, or is damaged."""
    state, size = _SETTLE.unpack_from(data, _HEAD.size)
    begin = _HEAD.size + _SETTLE.size
    count, rest = divmod(len(data) - begin, 8)
    return None if size or rest else Settle(state, "", _numbers(count).unpack_from(data, begin))


def _quick_moves(data: bytes | memoryview) -> Moves | None:
    """Read a Moves of one transfer, without a cause; None: it has more, or is damaged."""
    count, size = _MOVES.unpack_from(data, _HEAD.size)
    begin = _HEAD.size + _MOVES.size
    if count != 1 or size > LONGEST_TEXT or len(data) != begin + size + _MOVE.size:
        return None
    incarnation, sequence, state, cause, others = _MOVE.unpack_from(data, begin + size)
    if cause or others or state == _NEVER_WAS:
        return None
    id = TransferId(str(data[begin : begin + size], "utf-8"), incarnation, sequence)
    return Moves((Move((id,), TransferState(state), ""),))


def _quick_accepted(data: bytes | memoryview) -> Accepted | None:
    """Read an Accepted of one id; None: it has another number of ids, or is damaged."""
    count, ids, size = _ONE.unpack_from(data, _HEAD.size)
    begin = _HEAD.size + _ONE.size
    if ids != 1 or size > LONGEST_TEXT or len(data) != begin + size + _ID.size:
        return None
    node = str(data[begin : begin + size], "utf-8")
    return Accepted(count, (TransferId(node, *_ID.unpack_from(data, begin + size)),))


def _strict_frame(data: bytes | memoryview) -> Frame:
    fields = Fields(data, 0, "frame")
    version, kind, slot, pid, start, generation, zero, number = fields.numbers(_HEAD)
    if version != VERSION:
        fields.wrong(f"version {version} of the format, where {VERSION} is known; programs and node need one rtmw")
    if kind not in _KINDS or zero or not pid:
        fields.wrong(f"a frame of kind {kind} of process {pid}, which cannot be")
    message, form = _KINDS[kind]
    try:
        frame = Frame(Life(pid, start, generation), slot, number, message(*[_UNPACK[code](fields) for code in form]))
    except ValueError as error:
        fields.wrong(str(error))
    fields.end()
    return frame


def _pack_number(size: int, number: int) -> bytes:
    return number.to_bytes(size, "little")


def _unpack_number(size: int, fields: Fields) -> int:
    return fields.number(size)


def _pack_id(id: TransferId) -> bytes:
    return packed_text(id.node, "the node") + id.incarnation.to_bytes(8, "little") + id.sequence.to_bytes(8, "little")


def _pack_body(body: bytes | Spooled) -> bytes:
    if isinstance(body, Spooled):
        return b"\1" + body.size.to_bytes(8, "little") + packed_text(body.name, "the path of a body")
    return b"\0" + body


def _pack_sized(data: bytes) -> bytes:
    return len(data).to_bytes(2, "little") + data


def _pack_moves(moves: tuple[Move, ...]) -> bytes:
    return len(moves).to_bytes(2, "little") + b"".join(map(_pack_move, moves))


def _pack_move(move: Move) -> bytes:
    state = _NEVER_WAS if move.state is None else move.state
    told = _pack_id(move.ids[0]) + bytes([state]) + packed_words(move.cause)
    if len(move.ids) == 1:
        return told + b"\0\0"
    others = [id.sequence for id in move.ids[1:]]
    return told + len(others).to_bytes(2, "little") + _numbers(len(others)).pack(*others)


def _unpack_numbers(fields: Fields) -> tuple[int, ...]:
    count, rest = divmod(fields.left(), 8)
    if rest:
        fields.wrong(f"{rest} bytes of a number")
    return fields.numbers(_numbers(count))


def _unpack_id(fields: Fields) -> TransferId:
    return TransferId(fields.short_text(), fields.number(8), fields.number(8))


def _pack_runs(runs: tuple[Run, ...]) -> bytes:
    parts: list[bytes] = []
    for header, bodies in runs:
        parts += (pack_sized_header(header), len(bodies).to_bytes(2, "little"), *bodies)
    return b"".join(parts)


def _unpack_runs(fields: Fields) -> tuple[Run, ...]:
    """Read runs up to the end: at least one, each with at least one body."""
    runs: list[Run] = []
    while fields.left() or not runs:
        header, count = unpack_sized_header(fields), fields.number(2)
        data = fields.bytes(count * header.length)
        if not count:
            fields.wrong("a run without letters")
        runs.append(Run(header, _bodies(header.length, count).unpack(data)))
    return tuple(runs)


@lru_cache(maxsize=256)
def _numbers(count: int) -> Struct:
    """The layout of `count` numbers in a row; remembered, because programs repeat themselves."""
    return Struct(f"<{count}Q")


@lru_cache(maxsize=256)
def _bodies(size: int, count: int) -> Struct:
    """The layout of `count` bodies of `size` bytes in a row; remembered, because senders repeat themselves."""
    return Struct(f"{size}s" * count)


def _pack_letters(letters: tuple[tuple[int, int, bytes], ...]) -> bytes:
    pack = Struct(f"<QQ{len(letters[0][2])}s").pack
    return len(letters).to_bytes(2, "little") + b"".join([pack(*letter) for letter in letters])


def _unpack_letters(fields: Fields) -> tuple[tuple[int, int, bytes], ...]:
    count = fields.number(2)
    size, rest = divmod(fields.left(), count or 1)
    if not count or rest or size <= _ID.size:
        fields.wrong(f"{count} letters in {fields.left()} bytes")
    return tuple(Struct(f"<QQ{size - _ID.size}s").iter_unpack(fields.bytes(fields.left())))


def _pack_failures(failed: tuple[tuple[int, Failed], ...]) -> bytes:
    parts = (index.to_bytes(2, "little") + bytes([one.how]) + packed_words(one.message) for index, one in failed)
    return b"".join(parts)


def _unpack_failures(fields: Fields) -> tuple[tuple[int, Failed], ...]:
    failed: list[tuple[int, Failed]] = []
    while fields.left():
        failed.append((fields.number(2), Failed(fields.number(1), fields.short_text())))
    return tuple(failed)


def _unpack_body(fields: Fields) -> bytes | Spooled:
    how = fields.number(1)
    if how > 1:
        fields.wrong(f"a body that lies in place {how}")
    if not how:
        return bytes(fields.bytes(fields.left()))
    size = fields.number(8)
    return Spooled(fields.short_text(), size)


def _unpack_move(fields: Fields) -> Move:
    first, state, cause = _unpack_id(fields), fields.number(1), fields.short_text()
    ids: tuple[TransferId, ...] = (first,)
    count = fields.number(2)
    if count:
        node, incarnation, _ = first
        ids += tuple([TransferId(node, incarnation, sequence) for sequence in fields.numbers(_numbers(count))])
    return Move(ids, None if state == _NEVER_WAS else TransferState(state), cause)


_PACK: Final[dict[str, Callable[[Any], bytes]]] = {
    **{str(size): partial(_pack_number, size) for size in (1, 2, 4, 8)},
    "t": lambda text: packed_text(text, "a text"),
    "w": packed_words,
    "h": pack_sized_header,
    "i": _pack_id,
    "b": _pack_body,
    "d": bytes,
    "o": _pack_sized,
    "I": lambda ids: len(ids).to_bytes(2, "little") + b"".join(map(_pack_id, ids)),
    "M": _pack_moves,
    "R": _pack_runs,
    "N": lambda numbers: _numbers(len(numbers)).pack(*numbers),
    "L": _pack_letters,
    "F": _pack_failures,
}
_WRITTEN: Final = {
    message: (kind, [(attrgetter(name), _PACK[code]) for name, code in zip(message.__slots__, form, strict=True)])
    for kind, (message, form) in _KINDS.items()
}
"""The kind of each message, and how to get and pack its fields."""
_UNPACK: Final[dict[str, Callable[[Fields], Any]]] = {
    **{str(size): partial(_unpack_number, size) for size in (1, 2, 4, 8)},
    "t": Fields.short_text,
    "w": Fields.short_text,
    "h": unpack_sized_header,
    "i": _unpack_id,
    "b": _unpack_body,
    "d": lambda fields: bytes(fields.bytes(fields.left())),
    "o": lambda fields: bytes(fields.bytes(fields.number(2))),
    "I": lambda fields: tuple(_unpack_id(fields) for _ in range(fields.number(2))),
    "N": _unpack_numbers,
    "L": _unpack_letters,
    "F": _unpack_failures,
    "R": _unpack_runs,
    "M": lambda fields: tuple(_unpack_move(fields) for _ in range(fields.number(2))),
}
_QUICK: Final[dict[int, Callable[[bytes | memoryview], Message | None]]] = {
    3: _quick_send,
    13: _quick_settle,
    17: _quick_sends,
    65: _quick_accepted,
    68: _quick_moves,
}
