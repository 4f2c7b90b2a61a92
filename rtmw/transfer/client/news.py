"""What has gone wrong with the transfers of a sender, for the thread that goes through it."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from rtmw.transfer.records import TransferId, TransferState

__all__ = ["News", "TransferEvent"]

MOST_EVENTS: Final = 4096


@dataclass(frozen=True)
class TransferEvent:
    """Something went another way than that of a transfer that is consumed."""

    id: TransferId | None
    """None: of a transaction that was undone, or of what was not accepted."""
    state: TransferState | None
    """None: as `id`. Letters of a transaction that was undone are no events of their own."""
    cause: str


class News:
    """The last events of one sender. Any thread."""

    def __init__(self) -> None:
        self._events: queue.Queue[TransferEvent | None] = queue.Queue(MOST_EVENTS)
        self.lost = 0
        """Events that nobody took in time."""

    def put(self, event: TransferEvent) -> None:
        self._put(event)

    def end(self) -> None:
        """None will come any more."""
        self._put(None)

    def _put(self, event: TransferEvent | None) -> None:
        while True:
            try:
                self._events.put_nowait(event)
                return
            except queue.Full:
                self._events.get_nowait()
                self.lost += 1

    def __iter__(self) -> Iterator[TransferEvent]:
        """Each once, as it happens, until the end."""
        while True:
            event = self._events.get()
            if event is None:
                self._events.put(None)  # for the next thread
                return
            yield event

    def __len__(self) -> int:
        return self._events.qsize()
