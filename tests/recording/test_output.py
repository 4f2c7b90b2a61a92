"""The file of a recording on a disk that writes short, is full, or fails at a sync."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rtmw.recording.places import written_whole
from rtmw.recording.writer import Output
from tests.disks import Counting, Killed, Short, full

GROUP = (b"head", b"", memoryview(b"payload" * 100), b"tail")
ALL = b"".join(GROUP)


@pytest.mark.parametrize("most", [1, 3, 699])
# Proves G151.
def test_groups_come_whole_to_a_disk_that_writes_short(most: int, tmp_path: Path) -> None:
    output = Output(tmp_path / "file", Short(most))
    output.append(*GROUP)
    output.append(*GROUP)
    output.close()
    assert (tmp_path / "file").read_bytes() == 2 * ALL
    assert output.end.position == 2 * len(ALL)


def test_a_group_that_has_no_room_is_not_there_at_all_and_can_be_appended_again(tmp_path: Path) -> None:
    class Fills(Counting):
        """Takes ten bytes of the second group."""

        def write_some(self, descriptor: int, parts: object, position: int) -> int:
            if len(self.calls) < 2:
                return super().write_some(descriptor, parts, position)  # type: ignore[arg-type]
            if len(self.calls) == 2:
                self.calls.append(("write", ""))
                return Short(10).write_some(descriptor, parts, position)  # type: ignore[arg-type]
            raise full()

    disk = Fills()
    output = Output(tmp_path / "file", disk)
    output.append(*GROUP)
    with pytest.raises(OSError, match="No space"):
        output.append(*GROUP)
    assert disk.calls[-1][0] == "cut"
    assert (tmp_path / "file").read_bytes() == ALL
    disk.calls.clear()
    output.append(*GROUP)
    output.close()
    assert (tmp_path / "file").read_bytes() == 2 * ALL


def test_the_first_sync_is_that_of_the_name_too_and_one_that_failed_is_told(tmp_path: Path) -> None:
    disk = Counting()
    output = Output(tmp_path / "file", disk)
    output.append(*GROUP)
    output.sync()
    output.sync()
    said = [what for what, _ in disk.calls]
    assert said == ["create", "write", "sync_data", "sync", "sync_data"]
    output.close()
    output = Output(tmp_path / "other", Counting(1, full()))
    with pytest.raises(OSError, match="may not be on the disk"):
        output.sync()
    output.close()


@pytest.mark.parametrize("call", range(3))
def test_a_file_that_is_written_whole_is_on_the_disk_before_it_has_its_name(call: int, tmp_path: Path) -> None:
    target = tmp_path / "file"
    disk = Counting(call)
    with pytest.raises(Killed), written_whole(target, disk=disk) as temporary:
        temporary.write_bytes(ALL)
    assert [what for what, _ in disk.calls] == ["sync", "rename", "sync"][:call]
    assert target.exists() == (call == 2)


def test_a_file_whose_close_fails_is_not_closed_again(tmp_path: Path) -> None:
    output = Output(tmp_path / "file")
    os.close(output._file)  # as a close that fails leaves it: closed
    with pytest.raises(OSError, match="Bad file descriptor"):
        output.close()
    with (tmp_path / "other").open("wb") as other:
        output.close()
        other.write(b"the number may be its own now")
