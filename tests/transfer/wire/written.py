"""One frame of each kind, as golden/frames.txt has them; `python -m tests.transfer.wire.written` writes that file."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from rtmw.transfer.address import Address
from rtmw.transfer.header import Delivery, Header, Kind
from rtmw.transfer.records import TransferId, TransferState
from rtmw.transfer.wire import frames as f
from rtmw.transfer.wire.frames import value_of

GOLDEN: Final = Path(__file__).parents[1] / "golden" / "frames.txt"
ID: Final = TransferId("plant", 0x18C0FFEE, (3 << 32) + 7)
HASH: Final = bytes(range(16))

_TO: Final = Address.parse("ingest@centre")
_BUF: Final = Header(_TO, Kind.BUF, 7, delivery=Delivery.LOG, priority=5, lifetime_ns=60_000_000_000)
_ALL: Final = Header(_TO, Kind.COMPOSITE, 44, delivery=Delivery.LOG)
_PARTS: Final = (f.Part(Kind.BUF, 4), f.Part(Kind.FILE, 20_000_000, "in/größer.mcap"), f.Part(Kind.FILE, 0, "empty"))
_LETTERS: Final = {ID: b"first", ID._replace(sequence=ID.sequence + 3): b"other"}

WRITTEN: Final[tuple[f.Frame, ...]] = (
    f.Offer(1, ID, 59_000_000_000, "reader", _BUF, (f.Part(Kind.BUF, 7),)),
    f.Offer(2, ID, 0, "reader", _ALL, _PARTS),
    f.Ask(ID),
    f.Piece(2, 262_144, b"bytes"),
    f.Whole(2, HASH),
    f.Cancel(ID),
    f.Settled(tuple(_LETTERS), TransferState.CONSUMED),
    f.Restart(2),
    f.Raw("reader", Header(_TO, Kind.BUF, 3, delivery=Delivery.SMALL_RAW), b"raw"),
    f.LetterRun(3, value_of(_LETTERS), "reader", Header(_TO, Kind.BUF, 5, delivery=Delivery.LOG), _LETTERS),
    f.Go(2, 8_388_608, 25_165_824, HASH),
    f.Ack(2, 10_000_000, 8_388_608, 25_165_824),
    f.Report(tuple(_LETTERS), TransferState.REFUSED, "nobody wants it"),
    f.Later(2, 1000, "the disk is full"),
    f.Ready(),
    f.Seen(((ID.incarnation, ID.sequence), (ID.incarnation + 1, 9))),
)


def is_of_sender(frame: f.Frame) -> bool:
    return not isinstance(frame, f.Go | f.Ack | f.Report | f.Later | f.Ready | f.Seen)


if __name__ == "__main__":
    GOLDEN.write_text("".join(f"{type(frame).__name__} {f.pack(frame).hex()}\n" for frame in WRITTEN))
