"""T2, T4, T7 over two nodes on loopback: cables that are cut, peers that are away, refusals, composites."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import uuid4

import pytest

from rtmw.net.session import Carrier
from rtmw.transfer.header import File, Header, unpack_body
from rtmw.transfer.records import TransferId, TransferState
from rtmw.transfer.wire import events as e
from tests.net.session.relay import Relay
from tests.transfer.carry.core import TERMS, Core, files_of
from tests.transfer.driven import Taken
from tests.transfer.full import full_after

MIB = 1 << 20
SENT = TransferState.SENT
PATIENCE = 100.0


class Two:
    """Core a sends to core b, over a cable."""

    def __init__(self, a: Core, b: Core, relay: Relay, carrier: Carrier) -> None:
        self.a, self.b, self.relay, self._carrier = a, b, relay, carrier
        self._dialling: asyncio.Future[None] | None = None

    def connect(self) -> None:
        self._dialling = asyncio.ensure_future(self.a.dial(self._carrier, self.relay.port))

    async def disconnect(self) -> None:
        if self._dialling is not None:
            self._dialling.cancel()
            await asyncio.gather(self._dialling, return_exceptions=True)

    def send(self, content: object) -> None:
        self.a.desk.send("ingest@b", content)  # type: ignore[arg-type]
        self.a.peer.outbound.ready()

    async def letter(self) -> Taken:
        """The next one that core b has."""
        while (letter := await asyncio.to_thread(self.b.desk.take)) is None:
            self.b.desk.changed.clear()
            await self.b.desk.changed.wait()
        return letter

    async def consume(self, letter: Taken, state: TransferState = TransferState.CONSUMED) -> None:
        self.b.desk.consume(letter, state)
        self.b.peer.inbound.moved(letter.id, state, "")

    async def until(self, what: Callable[[], bool]) -> None:
        while not what():
            await asyncio.sleep(0.005)

    def ended(self) -> dict[TransferState, int]:
        return self.a.desk.store.ended

    async def all_ended(self) -> None:
        await self.until(lambda: not self.a.desk.machine.state.items)


@asynccontextmanager
async def two(folder: Path) -> AsyncGenerator[Two]:
    a, b = Core(folder / "a", "a", "b"), Core(folder / "b", "b", "a")
    async with asyncio.timeout(PATIENCE), Carrier(uuid4(), terms=TERMS) as one, Carrier(uuid4(), terms=TERMS) as other:
        port = await other.listen("127.0.0.1")
        listening = asyncio.ensure_future(b.listen(other))
        async with Relay(port) as relay:
            pair = Two(a, b, relay, one)
            yield pair
            await pair.disconnect()
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)
    for core in (pair.a, pair.b):
        assert core.peer.outbound.turns.failed is None
        assert core.peer.inbound.turns.failed is None
        await core.close()


def run(folder: Path, play: Callable[[Two], Awaitable[None]]) -> None:
    async def main() -> None:
        async with two(folder) as pair:
            await play(pair)

    asyncio.run(main())


def written(path: Path, size: int) -> bytes:
    data = random.Random(size).randbytes(size)
    path.write_bytes(data)
    return data


def test_t4_a_composite_of_bytes_and_files_is_visible_all_at_once(tmp_path: Path) -> None:
    first, second = written(tmp_path / "x", 9 * MIB), written(tmp_path / "y", 70_000)
    (tmp_path / "empty").write_bytes(b"")

    async def play(pair: Two) -> None:
        pair.connect()
        parts = (b"head", File(str(tmp_path / "x"), "in/x, 1"), bytes(100_000), File(str(tmp_path / "y")))
        pair.send((*parts, File(str(tmp_path / "empty"), "in/empty")))
        letter = await pair.letter()
        content = unpack_body(letter.header.kind, letter.body)
        assert isinstance(content, tuple)
        assert (content[0], content[2]) == (b"head", bytes(100_000))
        files = [Path(path) for path in files_of(letter)]
        assert [path.read_bytes() for path in files] == [first, second, b""]
        above = {path.relative_to(pair.b.desk.inbox).parts[0] for path in files}
        assert len(above) == 1, "the files of a composite have a folder of their own"
        await pair.consume(letter)
        await pair.all_ended()
        assert pair.ended()[TransferState.CONSUMED] == 1

    run(tmp_path, play)


# Proves G195, T7.
def test_t7_a_file_over_a_cable_that_is_cut_and_goes_deaf_comes_whole_and_little_is_sent_again(tmp_path: Path) -> None:
    data, pulls = written(tmp_path / "x", 64 * MIB), 6

    async def play(pair: Two) -> None:
        pair.connect()
        pair.send(File(str(tmp_path / "x"), "x"))
        sending = pair.a.peer.outbound.machine
        for number in range(pulls):
            goal = (number + 1) * 8 * MIB
            await pair.until(lambda goal=goal: sending.sent_bytes >= goal)  # type: ignore[misc]
            if number % 2:
                pair.relay.silence()  # the session ends: its lease is a second
            else:
                pair.relay.cut()
        letter = await pair.letter()
        assert Path(files_of(letter)[0]).read_bytes() == data
        await pair.consume(letter)
        await pair.all_ended()
        assert sending.sent_bytes <= len(data) + pulls * 16 * MIB

    run(tmp_path, play)


def test_t3_small_bodies_come_once_and_in_order_while_the_cable_is_cut(tmp_path: Path) -> None:
    number = 300

    async def play(pair: Two) -> None:
        for index in range(number):
            pair.a.desk.send("ingest@b", f"{index}".encode())
        pair.connect()
        got: list[int] = []
        while len(got) < number:
            letter = await pair.letter()
            got.append(int(letter.body))
            await pair.consume(letter)
            if len(got) % 60 == 0:
                pair.relay.cut()
        await pair.all_ended()
        assert got == list(range(number))
        assert pair.ended()[TransferState.CONSUMED] == number

    run(tmp_path, play)


def test_t2_what_is_for_a_node_that_is_away_waits_and_comes_when_it_is_back(tmp_path: Path) -> None:
    async def play(pair: Two) -> None:
        pair.relay.is_down = True
        pair.connect()
        pair.send(b"early")
        await asyncio.sleep(0.2)
        assert len(pair.a.desk.machine.state.items) == 1
        pair.relay.is_down = False
        letter = await pair.letter()
        assert letter.body == b"early"
        await pair.consume(letter, TransferState.REFUSED)
        await pair.all_ended()
        assert pair.ended()[TransferState.REFUSED] == 1

    run(tmp_path, play)


def test_t2_ten_thousand_parked_transfers_come_once_and_in_order(tmp_path: Path) -> None:
    number = 10_000

    async def play(pair: Two) -> None:
        for first in (0, number // 2):
            txn = pair.a.desk.store.begin()  # one sync for many
            for index in range(first, first + number // 2):
                pair.a.desk.send("ingest@b", f"{index}".encode(), txn=txn)
            pair.a.desk.store.commit(txn)
        pair.connect()
        arrived: dict[int, int] = {}
        arrive = pair.b.desk.arrive

        async def note(header: Header, body: bytes | Path, sender: str, id: TransferId) -> None:
            assert isinstance(body, bytes)
            arrived[id.sequence] = arrived.get(id.sequence, 0) + 1
            if len(arrived) % 1000 == 0:
                await arrive(header, body, sender, id)

        pair.b.desk.arrive = note  # type: ignore[method-assign]
        pair.b.desk.look = lambda id: (SENT, "") if id.sequence in arrived else None  # type: ignore[method-assign]
        await pair.until(lambda: len(arrived) == number)
        assert set(arrived.values()) == {1}
        assert list(arrived) == sorted(arrived)

    run(tmp_path, play)


def test_a_file_waits_until_an_inbox_with_a_folder_is_open(tmp_path: Path) -> None:
    data = written(tmp_path / "x", 200_000)

    async def play(pair: Two) -> None:
        pair.b.desk.has_folder = False
        pair.connect()
        pair.send(File(str(tmp_path / "x"), "x"))
        causes = pair.a.peer.outbound.causes
        await pair.until(lambda: bool(causes))
        assert "waits for an inbox of 'ingest' with a folder" in next(iter(causes.values()))
        pair.b.desk.has_folder = True
        pair.b.peer.inbound.try_again()
        letter = await pair.letter()
        assert Path(files_of(letter)[0]).read_bytes() == data
        await pair.consume(letter)
        await pair.all_ended()

    run(tmp_path, play)


def test_a_destination_outside_of_the_folder_is_refused_and_its_sender_is_told_why(tmp_path: Path) -> None:
    written(tmp_path / "x", 200_000)
    told: list[str] = []

    async def play(pair: Two) -> None:
        (pair.b.desk.inbox / "link").symlink_to(tmp_path)
        report = pair.a.desk.report

        async def note(id: object, state: TransferState, cause: str) -> None:
            told.append(f"{state.name} {cause}")
            await report(id, state, cause)  # type: ignore[arg-type]

        pair.a.desk.report = note  # type: ignore[method-assign]
        pair.connect()
        for destination in ("../x", "/etc/x", "link/x"):
            pair.send(File(str(tmp_path / "x"), destination))
        await pair.all_ended()
        assert pair.ended()[TransferState.REFUSED] == 3
        assert all("is refused" in cause for cause in told)
        assert [path.name for path in pair.b.desk.inbox.iterdir() if path.name != ".rtmw"] == ["link"]
        assert list((pair.b.desk.inbox / ".rtmw").iterdir()) == []
        assert list((tmp_path / "b" / "bodies").iterdir()) == []

    run(tmp_path, play)


def test_t2_a_pid_that_nobody_has_is_refused_and_no_file_is_visible(tmp_path: Path) -> None:
    data = written(tmp_path / "x", 200_000)

    async def play(pair: Two) -> None:
        pair.connect()
        for pid in (pair.b.desk.life.pid, 4_000_000):
            pair.a.desk.send(f"ingest/{pid}@b", File(str(tmp_path / "x"), f"for {pid}"))
        pair.a.peer.outbound.ready()
        letter = await pair.letter()
        assert Path(files_of(letter)[0]).read_bytes() == data
        await pair.consume(letter)
        await pair.all_ended()
        assert pair.ended() == {TransferState.CONSUMED: 1, TransferState.REFUSED: 1}
        seen = {path.name for path in pair.b.desk.inbox.iterdir()}
        assert seen == {".rtmw", f"for {pair.b.desk.life.pid}"}

    run(tmp_path, play)


def test_a_source_that_changes_on_the_way_arrives_not_at_all(tmp_path: Path) -> None:
    written(tmp_path / "x", 40 * MIB)

    async def play(pair: Two) -> None:
        pair.connect()
        pair.send(File(str(tmp_path / "x"), "x"))
        sending = pair.a.peer.outbound.machine
        await pair.until(lambda: sending.sent_bytes > 4 * MIB)
        with (tmp_path / "x").open("r+b") as file:
            file.write(b"another head")
        await pair.all_ended()
        assert pair.ended()[TransferState.REFUSED] == 1
        await pair.until(lambda: not list((pair.b.desk.inbox / ".rtmw").iterdir()))
        assert not (pair.b.desk.inbox / "x").exists()

    run(tmp_path, play)


@pytest.mark.parametrize("is_known_to", ["its disk alone", "its memory"])
def test_a_source_that_was_cut_and_whose_sender_has_forgotten_its_size_is_refused(
    tmp_path: Path, is_known_to: str
) -> None:
    """As after a power cut that came before the record of its size was durable."""
    written(tmp_path / "x", 40 * MIB)

    async def play(pair: Two) -> None:
        pair.connect()
        pair.send(File(str(tmp_path / "x"), "x"))
        await pair.until(lambda: any(coming.mark.position for coming in pair.b.journal.coming.values()))
        await pair.disconnect()
        (id,) = pair.b.journal.coming
        pair.a.journal.done(id)
        await pair.a.close()
        os.truncate(tmp_path / "x", 4 * MIB)
        if is_known_to == "its disk alone":
            pair.b.peer.inbound._step(e.PutOff(id, "as after a start"))
        pair.a = Core(tmp_path / "a", "a", "b")
        pair.connect()
        await pair.all_ended()
        assert pair.ended()[TransferState.REFUSED] == 1
        await pair.until(lambda: not list((pair.b.desk.inbox / ".rtmw").iterdir()) and not pair.b.journal.coming)

    run(tmp_path, play)


def test_a_file_that_is_withdrawn_on_the_way_leaves_nothing(tmp_path: Path) -> None:
    written(tmp_path / "x", 40 * MIB)

    async def play(pair: Two) -> None:
        pair.connect()
        pair.send(File(str(tmp_path / "x"), "x"))
        sending = pair.a.peer.outbound.machine
        await pair.until(lambda: sending.sent_bytes > 4 * MIB)
        pair.a.peer.outbound.withdraw(next(iter(sending.transfers)))
        await pair.all_ended()
        assert pair.ended()[TransferState.CANCELLED] == 1
        await pair.until(lambda: not list((pair.b.desk.inbox / ".rtmw").iterdir()))
        assert not (pair.b.desk.inbox / "x").exists()

    run(tmp_path, play)


@pytest.mark.parametrize("side", ["a", "b"])
@pytest.mark.parametrize("batches", range(4))
# Proves G186.
def test_a_file_comes_whole_and_once_although_a_journal_is_full_behind_any_record(
    tmp_path: Path, side: str, batches: int
) -> None:
    """SOURCE, SENT, DONE of the sender; BEGIN, MARK, PLACE, END of the receiver."""
    data = written(tmp_path / "x", 9 * MIB)

    async def play(pair: Two) -> None:
        full = pair.a if side == "a" else pair.b
        with full_after(full.journal._log, batches):
            pair.connect()
            pair.send(File(str(tmp_path / "x"), "x"))
            here = pair.b.desk.machine.state.items
            await pair.until(lambda: bool(pair.a.peer.outbound.causes or here))
            assert bool(here) or side == "b", "a sender needs no room in its journal"
        letter = await pair.letter()
        assert Path(files_of(letter)[0]).read_bytes() == data
        await pair.consume(letter)
        await pair.all_ended()
        await pair.until(lambda: not pair.a.journal.going and not pair.b.journal.coming)
        assert await asyncio.to_thread(pair.b.desk.take) is None

    run(tmp_path, play)
