"""One process at a time has the lock of a file, and it ends with that process."""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from rtmw.errors import RecordingFailed
from rtmw.locks import FileLock, NoLocks, is_locked
from rtmw.recording.places import Claim
from tests.child import Spawn

FORKS = """
    import os
    from rtmw.locks import FileLock
    lock = FileLock(os.open({path!r}, os.O_RDWR | os.O_CREAT))
    {before}
    if os.fork() == 0:
        os.write(1, b"child %d %d %r\\n" % (os.getpid(), lock.descriptor, lock.is_ours))  # in one piece: both write
        os.read(0, 1)
        os._exit(0)
    {after}
    os.write(1, b"parent %r\\n" % lock.is_ours)
    os.waitpid(-1, 0)
"""


def opened(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT)


def test_a_lock_is_taken_once_and_free_again_when_it_is_closed(tmp_path: Path) -> None:
    with FileLock(opened(tmp_path / "file")) as first, FileLock(opened(tmp_path / "file")) as second:
        assert first.take()
        assert first.take(), "it has it"
        assert (second.take(), second.is_ours) == (False, False)
        first.close()
        first.close()
        assert not first.is_ours
        assert second.take()


def test_a_lock_that_is_dropped_is_given_back(tmp_path: Path) -> None:
    lock = FileLock(opened(tmp_path / "file"))
    descriptor = lock.descriptor
    assert lock.take()
    del lock
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)
    with FileLock(opened(tmp_path / "file")) as other:
        assert other.take()


def test_a_lock_is_free_when_it_was_given_back_though_a_process_that_was_started_meanwhile_has_a_copy(
    tmp_path: Path,
) -> None:
    with FileLock(opened(tmp_path / "file")) as lock, FileLock(opened(tmp_path / "file")) as other:
        assert lock.take()
        with subprocess.Popen(["cat"], stdin=subprocess.PIPE, pass_fds=[lock.descriptor]) as started:
            assert not other.take()
            lock.close()
            assert other.take()
            assert started.poll() is None


def test_whoever_only_looks_is_told_and_takes_nothing(tmp_path: Path) -> None:
    with FileLock(opened(tmp_path / "file")) as lock, (tmp_path / "file").open("rb") as looked:
        assert not is_locked(looked.fileno())
        looked.close()
        assert lock.take()
        with (tmp_path / "file").open("rb") as again:
            assert is_locked(again.fileno())


@pytest.mark.parametrize(("before", "after"), [("lock.take()", ""), ("", "lock.take()")], ids=["held", "taken later"])
def test_a_child_of_fork_does_not_keep_the_lock_of_a_parent_that_is_killed(
    before: str, after: str, spawn: Spawn, tmp_path: Path
) -> None:
    parent = spawn(FORKS.format(path=str(tmp_path / "file"), before=before, after=after))
    said = sorted([parent.line(), parent.line()])
    assert said[0].endswith("-1 False")
    assert said[1].endswith("True")
    with FileLock(opened(tmp_path / "file")) as lock:
        assert not lock.take()
        parent.kill()
        os.kill(int(said[0].split()[1]), 0)
        assert lock.take(), "the child lives, and has no part of it"
    parent.send()


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS])
def test_a_file_system_without_locks_is_told_apart_from_one_that_fails(
    number: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refuses(number: int) -> Callable[[int, int], None]:
        def flock(_descriptor: int, _kind: int) -> None:
            raise OSError(number, os.strerror(number))

        return flock

    with FileLock(opened(tmp_path / "file")) as lock:
        monkeypatch.setattr(fcntl, "flock", refuses(number))
        with pytest.raises(NoLocks):
            lock.take()
        with pytest.raises(NoLocks):
            is_locked(lock.descriptor)
        with Claim(tmp_path / "folder", RecordingFailed("held")) as claim:
            assert not claim.is_ours, "nobody is refused where there are no locks"
        monkeypatch.setattr(fcntl, "flock", refuses(errno.EIO))
        with pytest.raises(OSError, match="Input/output") as raised:
            lock.take()
        assert not isinstance(raised.value, NoLocks)


def test_a_claim_refuses_the_second_and_leaves_no_descriptor(tmp_path: Path) -> None:
    with Claim(tmp_path / "folder", RecordingFailed("held")):
        open_before = len(os.listdir("/proc/self/fd"))
        with pytest.raises(RecordingFailed, match="held"):
            Claim(tmp_path / "folder", RecordingFailed("held"))
        assert len(os.listdir("/proc/self/fd")) == open_before
    Claim(tmp_path / "folder", RecordingFailed("held")).close()
