"""In whose thread the log of a service is synced, and what waits for that."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import pytest

import rtmw
from rtmw.durable_log.syncing import FAST_S, SYNCS, Syncing
from rtmw.transfer.events import SendTransfers
from rtmw.transfer.store import Store
from tests.bus import LONG
from tests.child import Spawn
from tests.transfer.memory import header

MOST_SYNCS: Final = 5000


class Watched(Syncing):
    """Counts the syncs that are made in the thread of the loop. The disk takes `slow` seconds longer for those."""

    here = 0
    slow = 0.0

    def _syncs_here(self, last: rtmw.Appended) -> bool:
        done = super()._syncs_here(last)
        self.here += done
        time.sleep(self.slow)
        return done


def log_one(syncing: Syncing, store: Store) -> None:
    last = store.submit(SendTransfers(header(b"x"), (b"x",))).last
    assert last is not None
    syncing.note(last)


async def until_durable(syncing: Syncing) -> None:
    """As programs wait: their answers lie in outboxes."""
    syncing.start()
    while syncing.durable < syncing.logged:
        await asyncio.sleep(0)


def played(store: Store, play: Callable[[Watched], Awaitable[None]]) -> None:
    async def run() -> None:
        syncing = Watched(store._log)
        task = asyncio.create_task(syncing.run(lambda: None))
        try:
            async with asyncio.timeout(LONG):
                await play(syncing)
        finally:
            task.cancel()

    asyncio.run(run())


def test_what_waits_is_done_in_order_when_it_is_durable(tmp_path: Path) -> None:
    with Store(tmp_path / "store", node="plant") as store:

        async def play(syncing: Watched) -> None:
            done: list[int] = []
            syncing.later(lambda: done.append(0))
            assert done == [0]  # nothing was logged yet
            for number in (1, 2):
                log_one(syncing, store)
                syncing.later(lambda number=number: done.append(number))  # type: ignore[misc]
            await asyncio.sleep(0)
            assert done == [0]
            await syncing.wait()
            assert done == [0, 1, 2]
            assert syncing.durable == syncing.logged

        played(store, play)


def test_a_fast_disk_is_synced_in_the_thread_of_the_loop_once_for_all_that_was_logged_in_a_turn(
    tmp_path: Path,
) -> None:
    with Store(tmp_path / "store", node="plant") as store:

        async def play(syncing: Watched) -> None:
            for _ in range(SYNCS):
                before = store._log.stats().batches
                for _ in range(3):
                    log_one(syncing, store)
                    syncing.start()
                await until_durable(syncing)
                assert store._log.stats().batches <= before + 2  # the log's own thread may come first with some of it
            assert syncing.here

        played(store, play)


def test_what_may_be_synced_at_once_is_durable_at_once_and_else_by_the_thread_of_the_log(tmp_path: Path) -> None:
    with Store(tmp_path / "store", node="plant") as store:

        async def play(syncing: Watched) -> None:
            assert not syncing.try_sync()  # nothing was logged
            log_one(syncing, store)
            while not syncing.try_sync():  # the log's own thread may be at it
                await until_durable(syncing)
                log_one(syncing, store)
            assert syncing.durable == syncing.logged
            assert not syncing.try_sync()  # it is durable already

            log_one(syncing, store)
            syncing.later(lambda: None)  # other nodes or files wait
            assert not syncing.try_sync()
            await until_durable(syncing)

        played(store, play)


def test_while_the_disk_is_slow_the_log_syncs_and_the_loop_goes_on(tmp_path: Path) -> None:
    with Store(tmp_path / "store", node="plant") as store:

        async def play(syncing: Watched) -> None:
            syncing.slow = 2 * SYNCS * FAST_S
            while not syncing.here:
                log_one(syncing, store)
                await until_durable(syncing)
            for _ in range(3):
                log_one(syncing, store)
                await until_durable(syncing)
            assert syncing.here == 1

            syncing.slow = 0.0
            for _ in range(MOST_SYNCS):  # it is fast again
                log_one(syncing, store)
                await until_durable(syncing)
                if syncing.here > 1:
                    return
            pytest.fail("the loop never syncs again")

        played(store, play)


def test_while_other_nodes_or_files_wait_the_log_syncs(tmp_path: Path) -> None:
    with Store(tmp_path / "store", node="plant") as store:

        async def play(syncing: Watched) -> None:
            for _ in range(SYNCS):
                log_one(syncing, store)
                await syncing.wait()
            assert syncing.here == 0
            while not syncing.here:
                log_one(syncing, store)
                await until_durable(syncing)

        played(store, play)


def test_the_disk_begins_with_what_an_answer_waits_for_and_not_with_what_none_waits_for(tmp_path: Path) -> None:
    with Store(tmp_path / "store", node="plant") as store:
        syncing = Syncing(store._log)
        (segment,) = (tmp_path / "store" / "log").glob("0*0.seg")

        def is_written(body: bytes, waits: bool) -> bool:
            """Before the log's own thread has synced it, which it does after a tenth of a second."""
            last = store.submit(SendTransfers(header(body), (body,))).last
            assert last is not None
            syncing.note(last, waits)
            was_ahead = body in segment.read_bytes() and last.state is rtmw.Durability.BUFFERED
            last.resolve()
            return was_ahead

        awaited, others = range(64), range(64, 128)
        ahead = sum(is_written(b"<%d>" % number, True) for number in awaited)
        assert sum(is_written(b"<%d>" % number, False) for number in others) < ahead


def test_a_log_that_fails_ends_the_loop_and_nothing_that_waits_is_done(tmp_path: Path, spawn: Spawn) -> None:
    """No file may become longer than what the core has written of its log when it has begun."""
    child = spawn(f"""
        import asyncio, resource, signal
        import rtmw
        from rtmw.durable_log.syncing import Syncing
        from rtmw.transfer.events import SendTransfers
        from rtmw.transfer.store import Store
        from tests.transfer.memory import header

        async def run(store):
            syncing = Syncing(store._log)
            syncing.note(store.submit(SendTransfers(header(b"x"), (b"x",))).last)
            syncing.later(lambda: print("it is durable"))
            syncing.start()
            await syncing.run(lambda: None)

        store = Store({str(tmp_path / "store")!r}, node="plant")
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (512, resource.RLIM_INFINITY))
        try:
            asyncio.run(run(store))
        except rtmw.LogFailed as error:
            print(error)
    """)
    assert "failed: File too large" in child.line()
    assert child.wait() == 0
