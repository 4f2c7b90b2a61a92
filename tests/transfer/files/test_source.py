"""FILE (T9): a source is read in place; what changed since it was accepted is never sent as if it had not."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from rtmw.transfer.errors import SourceChanged, TransferRefused
from rtmw.transfer.files import Fingerprint, Source


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "run,1.mcap"
    path.write_bytes(bytes(range(250)) * 100)
    time.sleep(0.02)  # the clock of the file system goes on in steps
    return path


def _write(path: Path) -> None:
    times = os.stat(path)
    with path.open("r+b") as file:
        file.write(b"another")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))  # as one who hides it


def _cut(path: Path) -> None:
    os.truncate(path, 1000)


def _replace(path: Path) -> None:
    other = path.with_suffix(".new")
    other.write_bytes(path.read_bytes())
    other.rename(path)


CHANGES: dict[str, Callable[[Path], None]] = {
    "written to": _write,
    "cut": _cut,
    "longer": lambda p: os.truncate(p, 1 << 20),
}


def test_a_name_with_a_comma_is_read_in_place(path: Path) -> None:
    with Source(str(path)) as source:
        assert source.read(0, source.size) == path.read_bytes()
        assert source.read(24_000, 1000) == path.read_bytes()[24_000:]
        assert Fingerprint.unpack(source.fingerprint.pack()) == source.fingerprint


@pytest.mark.parametrize("change", CHANGES)
def test_a_source_that_is_changed_while_it_is_read_gives_no_byte_more(path: Path, change: str) -> None:
    with Source(str(path)) as source:
        source.read(0, 1000)
        CHANGES[change](path)
        with pytest.raises(SourceChanged, match="send it again"):
            source.read(0, 1000)
        with pytest.raises(SourceChanged, match="send it again"):
            source.read(24_500, 500)


@pytest.mark.parametrize("change", [*CHANGES, "replaced", "removed"])
def test_a_source_that_was_changed_since_it_was_accepted_is_not_opened(path: Path, change: str) -> None:
    with Source(str(path)) as source:
        accepted = source.fingerprint
    (CHANGES | {"replaced": _replace, "removed": Path.unlink})[change](path)
    with pytest.raises(SourceChanged, match="send it again"):
        Source(str(path), accepted)


def test_what_is_no_regular_file_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, Path("/dev/zero")):
        with pytest.raises(TransferRefused, match="no regular file"):
            Source(str(path))
    with pytest.raises(TransferRefused, match="no such file"):
        Source(str(tmp_path / "nothing"))
