"""FILE (T4): nothing outside of the receiver's folder is opened, in both ways in which a path is resolved."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from rtmw.disk import Disk
from rtmw.transfer.errors import TransferRefused
from rtmw.transfer.files import open_folder, split, system_resolves

WAYS = {"openat2": True, "walk": False}


@pytest.fixture(params=WAYS)
def by_system(request: pytest.FixtureRequest) -> bool:
    if request.param == "openat2" and not system_resolves():
        pytest.skip("this system has no openat2, or forbids it; Linux 5.6 has it")
    return WAYS[request.param]


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[int]:
    (tmp_path / "inbox" / "in").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    descriptor = os.open(tmp_path / "inbox", os.O_RDONLY | os.O_DIRECTORY)
    yield descriptor
    os.close(descriptor)


def opened(folder: int, path: str, disk: Disk | None, by_system: bool) -> str:
    """The real path of what was opened."""
    descriptor = open_folder(folder, tuple(path.split("/")), disk, by_system=by_system)
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}")
    finally:
        os.close(descriptor)


def descriptors_below(path: Path) -> dict[str, str]:
    """Not those of the whole process: what earlier tests have left to the garbage collector is closed at any time."""
    found: dict[str, str] = {}
    for name in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # that of the listing itself
            found[name] = os.readlink(f"/proc/self/fd/{name}")
    return {name: target for name, target in found.items() if target.startswith(str(path))}


@pytest.mark.parametrize(
    "destination", ["", "/etc/passwd", "../a", "a/../b", "a//b", "a/", "./a", "..", ".", "a/.", ".rtmw/x", "x\0y"]
)
def test_a_destination_that_leaves_the_folder_or_is_no_path_is_refused_by_its_text(destination: str) -> None:
    with pytest.raises(TransferRefused, match="is refused"):
        split(destination)


def test_a_name_of_more_bytes_than_a_file_may_have_is_refused() -> None:
    assert split("ü" * 127 + "x") == ("ü" * 127 + "x",)
    with pytest.raises(TransferRefused, match="longer than 255 bytes"):
        split("in/" + "ü" * 128)


def test_names_with_commas_dots_and_spaces_are_names() -> None:
    assert split("in, out/run,1..mcap") == ("in, out", "run,1..mcap")


def test_a_folder_below_is_opened_and_made_if_it_is_not_there(folder: int, tmp_path: Path, by_system: bool) -> None:
    assert opened(folder, "in", None, by_system) == str(tmp_path / "inbox" / "in")
    with pytest.raises(FileNotFoundError):
        opened(folder, "in/new/er", None, by_system)
    assert opened(folder, "in/new/er", Disk(), by_system) == str(tmp_path / "inbox" / "in" / "new" / "er")


@pytest.mark.parametrize("target", ["../outside", "in", "/etc"])
@pytest.mark.parametrize("path", ["link", "link/below", "in/link", "in/link/below"])
def test_a_symbolic_link_on_the_way_is_refused_wherever_it_leads(
    folder: int, tmp_path: Path, by_system: bool, target: str, path: str
) -> None:
    (tmp_path / "inbox" / path.removesuffix("/below")).symlink_to(target)
    with pytest.raises(TransferRefused, match="symbolic link"):
        opened(folder, path, Disk(), by_system)
    assert list((tmp_path / "outside").iterdir()) == []


def test_a_file_on_the_way_is_refused(folder: int, tmp_path: Path, by_system: bool) -> None:
    (tmp_path / "inbox" / "file").write_bytes(b"x")
    with pytest.raises(TransferRefused, match="a file"):
        opened(folder, "file/below", Disk(), by_system)


def test_a_mount_point_on_the_way_is_refused(by_system: bool) -> None:
    root = os.open("/", os.O_RDONLY | os.O_DIRECTORY)
    try:
        with pytest.raises(TransferRefused, match="mount point"):
            opened(root, "proc/self", None, by_system)
    finally:
        os.close(root)


def test_no_descriptor_is_left_open(folder: int, tmp_path: Path, by_system: bool) -> None:
    (tmp_path / "inbox" / "link").symlink_to("in")
    before = descriptors_below(tmp_path)
    for path in ("in", "a/b/c", "in/x"):
        opened(folder, path, Disk(), by_system)
    with pytest.raises(TransferRefused):
        opened(folder, "link/a", Disk(), by_system)
    assert descriptors_below(tmp_path) == before
