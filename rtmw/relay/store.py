"""The record on the disk: rows go in, and a relay that starts has its state from them. Public methods of `Log` only."""

from __future__ import annotations

import os
from collections import OrderedDict
from pathlib import Path
from typing import Final

import rtmw
from rtmw.relay import rows as r
from rtmw.relay.frame import Frame
from rtmw.relay.rows import Row, frame_of
from rtmw.relay.state import Order, State
from rtmw.units import size

CACHE: Final = 64 << 20
"""Bytes of bodies that are kept in memory: of orders that wait, the last ones."""
ROOM_LEAST: Final = 64 << 20
"""Bytes of the disk that are left to the ends of orders that were stored."""


class Store:
    """Of one relay, in the thread of its loop."""

    def __init__(self, folder: Path, horizon: float) -> None:
        """`horizon`: seconds for which each outcome is known. Raises LogError and its kind, and OSError."""
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._log: rtmw.Log[Row] = rtmw.Log(folder / "record", Row, sync=False)
        self.state = State(horizon)
        self._bodies: OrderedDict[int, bytes] = OrderedDict()
        self._bytes = 0
        self._last: rtmw.Appended | None = None
        try:
            self._log.trim(0)  # takes the lock, and cuts what a killed relay has left
            for record in self._log.read():
                self._redo(record.value, record.position)
        except BaseException:
            self._log.close()
            raise

    def _redo(self, row: Row, position: int) -> None:
        try:
            self.state.apply(row, position)
        except ValueError as error:
            raise rtmw.LogError(
                f"{self.folder / 'record'}: the row at position {position} is none of a relay: {error}; restore the "
                "folder from a copy, or move it away, and the relay begins a new record"
            ) from None

    def append(self, rows: list[Row]) -> None:
        """All of them, or none: LogFull. They are durable behind the next `sync`."""
        places = self._log.append_many(rows)
        self._last = places[-1]
        for row, place in zip(rows, places, strict=True):
            if row.kind == r.STORED:
                self.state.numbers[row.order].position = place.position
                self._keep(row.order, row.body)
            elif row.kind in r.ENDS and row.order not in self.state.open:
                self._drop(row.order)

    async def sync(self) -> None:
        """What was appended before this call is durable when it returns. LogFailed."""
        if self._last is not None:
            await self._last.resolve_async()

    def frame(self, order: int) -> Frame:
        """Of an order that is open."""
        found = self.state.open[order]
        return frame_of(found.head, self.body(found))

    def body(self, order: Order) -> bytes:
        """The data of an order that is known. Raises LogError where the record has it no more."""
        body = self._bodies.get(order.number)
        if body is None:
            with self._log.read(order.position) as records:
                body = next(iter(records)).value.body
        return body

    def _keep(self, order: int, body: bytes) -> None:
        self._bodies[order] = body
        self._bytes += len(body)
        while self._bytes > CACHE:
            self._bytes -= len(self._bodies.popitem(last=False)[1])

    def _drop(self, order: int) -> None:
        self._bytes -= len(self._bodies.pop(order, b""))

    def lacks_room(self) -> str:
        """Why no more orders are stored; empty: there is room."""
        found = os.statvfs(self.folder)
        free = found.f_bavail * found.f_frsize
        return "" if free >= ROOM_LEAST else f"the disk of the relay has {size(free)}, and needs {size(ROOM_LEAST)}"

    def close(self) -> None:
        """LogFailed, if nobody was told of it yet. Idempotent."""
        self._log.close()
