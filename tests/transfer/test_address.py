"""T2: receivers are meant by service class and pid, and a pid means one life."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from rtmw.transfer.address import Address, Life, Reach


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("ingest", Address("ingest")),
        ("ingest/4711", Address("ingest", Reach.ONE, 4711)),
        ("ingest/*", Address("ingest", Reach.EACH)),
        ("ingest@hostB", Address("ingest", node="hostB")),
        ("ingest/4711@host.b", Address("ingest", Reach.ONE, 4711, "host.b")),
        ("ingest/*@h", Address("ingest", Reach.EACH, node="h")),
    ],
)
def test_t2_an_address_is_read_and_written(written: str, meant: Address) -> None:
    assert Address.parse(written) == meant
    assert str(meant) == written


@pytest.mark.parametrize(
    "written",
    [
        "",
        "/1",
        "@b",
        "a@",
        "a/",
        "a/0",
        "a/01",
        "a/-1",
        "a/1x",
        "a/**",
        "a/1/2",
        "a@b@c",
        "a b",
        "*",
        "a/99999999",
        ".a",
    ],
)
def test_t2_what_is_no_address_is_refused_with_what_to_write(written: str) -> None:
    with pytest.raises(ValueError, match="is no address"):
        Address.parse(written)


def test_an_address_that_is_no_text_is_refused() -> None:
    with pytest.raises(TypeError, match="5 is no address; it is text, such as 'service'"):
        Address.parse(5)  # type: ignore[arg-type]


def test_a_life_is_of_one_process_and_ends_with_it() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    life = Life.of_process(child.pid, generation=2)
    assert life is not None
    assert life.lives()
    assert (life.pid, life.generation) == (child.pid, 2)
    assert Life(life.pid, life.start + 1, 2).lives() is False  # the pid, used anew
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert not life.lives()  # not reaped yet
    child.wait()
    assert child.stdin is not None
    child.stdin.close()
    assert not life.lives()


def test_this_process_lives() -> None:
    life = Life.of_process()
    assert life is not None
    assert life.pid == os.getpid()
    assert life.lives()


@pytest.mark.parametrize("numbers", [(-1, 0, 0), (1, -1, 0), (1, 1, 1 << 32), (1 << 23, 0, 0)])
def test_a_life_that_cannot_be_is_refused(numbers: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match="is not possible"):
        Life(*numbers)
