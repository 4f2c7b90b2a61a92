"""The record on the disk: rows go in, and a relay that starts has its state from them. Public methods of `Log` only.

A checkpoint is a file beside the record with the state behind one of its rows, so a start reads the rows from there on
alone. Two files take turns, each with a CRC and replaced as a whole; the row that a checkpoint begins with has a random
number that the file names, so no checkpoint of another record is ever believed. Without one all rows are read.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import os
from collections import OrderedDict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

import rtmw
from rtmw.checksum import crc32
from rtmw.clock import CLOCK
from rtmw.disk import DISK, Disk
from rtmw.relay import rows as r
from rtmw.relay.rows import Row
from rtmw.relay.seals import Sealer
from rtmw.relay.settings import OWN_NAME
from rtmw.relay.state import Order, State
from rtmw.text.units import size

CACHE: Final = 64 << 20
"""Bytes of bodies that are kept in memory: of orders that wait, the last ones."""
ROOM_LEAST: Final = 64 << 20
"""Bytes of the disk that are left to the ends of orders that were stored."""
CHECKPOINT_ROWS: Final = 1 << 17
"""Rows behind a checkpoint after which there is another; or twice as many as it has orders, if that is more."""
CHECKPOINT_S: Final = 3600.0
"""Seconds after which a checkpoint is made of any rows."""
BEGUN: Final = "begun"
"""The file that says that the record has had rows."""
CHECKPOINTS: Final = ("checkpoint-0", "checkpoint-1")
VERSION: Final = 1

log = logging.getLogger("rtmw.relay")


def _missing(folder: Path) -> rtmw.LogError:
    return rtmw.LogError(
        f"{folder / 'record'} is missing or empty, and a relay has kept orders here: move it back; to begin a new "
        f"record without them, remove {folder / BEGUN}"
    )


class Store:
    """The record of one relay on the disk. It belongs to the thread of the relay's loop."""

    def __init__(
        self, folder: Path, horizon: float, keep: float = math.inf, disk: Disk = DISK, segment: str = "64M"
    ) -> None:
        """`horizon`: seconds for which each outcome is known. `keep`: seconds for which each row is kept. `segment`:
        bytes that are removed at once. Raises LogError and its kind, and OSError."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._has_begun = (folder / BEGUN).exists()
        if self._has_begun and not (folder / "record").is_dir():
            raise _missing(folder)
        self.folder, self.keep, self._horizon, self._disk = folder, keep, horizon, disk
        self._log: rtmw.Log[Row] = rtmw.Log(folder / "record", Row, sync=False, segment=segment)
        self.rows = 0
        """Rows behind the last checkpoint."""
        self.unsealed = 1
        """Rows that are to be sealed: at least those that a killed relay has left."""
        self._newest = -1
        """Position of the last of them."""
        self.untold: Row | None = None
        """The last seal, until its head is sent."""
        self._made = CLOCK.monotonic()
        """When the last checkpoint was begun, or the start."""
        self._checkpoints: dict[str, int] = {}
        """Where the rows of each checkpoint begin, the newest last."""
        self._writer = ThreadPoolExecutor(1)
        """The thread that writes checkpoints, one after the other."""
        self._bodies: OrderedDict[int, bytes] = OrderedDict()
        self._bytes = 0
        self._last: rtmw.Appended | None = None
        try:
            self._log.trim(0)  # takes the lock, and cuts what a killed relay has left
            if self._has_begun and not self._log.end:
                raise _missing(folder)
            self._lies_at = os.stat(folder / "record")
            self.state = self._recovered()
        except BaseException:
            self._log.close()
            raise

    # ---- recovery ----

    def _recovered(self) -> State:
        begins = ((name, self._begin_of(name)) for name in CHECKPOINTS)
        self._checkpoints = dict(sorted((one for one in begins if one[1] >= 0), key=itemgetter(1)))
        for name, begin in reversed(self._checkpoints.items()):
            try:
                state = State.of_lines(self._lines(name), self._horizon)
            except (ValueError, LookupError, TypeError, AttributeError) as error:
                log.warning("%s is damaged, and is not used: %r", self.folder / name, error)
            else:
                return self._redone(state, begin)
        begin = self._log.stats().earliest
        if begin:
            log.warning("no checkpoint is whole: what only rows say that were trimmed is not known any more")
        return self._redone(State(self._horizon), begin)

    def _begin_of(self, name: str) -> int:
        """The position of the row that a checkpoint begins with; -1: it is none of this record."""
        try:
            with open(self.folder / name, encoding="utf-8") as file:
                head = json.loads(file.readline())
            position, token = int(head["position"]), bytes.fromhex(head["token"])
            with self._log.read(position) as records:
                row = next(iter(records)).value
            return position if (row.kind, row.digest, head["version"]) == (r.CHECKPOINT, token, VERSION) else -1
        except (OSError, ValueError, LookupError, TypeError, rtmw.RtmwError, StopIteration):
            return -1

    def _lines(self, name: str) -> list[bytes]:
        """The lines of the state. Raises ValueError if the file is not as it was written."""
        data = (self.folder / name).read_bytes()
        _, *lines, end = data.splitlines()
        if int(end, 16) != crc32(data[: -len(end) - 1]):
            raise ValueError("its CRC is another")
        return lines

    def _redone(self, state: State, begin: int) -> State:
        for record in self._log.read(begin):
            self.rows += 1
            try:
                state.apply(record.value, record.position)
            except ValueError as error:
                raise rtmw.LogError(
                    f"{self.folder / 'record'}: the row at position {record.position} is none of a relay: {error}; "
                    "restore the folder from a copy, or move it away, and the relay begins a new record"
                ) from None
        return state

    # ---- checkpoints ----

    @property
    def needs_checkpoint(self) -> bool:
        is_much = self.rows >= max(CHECKPOINT_ROWS, 2 * len(self.state.known))
        return is_much or (self.rows > 0 and CLOCK.monotonic() - self._made > CHECKPOINT_S)

    async def checkpoint(self) -> None:
        """The next start reads rows from here on. What is older than `keep`, and nothing needs, is removed. LogFull,
        and OSError: there is none, and the one before holds. LogFailed."""
        token, self._made = os.urandom(8), CLOCK.monotonic()
        self.append([Row(r.CHECKPOINT, CLOCK.wall_ns(), digest=token)])
        assert self._last is not None, "a row was appended"
        last, self.rows = self._last, 1
        head = {"version": VERSION, "position": last.position, "token": token.hex()}
        lines, needed = self.state.lines(), self._needed()
        await last.resolve_async()  # else a crash leaves a state of rows that are not there
        await asyncio.get_running_loop().run_in_executor(self._writer, self._write, head, lines, needed)

    def _write(self, head: dict[str, Any], lines: Iterator[str], needed: int) -> None:
        data = bytearray()
        for line in chain([json.dumps(head)], lines):
            data += line.encode() + b"\n"
        data += b"%08x\n" % crc32(data)
        name = next((one for one in CHECKPOINTS if one not in self._checkpoints), next(iter(self._checkpoints), ""))
        self._disk.replace(self.folder / name, data)
        self._checkpoints.pop(name, None)
        self._checkpoints[name] = head["position"]
        oldest = CLOCK.wall() - self.keep
        if oldest > 0:
            with self._log.read(datetime.fromtimestamp(oldest, UTC)) as records:
                self._log.trim(min(needed, records.position, *self._checkpoints.values()))

    def _needed(self) -> int:
        """The first row that the state needs: of what is open, and of the orders that are known."""
        known = (order.position for order in self.state.known.values() if order.position >= 0)
        return min((next(known, self._log.end), *(order.position for order in self.state.open.values())))

    # ---- seals ----

    def seal(self, sealer: Sealer) -> None:
        """Seals what is durable, unless all rows since the last seal are about the record. LogFull, LogDamaged."""
        if not self.unsealed:
            return
        state = self.state
        begin = state.sealed if state.seal else self._log.stats().earliest
        rows = sealer.rows(self._log, begin, state.seal, state.signer, CLOCK.wall_ns())
        self.append(rows)
        for row in rows:
            state.apply(row)
        self.unsealed, self.untold = int(self._newest >= state.sealed), rows[-1]  # it may not be durable yet

    # ---- rows ----

    def append(self, rows: list[Row]) -> None:
        """All of them, or none: LogFull. They are durable behind the next `sync`."""
        places = self._log.append_many(rows)
        self._last = places[-1]
        self.rows += len(rows)
        for row, place in zip(rows, places, strict=True):
            if row.kind not in r.OF_RECORD and row.source != OWN_NAME:
                self.unsealed, self._newest = self.unsealed + 1, place.position
            if row.kind == r.STORED:
                self.state.numbers[row.order].position = place.position
                self._bodies[row.order] = row.body
                self._bytes += len(row.body)
            elif row.kind in r.ENDS and row.order not in self.state.open:
                self._bytes -= len(self._bodies.pop(row.order, b""))
        while self._bytes > CACHE:
            self._bytes -= len(self._bodies.popitem(last=False)[1])

    async def sync(self) -> None:
        """What was appended before this call is durable when it returns. LogFailed."""
        if self._last is not None:
            await self._last.resolve_async()

    def body(self, order: Order) -> bytes:
        """The data of an order that is known. Raises LogError where the record has it no more."""
        body = self._bodies.get(order.number)
        if body is None:
            with self._log.read(order.position) as records:
                body = next(iter(records)).value.body
        return body

    def check(self) -> None:
        """Raises LogError where what is appended now is lost: somebody has removed the record, or moved it. A record
        with rows is noted beside it, so that no later relay begins another one in its place."""
        try:
            is_there = os.path.samestat(os.stat(self.folder / "record"), self._lies_at)
        except OSError:
            is_there = False
        if not is_there:
            raise rtmw.LogError(
                f"{self.folder / 'record'} was removed or moved while the relay ran: what it has stored is not there "
                "any more; move it back, and the relay goes on with it"
            )
        if not self._has_begun and self._log.end:
            with suppress(OSError):  # again at the next look
                self._disk.replace(self.folder / BEGUN, b"A relay has kept orders here, in the folder record.\n")
                self._has_begun = True

    def lacks_room(self) -> str:
        """Why no more orders are stored; empty: there is room."""
        found = os.statvfs(self.folder)
        free = found.f_bavail * found.f_frsize
        return "" if free >= ROOM_LEAST else f"the disk of the relay has {size(free)}, and needs {size(ROOM_LEAST)}"

    def close(self) -> None:
        """LogFailed, if nobody was told of it yet. Idempotent."""
        self._writer.shutdown()
        self._log.close()
