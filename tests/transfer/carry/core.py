"""A small core for tests: a store, an inbox that consumes all it gets, and peers over sessions on loopback.

    python -m tests.transfer.carry.core receive FOLDER PORT
    python -m tests.transfer.carry.core send FOLDER PORT FILE

Each may be killed at any time and started again. With RTMW_TEST_KILL="journal 3" it kills itself behind the third
record of its journal, with "disk 3" before the third call that makes, syncs or renames something in an inbox's folder.
The receiver prints what it has consumed, once; the sender how each transfer has ended, and writes to FOLDER/sent how
many bytes of pieces it has sent in this life.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Event
from uuid import uuid4

import rtmw
from rtmw.disk import Disk
from rtmw.errors import LogFull, SessionError
from rtmw.net.session import Carrier
from rtmw.net.session import Terms as SessionTerms
from rtmw.transfer.address import Address, Life, Reach
from rtmw.transfer.carry.half import End
from rtmw.transfer.carry.journal import Journal
from rtmw.transfer.carry.peer import Peer, sweep
from rtmw.transfer.errors import TransferRefused
from rtmw.transfer.header import Content, Delivery, File, Header, pack_body, unpack_body
from rtmw.transfer.queues import Item
from rtmw.transfer.records import ENDED, Spooled, TransferId, TransferState
from tests.transfer.driven import Driven, Taken

SERVICE = "ingest"
TERMS = SessionTerms(lease=1.0)


class StoreDesk:
    """A core's desk on a `Store`. How letters of other nodes have ended is in a log of its own, before it is told."""

    def __init__(self, folder: Path, node: str) -> None:
        self.inbox = folder / "inbox"
        self.inbox.mkdir(parents=True, exist_ok=True)
        self.store = Driven(folder / "store", node=node)
        self.machine = self.store.machine
        self._spool = folder / "store" / "spool"
        self._ends: rtmw.Log[bytes] = rtmw.Log(folder / "ends", segment="1M")
        self._ended: dict[TransferId, End] = {}
        self._settled: set[TransferId] = set()
        self.has_folder = True
        for record in self._ends.read():
            self._apply(record.data.decode())
        life = Life.of_process()
        assert life is not None
        self.life = life
        self.store.join(SERVICE, life)
        self.changed = asyncio.Event()

    def _apply(self, line: str) -> None:
        what, node, incarnation, sequence = line.split()
        id = TransferId(node, int(incarnation), int(sequence))
        if what == "settled":
            self._settled.add(id)
        else:
            self._ended[id] = TransferState[what], ""

    def _keep(self, what: str, id: TransferId) -> None:
        line = f"{what} {id.node} {id.incarnation} {id.sequence}"
        self._ends.append(line.encode())
        self._apply(line)

    def find(self, id: TransferId) -> Item | None:
        return self.machine.state.find(id)

    def waiting(self, node: str) -> Iterable[Item]:
        return [item for item in self.machine.state.items.values() if item.record.header.to.node == node]

    def newest_of(self, node: str) -> tuple[()]:
        return ()

    def has_had(self, node: str, newest: Sequence[tuple[int, int]], sent: Mapping[int, int]) -> None:
        """Its peers tell nothing of that."""

    async def report(self, id: TransferId, state: TransferState, cause: str) -> None:
        item = self.find(id)
        if item is not None:
            with suppress(TransferRefused):
                await asyncio.to_thread(self.store.settle, item.lsn, state, cause)
        self.changed.set()

    def report_run(self, states: Mapping[TransferId, TransferState]) -> bool:
        return False

    async def durable(self) -> None:
        """Each call is durable when it returns."""

    def delayed(self, id: TransferId) -> None:
        """Nothing of this store waits for it."""

    def spool(self, body: Spooled) -> Path:
        return self._spool / body.name

    async def folder(self, to: Address) -> Path | None:
        return self.inbox if self.has_folder and to.service == SERVICE else None

    def take_raw(self, node: str, header: Header, body: bytes, sender: str) -> None:
        self.store.send(header, body, sender=sender)

    def check(self, node: str, header: Header, size: int) -> None:
        if header.to.reach is Reach.ONE and header.to.pid not in {life.pid for life in self.machine.receivers[SERVICE]}:
            raise TransferRefused(f"{header.to} means nobody")

    async def arrive(self, header: Header, body: bytes | Path, sender: str, id: TransferId) -> None:
        data = body.read_bytes() if isinstance(body, Path) else body
        self.store.send(header, data, sender=sender, id=id)  # here and now: so small bodies keep their order
        if isinstance(body, Path):
            body.unlink()
        self.changed.set()

    def arrive_run(self, node: str, header: Header, sender: str, letters: dict[TransferId, bytes]) -> int:
        raise LogFull("here letters go one by one")

    def look(self, id: TransferId) -> End | None:
        item = self.find(id)
        if item is not None:
            state = TransferState.SENT if item.state is TransferState.ACCEPTED else item.state
            return state, item.cause
        return self._ended.get(id)

    async def withdraw(self, id: TransferId) -> None:
        item = self.find(id)
        if item is not None and item.state is TransferState.ACCEPTED:
            self._keep("CANCELLED", id)
            self.store.settle(item.lsn, TransferState.CANCELLED)

    def owed(self, node: str) -> Iterable[tuple[TransferId, End]]:
        return [(id, end) for id, end in self._ended.items() if id.node == node and id not in self._settled]

    def settled(self, ids: Collection[TransferId]) -> None:
        for id in ids:
            if id in self._ended and id not in self._settled:
                self._keep("settled", id)

    # ---- programs ----

    def send(self, to: str, content: Content, txn: int = 0) -> TransferId:
        kind, body = pack_body(content)
        header = Header(Address.parse(to), kind, len(body), delivery=Delivery.LOG)
        return self.store.send(header, body, txn=txn)[0]

    def take(self) -> Taken | None:
        return self.store.take(SERVICE, self.life)

    def consume(self, letter: Taken, state: TransferState = TransferState.CONSUMED) -> None:
        self._keep(state.name, letter.id)
        self.store.settle(letter, state)

    def close(self) -> None:
        self.store.close()
        self._ends.close()


