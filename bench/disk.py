"""A folder on a disk, for what is measured with a sync: in memory a sync costs nothing, and says nothing."""

from __future__ import annotations

import tempfile
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import psutil

from bench.cases import CannotMeasure
from bench.stage import ROOT

IN_MEMORY = frozenset({"tmpfs", "ramfs", "devtmpfs"})
ANY_MAY_ENTER = 0o755
PLACES = (Path(tempfile.gettempdir()), Path("/var/tmp"), ROOT / "build")
"""Where a folder is looked for, in this order. Folders that other users may enter come first: PostgreSQL needs one."""


def file_system(path: Path) -> str:
    """The kind of file system on which a path lies, as the system calls it: ext4, xfs, tmpfs."""
    whole = path.resolve()
    mounts = {Path(part.mountpoint): part.fstype for part in psutil.disk_partitions(all=True)}
    return next((mounts[place] for place in (whole, *whole.parents) if place in mounts), "unknown")


def on_disk(places: Iterable[Path] = PLACES) -> Path:
    """The first place that is there and not in memory; CannotMeasure: all are."""
    found = {place: file_system(place) for place in places if place.is_dir()}
    for place, kind in found.items():
        if kind not in IN_MEMORY:
            return place
    listed = ", ".join(f"{place} ({kind})" for place, kind in found.items())
    raise CannotMeasure(f"a sync needs a disk, and all folders are in memory: {listed}; set TMPDIR to one on a disk")


@cache
def _whole() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="rtmw-bench-disk-", dir=on_disk())


def folder() -> Path:
    """One for the whole run, which any user may enter; it goes with this process."""
    path = Path(_whole().name)
    path.chmod(ANY_MAY_ENTER)
    return path


@contextmanager
def new_folder() -> Generator[Path]:
    """One in it, for the length of a block."""
    with tempfile.TemporaryDirectory(dir=folder()) as made:
        Path(made).chmod(ANY_MAY_ENTER)
        yield Path(made)
