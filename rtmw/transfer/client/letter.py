"""`rtmw.Letter`: what an inbox hands over."""

from __future__ import annotations

import io
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, Self

from rtmw.transfer.client.bodies import unpacked
from rtmw.transfer.client.waiting import Pending
from rtmw.transfer.errors import TransferError
from rtmw.transfer.header import Delivery, File, Header, Kind, unpack_body
from rtmw.transfer.messages import Handed, Settle
from rtmw.transfer.records import NEVER_LOGGED, Spooled, TransferId, TransferState

if TYPE_CHECKING:
    from rtmw.transfer.client.inbox import Inbox

__all__ = ["Letter"]


class Letter:
    """A transfer that was handed to this process. It is redelivered, to this inbox or to another one, unless it is
    consumed; `with` (and `async with`) consumes it at the end, and gives it back after an exception.

    A letter that a transaction has taken is consumed by its COMMIT, and cannot be consumed by itself.
    """

    def __init__(self, inbox: Inbox, handed: Handed, txn: int = 0) -> None:
        self._inbox, self._handed, self._txn = inbox, handed, txn
        self._is_settled = self.header.delivery is Delivery.SMALL_RAW
        self._is_logged = handed.item < NEVER_LOGGED

    @property
    def id(self) -> TransferId:
        """Which transfer it is, everywhere and for ever: what a program remembers in its own transaction, to do
        nothing twice."""
        return self._handed.id

    @property
    def header(self) -> Header:
        """Address, level, lifetime, priority."""
        return self._handed.header

    @property
    def sender(self) -> str:
        """The name of its sender."""
        return self._handed.sender

    @property
    def redelivered(self) -> int:
        """How often it was handed over before."""
        return self._handed.redelivered

    @property
    def size(self) -> int:
        """Bytes of the body."""
        return self._handed.header.length

    def open(self) -> IO[bytes]:
        """The body, to be read from the front. It lies in memory up to 64 KiB, and else in a file that CONSUMED frees.

        TransferError: the file is gone, because the letter was consumed, or given to another receiver.
        """
        body = self._handed.body
        if not isinstance(body, Spooled):
            return io.BytesIO(body)
        try:
            return Path(body.name).open("rb")
        except FileNotFoundError:
            raise TransferError(f"the body of {self.id} is gone; read it before the letter is consumed") from None

    def _data(self) -> bytes:
        body = self._handed.body
        if not isinstance(body, Spooled):
            return body
        with self.open() as file:
            return file.read()

    @property
    def body(self) -> Any:
        """Bytes, or a value of the inbox's type; of a FILE, its path; of a COMPOSITE, the tuple of `parts`. A body of
        more than 64 KiB is read from its file here, all of it; `open` reads it bit by bit."""
        return self.parts if self.header.kind is Kind.COMPOSITE else self.parts[0]

    @property
    def parts(self) -> tuple[Any, ...]:
        """The bodies of a COMPOSITE, in their order, with the path of each file; else the one body."""
        type = self._inbox.type
        return tuple(Path(part.source) if isinstance(part, File) else unpacked(part, type) for part in self._content())

    def _content(self) -> tuple[bytes | File, ...]:
        kind = self.header.kind
        if kind is Kind.BUF:
            return (self._data(),)
        content = unpack_body(kind, self._data())
        return content if isinstance(content, tuple) else (content,)

    @property
    def files(self) -> tuple[Path, ...]:
        """Where its files are, below the folder of the inbox; those of a COMPOSITE in a folder of their own. They are
        the program's: whatever becomes of the letter, they stay."""
        if self.header.kind is Kind.BUF:
            return ()
        return tuple(Path(part.source) for part in self._content() if isinstance(part, File))

    # ---- what becomes of it ----

    def consume(self) -> None:
        """Consume the letter: it is done with, and never comes again; its body is freed. With Delivery.LOG, and of a
        transaction, this is on the disk when it returns. Idempotent."""
        self._settle(TransferState.CONSUMED, "")

    def refuse(self, reason: str) -> None:
        """Refuse the letter, which is not wanted; its sender is told why."""
        self._settle(TransferState.REFUSED, reason)

    def give_back(self, reason: str = "") -> None:
        """Put the letter in its place again, for any receiver. After sixteen deliveries it is a dead letter."""
        self._settle(TransferState.ACCEPTED, reason)

    def _settle(self, state: TransferState, cause: str) -> None:
        pending = self._begin(state, cause)
        if pending is not None and self._is_logged:
            self._inbox._line.wait(pending)

    def _begin(self, state: TransferState, cause: str) -> Pending | None:
        if self._txn:
            raise ValueError(f"transaction {self._txn} has taken this letter; commit or abort that")
        if self._is_settled:
            return None
        self._is_settled = True
        message = Settle(self._handed.item, state, cause[:1000])
        return self._inbox._line.requests.begin(Pending(self._inbox._life, message, on_done=self._inbox._settled))

    def _end_of(self, error: BaseException | None) -> tuple[TransferState, str]:
        return (TransferState.CONSUMED, "") if error is None else (TransferState.ACCEPTED, repr(error))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._txn:
            self._settle(*self._end_of(error))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._txn or self._is_settled:
            return
        if error is None:
            await self._consume_together()
            return
        pending = self._begin(*self._end_of(error))
        if pending is not None and self._is_logged:
            await self._inbox._line.reached(pending)

    async def _consume_together(self) -> None:
        """Consume the letter with what else is consumed in this turn of the event loop."""
        self._is_settled, consuming = True, self._inbox._consuming
        place = consuming.add(self._handed.item)
        if self._is_logged:
            await consuming.reached(*place)

    def __repr__(self) -> str:
        return f"<rtmw.Letter {self.id} from {self.sender!r}, {self.size} bytes>"