def files_of(letter: Taken) -> list[str]:
    content = unpack_body(letter.header.kind, letter.body)
    parts = content if isinstance(content, tuple) else (content,)
    return [part.source for part in parts if isinstance(part, File)]


class Core:
    """A desk with one peer."""

    def __init__(self, folder: Path, node: str, other: str) -> None:
        self.desk = StoreDesk(folder, node)
        self.journal = Journal(folder / "journal")
        bodies = folder / "bodies"
        bodies.mkdir(exist_ok=True)
        self.swept = sweep(bodies, self.journal)
        self.peer = Peer(other, self.desk, self.journal, bodies)

    async def listen(self, carrier: Carrier) -> None:
        async for session in carrier:
            await self.peer.run(session)

    async def dial(self, carrier: Carrier, port: int) -> None:
        while True:
            with suppress(SessionError):
                await self.peer.run(await carrier.connect("127.0.0.1", port))
            await asyncio.sleep(0.05)

    async def close(self) -> None:
        await self.peer.close()
        self.journal.close()
        self.desk.close()


listens = Event()
"""The receiver's: from then on its system calls count."""


async def receive(folder: Path, port: int) -> None:
    core = Core(folder, "b", "a")
    async with Carrier(uuid4(), terms=TERMS) as carrier:
        print(await carrier.listen("127.0.0.1", port), flush=True)
        listens.set()
        listening = asyncio.ensure_future(core.listen(carrier))
        while not listening.done():
            letter = await asyncio.to_thread(core.desk.take)
            if letter is None:
                core.desk.changed.clear()
                waiting = asyncio.ensure_future(core.desk.changed.wait())
                await asyncio.wait([listening, waiting], return_when="FIRST_COMPLETED")
                continue
            core.peer.inbound.moved(letter.id, TransferState.DELIVERED, "")
            core.desk.consume(letter)
            print("consumed", letter.id.sequence, *files_of(letter), flush=True)
            core.peer.inbound.moved(letter.id, TransferState.CONSUMED, "")


async def send(folder: Path, port: int, file: str) -> None:
    core = Core(folder, "a", "b")
    if not core.desk.machine.state.items and not core.desk.store.ended:
        core.desk.send(f"{SERVICE}@b", File(file, "in/file"))
    async with Carrier(uuid4(), terms=TERMS) as carrier:
        dialling = asyncio.ensure_future(core.dial(carrier, port))
        with (folder / "sent").open("wb", buffering=0) as sent:
            while core.desk.machine.state.items:
                await asyncio.sleep(0.005)
                sent.seek(0)
                sent.write(core.peer.outbound.machine.sent_bytes.to_bytes(8, "little"))
        await asyncio.sleep(0.2)
        dialling.cancel()
    ended = {state.name: count for state, count in core.desk.store.ended.items() if state in ENDED}
    await core.close()
    print(f"ended {ended}", flush=True)


def kill_self_at(what: str, number: int) -> None:
    """SIGKILL at this point."""
    left = number

    def count() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    put = Journal._put

    def put_and_count(self: Journal, kind: int, id: TransferId, content: bytes) -> rtmw.Appended:
        answer = put(self, kind, id, content)
        answer.resolve()
        count()
        return answer

    if what == "journal":
        Journal._put = put_and_count  # type: ignore[method-assign]
        return
    for name in ("create", "make_folder", "sync", "rename", "rename_new"):
        call = getattr(Disk, name)
        setattr(Disk, name, _counted(call, count))


def _counted(call: Callable[..., object], count: Callable[[], None]) -> Callable[..., object]:
    def counted(*arguments: object, **more: object) -> object:
        if listens.is_set():
            count()
        return call(*arguments, **more)

    return counted


if __name__ == "__main__":
    if at := os.environ.get("RTMW_TEST_KILL"):
        kill_self_at(at.split()[0], int(at.split()[1]))
    folder, port = Path(sys.argv[2]), int(sys.argv[3])
    asyncio.run(receive(folder, port) if sys.argv[1] == "receive" else send(folder, port, sys.argv[4]))
