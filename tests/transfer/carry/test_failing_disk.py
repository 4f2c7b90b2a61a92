"""A disk of the receiver that fails, also while the next bytes are written: the transfer is put off in words, nobody is
told that it is there, and what the disk did not take is sent again."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from pathlib import Path
from threading import Event

import pytest

from rtmw.disk import Disk
from rtmw.transfer.header import File
from rtmw.transfer.records import TransferState
from tests.transfer.carry.core import files_of
from tests.transfer.carry.test_peers import MIB, PATIENCE, Two, run, written

BLOCK = 8 * MIB
SIZE = 2 * BLOCK + MIB


class Failing(Disk):
    """Fails in calls of one name on a file that arrives, behind `passes` that succeed, until `mend`.

    A block is synced beside the writes: when bytes behind it are written."""

    def __init__(self, call: str, passes: int) -> None:
        self._call, self._left, self._synced = call, passes, 0
        self._behind = [Event() for _ in range(SIZE // BLOCK)]
        """Bytes behind this block are written."""
        self._is_mended = False
        self.positions: list[int] = []
        """Of what was written since `mend`."""

    def mend(self) -> None:
        self._is_mended = True
        self.positions.clear()

    def _use(self, call: str, descriptor: int) -> None:
        if self._is_mended or call != self._call or not os.readlink(f"/proc/self/fd/{descriptor}").endswith(".part"):
            return
        self._left -= 1
        if self._left < 0:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    def write_some(self, descriptor: int, parts: Sequence[memoryview], position: int) -> int:
        self._use("write_some", descriptor)
        self.positions.append(position)
        if position % BLOCK == 0 and position:
            self._behind[position // BLOCK - 1].set()
        return super().write_some(descriptor, parts, position)

    def sync(self, descriptor: int) -> None:
        self._use("sync", descriptor)
        super().sync(descriptor)

    def sync_data(self, descriptor: int) -> None:
        if not self._is_mended:
            assert self._call != "sync_data" or self._behind[self._synced].wait(PATIENCE)
        self._use("sync_data", descriptor)
        self._synced += 1
        super().sync_data(descriptor)


@pytest.mark.parametrize(
    ("call", "passes", "goes_on"),
    [("write_some", 3, 0), ("sync_data", 0, 0), ("sync_data", 1, BLOCK), ("sync", 0, 2 * BLOCK)],
    ids=["write", "sync of the first block", "sync of the second block", "last sync"],
)
# Proves G187.
def test_a_file_on_a_disk_that_fails_is_put_off_in_words_and_goes_on_behind_what_is_durable(
    tmp_path: Path, call: str, passes: int, goes_on: int
) -> None:
    data, disk = written(tmp_path / "x", SIZE), Failing(call, passes)
    told: list[TransferState] = []

    async def play(pair: Two) -> None:
        report = pair.a.desk.report

        async def note(id: object, state: TransferState, cause: str) -> None:
            told.append(state)
            await report(id, state, cause)  # type: ignore[arg-type]

        pair.a.desk.report = note  # type: ignore[method-assign]
        pair.b.peer.inbound.disk = disk
        pair.connect()
        pair.send(File(str(tmp_path / "x"), "x"))
        causes = pair.a.peer.outbound.causes
        await pair.until(lambda: bool(causes))
        assert list(causes.values()) == ["the receiving node cannot take it now: [Errno 5] Input/output error"]
        assert told == []
        assert not pair.b.desk.machine.state.items
        assert [path.name for path in pair.b.desk.inbox.iterdir()] == [".rtmw"]
        disk.mend()
        pair.b.peer.inbound.try_again()
        letter = await pair.letter()
        assert disk.positions[0] == goes_on
        assert Path(files_of(letter)[0]).read_bytes() == data
        await pair.consume(letter)
        await pair.all_ended()

    run(tmp_path, play)
