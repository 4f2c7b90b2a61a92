"""How much of /dev/shm a domain takes, and that a small one fits where there is little."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import rtmw
from rtmw import shm
from tests import namespaces

MIB = 1 << 20
PAGE = Path(__file__).parents[2] / "docs" / "memory.md"
ROWS = re.findall(r"^\| (\d+[MG])[^|]*\| ([\d,]+) MiB \|", PAGE.read_text(), re.MULTILINE)


@pytest.mark.parametrize(("pool", "in_all"), ROWS)
def test_the_page_says_what_a_domain_takes(pool: str, in_all: str) -> None:
    assert -(-shm.domain_bytes(shm.parse_size(pool)) // MIB) == int(in_all.replace(",", ""))


def test_the_page_has_the_default() -> None:
    assert ("64M", "84") in ROWS


def test_a_domain_takes_what_is_said_and_no_more(domain_id: int) -> None:
    with rtmw.Domain(domain_id, pool="4M"):
        objects = Path("/dev/shm").glob(f"rtmw.{domain_id}.*")
        assert sum(path.stat().st_blocks * 512 for path in objects) == shm.domain_bytes(4 * MIB)


SHM_OF_A_CONTAINER = """
    import os, re
    import rtmw
    number = int(os.environ["RTMW_DOMAIN"])
    try:
        rtmw.Publisher("a")
    except rtmw.SharedMemoryFull as error:
        print(error, flush=True)
        advised = re.search(r'rtmw[.]Domain[(]\\d+, pool="\\d+M"[)]', str(error))[0]
    print(os.listdir("/dev/shm"), flush=True)
    with eval(advised) as domain, rtmw.Publisher("a") as publisher, rtmw.Subscriber("a") as subscriber:
        publisher.loan(domain.pool // 8).publish()
        print(domain.pool, len(subscriber.receive(10.0).data), flush=True)
    about = os.statvfs("/dev/shm")
    print(about.f_bavail * about.f_frsize, flush=True)
"""


# Proves G103.
def test_a_small_pool_fits_the_shm_of_a_container_with_room_to_spare_and_the_error_names_it(
    domain_id: int, tmp_path: Path
) -> None:
    mount = "mount -t tmpfs -o size=64m tmpfs /dev/shm"
    private = ("unshare", "--mount", "--propagation", "private", "sh", "-c")
    namespaces.require(*private, mount)
    command = [*private, f'{mount} && exec "$0" "$@"']
    with namespaces.start(command, SHM_OF_A_CONTAINER, tmp_path / "container.py") as container:
        told = namespaces.line(container)
        for part in (
            f"domain {domain_id}",
            "84 MiB",
            "a pool of 64 MiB",
            "20 MiB of tables",
            "64 MiB of 64 MiB are free",
        ):
            assert part in told
        for part in (f'rtmw.Domain({domain_id}, pool="32M") fits', "--shm-size", "remount,size"):
            assert part in told
        assert namespaces.line(container) == "[]"
        assert namespaces.line(container) == f"{32 * MIB} {4 * MIB}"
        assert int(namespaces.line(container)) > 16 * MIB
        assert container.wait(20) == 0
