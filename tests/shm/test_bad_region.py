"""Regions that cannot be used: of another version, half made, of another user, or too large for /dev/shm."""

from __future__ import annotations

import os
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import rtmw
from tests.books import assert_usable, assert_whole
from tests.child import Spawn

SHM = Path("/dev/shm")
VERSION_AT = 8
"""Where layout.h has the version: behind the magic number."""
NOBODY = 65534


def control(number: int) -> Path:
    return SHM / f"rtmw.{number}.control"


def blocks(number: int) -> Path:
    return next(SHM.glob(f"rtmw.{number}.blocks.*"))


def make(number: int) -> None:
    rtmw.Domain(number, pool="1M").close()


def write(path: Path, at: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)


def assert_can_be_removed_and_made_anew(number: int) -> None:
    rtmw.Domain.unlink(number)
    assert list(SHM.glob(f"rtmw.{number}.*")) == []
    with rtmw.Domain(number, pool="1M") as domain:
        assert_whole(domain)


def test_a_region_of_another_version_is_refused_with_both_versions_and_what_to_do(domain_id: int) -> None:
    make(domain_id)
    write(control(domain_id), VERSION_AT, struct.pack("<I", 4711))
    with pytest.raises(rtmw.VersionMismatch, match=r"layout 4711, and this rtmw speaks layout \d+; .*rtmw clean"):
        rtmw.Domain(domain_id)
    assert_can_be_removed_and_made_anew(domain_id)


def zero_the_magic(number: int) -> None:
    write(control(number), 0, bytes(8))


def cut_control_short(number: int) -> None:
    os.truncate(control(number), control(number).stat().st_size // 2)


def cut_control_to_its_header(number: int) -> None:
    os.truncate(control(number), 100)


def empty_control(number: int) -> None:
    os.truncate(control(number), 0)


def cut_blocks_short(number: int) -> None:
    os.truncate(blocks(number), 4096)


def remove_blocks(number: int) -> None:
    blocks(number).unlink()


def claim_a_larger_pool(number: int) -> None:
    write(control(number), 32, struct.pack("<Q", 1 << 30))


def claim_a_pool_whose_pages_nobody_can_count(number: int) -> None:
    write(control(number), 32, struct.pack("<Q", 1 << 44))
    os.truncate(blocks(number), 1 << 44)


def move_a_table(number: int) -> None:
    write(control(number), 64, struct.pack("<Q", 1 << 40))


@pytest.mark.parametrize(
    "damage",
    [
        zero_the_magic,
        cut_control_short,
        cut_control_to_its_header,
        empty_control,
        cut_blocks_short,
        remove_blocks,
        claim_a_larger_pool,
        claim_a_pool_whose_pages_nobody_can_count,
        move_a_table,
    ],
)
# Proves G100.
def test_a_half_made_or_damaged_region_is_refused_with_what_to_do(
    damage: Callable[[int], None], domain_id: int
) -> None:
    make(domain_id)
    damage(domain_id)
    for _ in range(2):
        with pytest.raises(rtmw.RegionDamaged, match=rf"{domain_id}.*half made.*rtmw clean"):
            rtmw.Domain(domain_id)
    assert_can_be_removed_and_made_anew(domain_id)


HEADER_BYTES = 192


# Proves G99.
def test_a_header_with_any_word_of_it_changed_is_refused(domain_id: int) -> None:
    make(domain_id)
    whole = control(domain_id).read_bytes()[:HEADER_BYTES]
    for at in range(0, HEADER_BYTES, 4):
        if at == 12:  # the pid of its maker, which is for people
            continue
        for changed in (0xFFFFFFFF, struct.unpack_from("<I", whole, at)[0] ^ 0x40000000):
            write(control(domain_id), at, struct.pack("<I", changed))
            with pytest.raises((rtmw.RegionDamaged, rtmw.VersionMismatch)):
                rtmw.Domain(domain_id)
        write(control(domain_id), at, whole[at : at + 4])
    with rtmw.Domain(domain_id) as domain:
        assert_whole(domain)


# Proves G99.
def test_what_is_written_over_the_header_later_changes_nothing_for_who_is_attached(domain: rtmw.Domain) -> None:
    write(control(domain.id), 0, b"\xff" * HEADER_BYTES)
    assert_whole(domain)


AS_NOBODY = f"""
    import os, rtmw
    number = int(os.environ["RTMW_DOMAIN"])
    os.setgid({NOBODY}); os.setuid({NOBODY})
    for use in (rtmw.Domain, rtmw.Domain.unlink):
        try:
            use(number)
        except PermissionError as error:
            print(type(error).__name__, error)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become another user")
# Proves G100.
def test_the_region_of_another_user_is_refused_with_what_to_do(domain: rtmw.Domain, spawn: Spawn) -> None:
    stranger = spawn(AS_NOBODY)
    for advice in ("use another number, or run as that user", "only that user can remove it"):
        line = stranger.line()
        assert line.startswith("AccessDenied")
        assert advice in line
    assert stranger.wait() == 0
    assert control(domain.id).exists()
    assert_usable(domain)


IN_SMALL_SHM = """
    import json, os, sys
    import rtmw
    from pathlib import Path
    number, found = int(os.environ["RTMW_DOMAIN"]), []
    for pool in ("64M", "4M", "1G"):
        try:
            rtmw.Domain(number, pool=pool)
        except rtmw.SharedMemoryFull as error:
            found.append([type(error).__name__, error.errno, str(error), sorted(os.listdir("/dev/shm"))])
    with rtmw.Domain(number, pool="64K") as domain:
        publisher, subscriber = rtmw.Publisher("a", domain=domain), rtmw.Subscriber("a", domain=domain)
        publisher.loan(32768).publish()
        found.append(subscriber.receive(10.0).data == bytes(32768))
        rtmw.Domain.unlink(number)
    print(json.dumps(found))
"""


def in_small_shm(script: Path) -> list[str]:
    """Run a program where /dev/shm has room for 6 MiB, in a mount namespace of its own."""
    import sys

    mount = 'mount -t tmpfs -o size=6m tmpfs /dev/shm && exec "$@"'
    return ["unshare", "--mount", "--propagation", "private", "sh", "-c", mount, "sh", sys.executable, str(script)]


def may_mount() -> bool:
    try:
        probe = ["unshare", "--mount", "sh", "-c", "mount -t tmpfs -o size=64k tmpfs /dev/shm"]
        return subprocess.run(probe, capture_output=True, timeout=20, check=False).returncode == 0
    except FileNotFoundError:
        return False


# Proves G102.
def test_a_dev_shm_that_is_too_small_is_an_error_at_creation_and_leaves_nothing_behind(
    domain_id: int, tmp_path: Path
) -> None:
    import json
    import textwrap

    if not may_mount():
        pytest.skip("a private mount namespace with a small /dev/shm is not permitted here")
    script = tmp_path / "small.py"
    script.write_text(textwrap.dedent(IN_SMALL_SHM))
    env = {**os.environ, "PYTHONPATH": str(Path(rtmw.__file__).parents[1])}
    result = subprocess.run(in_small_shm(script), env=env, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 0, result.stderr
    *refused, worked = json.loads(result.stdout)
    assert worked
    assert len(refused) == 3
    for name, number, text, left in refused:
        assert (name, number, left) == ("SharedMemoryFull", 28, [])
        assert "smaller pool" in text
        assert "remount,size" in text
