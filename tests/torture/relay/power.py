"""A relay on the disk of the log's power rig (log/power.h): `python -m tests.torture.relay.power ORDERS DISK`.

live SEED     a relay on the file system, a source and a recipient. Each answer that the source gets is noted, with
              the number of events that the disk had seen by then
look EVENT    after a cut at an event: what was answered before it is on record, as it was answered; checkpoints are
              whole; the record equals each of them and the rows behind it; its seals hold
keep EVENT    the next life begins with the disk after that cut
format        the next life begins with an empty disk
end           what was looked at has met everything
"""

from __future__ import annotations

import mmap
import random
import struct
import sys
from collections import Counter
from pathlib import Path
from typing import Final

from rtmw.relay import rows as r
from rtmw.relay.seals import verify
from rtmw.relay.state import State
from rtmw.relay.store import CHECKPOINTS, Store
from tests.relay.servers import SETTINGS, Peer, Relay
from tests.relay.world import picture

FOLDER: Final = Path("mounted/log").absolute()
QUICK: Final = SETTINGS.replace('t2 = "200ms"\nn2 = 2', 't2 = "2s"\nn2 = 0').replace(
    "[relay]\n", '[relay]\nseal_to = ["AODB"]\n'
)
HORIZON: Final = 10.0
NEEDED: Final = ("delivered", "failed", "corrected", "heads", "checkpoints")


def main(orders: int, disk: int) -> None:
    """`disk`: a descriptor of it; it begins with the number of its events."""
    power = Power(orders, mmap.mmap(disk, mmap.PAGESIZE, prot=mmap.PROT_READ))
    for line in sys.stdin:
        what, number = line.split()
        try:
            getattr(power, what)(int(number))
            print("ok", flush=True)
        except Exception as error:
            print(f"{type(error).__name__}: {error}".replace("\n", " ")[:4000], flush=True)


class Power:
    def __init__(self, orders: int, events: mmap.mmap) -> None:
        self._orders, self._events = orders, events
        self.told: list[tuple[int, bytes, bytes]] = []
        """Answers to the source: the count of events, the stamp of the order, and why it failed; empty: it came."""
        self.heads: list[tuple[int, str]] = []
        """Of seals, with the count of events."""
        self.met = Counter[str]()

    def _count(self) -> int:
        (count,) = struct.unpack_from("<Q", self._events)
        assert isinstance(count, int)
        return count

    def live(self, seed: int) -> None:
        chance, relay = random.Random(seed), Relay(FOLDER, QUICK)
        relay.before = [sys.executable, "-m", "tests.torture.relay.small"]
        relay.start()
        try:
            source, gate = Peer(relay, "AODB"), Peer(relay, "GATE")
            for number in range(self._orders):
                self._send(source, gate, b"%d" % number, is_late=number % 4 == 2)
            while not self.heads:
                self._hear(source)
            if chance.random() < 0.5:
                relay.end()
        finally:
            relay.kill()

    def _send(self, source: Peer, gate: Peer, body: bytes, *, is_late: bool) -> None:
        """One order up to its answer; `is_late`: its receipt comes behind that, and corrects it."""
        order = source.order("GATE", body * 40)
        while (came := gate.take()).stamp != order.stamp:
            gate.confirm(came)
        if not is_late:
            gate.confirm(came)
        while (found := self._hear(source))[0] != order.stamp:
            pass
        if is_late and found[1]:
            gate.confirm(came)
            while self._hear(source) != (order.stamp, b""):
                pass

    def _hear(self, source: Peer) -> tuple[bytes, bytes]:
        """An answer, with the stamp of its order; of the head of a seal no stamp."""
        frame = source.take()
        if frame.command == b"S":
            self.heads.append((self._count(), frame.data.decode()))
            source.confirm(frame)
            return b"", b""
        stamp, _ = frame.answers
        self.told.append((self._count(), stamp, frame.body))
        return stamp, frame.body

    def look(self, event: int) -> None:
        """AssertionError."""
        store = Store(FOLDER / "relay", HORIZON, segment="64K")
        try:
            begin = store._log.stats().earliest
            rows = [(record.position, record.value) for record in store._log.read(begin)]
            whole = State(HORIZON)
            for position, row in rows:
                whole.apply(row, position)
            assert begin == 0, "nothing was trimmed"
            for name in (one for one in CHECKPOINTS if (store.folder / one).exists()):
                at = store._begin_of(name)
                assert at >= 0, f"{name} is of no row of this record"
                state = State.of_lines(store._lines(name), HORIZON)
                for position, row in rows:
                    if position >= at:
                        state.apply(row, position)
                assert picture(state) == picture(whole), f"{name} and the rows behind it make another state"
                self.met["checkpoints"] += 1
            assert picture(store.state) == picture(whole), "it recovers another state"
        finally:
            store.close()
        self._judge([row for _, row in rows], event)
        heads = [head for at, head in self.heads if at <= event]
        found = verify(FOLDER / "relay" / "record", None, heads)
        assert not found.faults, f"seals: {found.faults}"
        self.met["heads"] += len(heads)

    def _judge(self, rows: list[r.Row], event: int) -> None:
        """Each answer before the cut is on record; the last one of an order is its outcome, unless more has come."""
        stored = {row.head[8:30]: row.order for row in rows if row.kind == r.STORED}
        ends = {(row.order, row.kind) for row in rows}
        for stamp, cause in [(stamp, cause) for at, stamp, cause in self.told if at <= event]:
            assert stamp in stored, f"an order was answered, and is not on record: {stamp!r}"
            kinds = {kind for order, kind in ends if order == stored[stamp]}
            wanted = {r.UNCONFIRMED, r.UNDELIVERED} if cause else {r.DELIVERED, r.LATE}
            assert kinds & wanted, f"order {stored[stamp]} was answered with {cause!r}, and on record is {kinds}"
            self.met["failed" if cause else "corrected" if r.LATE in kinds else "delivered"] += 1

    def keep(self, event: int) -> None:
        """What was heard later has never been."""
        self.told = [(0, *rest) for at, *rest in self.told if at <= event]  # type: ignore[misc]
        self.heads = [(0, head) for at, head in self.heads if at <= event]

    def format(self, _: int) -> None:
        self.told, self.heads = [], []

    def end(self, _: int) -> None:
        """AssertionError."""
        assert all(self.met[one] for one in NEEDED), f"only these were met: {dict(self.met)}"


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
