"""A wall clock that is set while messages wait in a node: what is left of their lives does not change."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

import rtmw
from rtmw import Reliability
from tests.net.hosts import PATIENCE, Host, wait_until

COUNT = 30

SHIFTED = """
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *now)
{
    int code = (int)syscall(SYS_clock_gettime, clock, now);
    if (clock == CLOCK_REALTIME && access(getenv("CLOCK_IS_SET"), F_OK) == 0) now->tv_sec += 86400;
    return code;
}
"""


@pytest.fixture
def clock(hosts: tuple[Host, Host], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The first host's node is started, slow, and its wall clock goes a day ahead once this file is there."""
    if not shutil.which("gcc"):
        pytest.skip("needs gcc")
    if os.environ.get("LD_PRELOAD"):
        pytest.skip("something else is preloaded")
    source, library, is_set = (tmp_path / name for name in ("shifted.c", "shifted.so", "clock_is_set"))
    source.write_text(SHIFTED)
    subprocess.run(["gcc", "-D_GNU_SOURCE", "-shared", "-fPIC", "-o", library, source], check=True, timeout=60)
    with monkeypatch.context() as changed:
        changed.setenv("LD_PRELOAD", str(library))
        changed.setenv("CLOCK_IS_SET", str(is_set))
        hosts[0].start("--max-rate", "10K")
    hosts[1].start()
    return is_set


def test_a_wall_clock_set_forward_expires_nothing_that_waits_in_a_node(hosts: tuple[Host, Host], clock: Path) -> None:
    here, there = hosts
    publisher = rtmw.Publisher("news", domain=here.domain, depth=100, reliability=Reliability.RELIABLE)
    subscriber = rtmw.Subscriber("news", domain=there.domain, depth=100, reliability=Reliability.RELIABLE)
    assert publisher.wait_for_subscribers(1, timeout=PATIENCE)
    for _ in range(COUNT):
        assert publisher.publish(bytes(1000), lifetime=1000.0)
    lives = [subscriber.receive(timeout=PATIENCE).expires_ns]
    clock.touch()
    lives += [subscriber.receive(timeout=PATIENCE).expires_ns for _ in range(COUNT - 1)]
    assert None not in lives
    wait_until(lambda: here.crossed("out", "news")["sent"] == COUNT, "not all of them are counted")
    assert here.crossed("out", "news")["expired"] == 0
