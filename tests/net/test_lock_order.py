"""The engine's locks are taken in their order (rtmw/net/route/locks.h): by an engine that looks at each of them."""

from __future__ import annotations

import shutil
import signal
import subprocess
from pathlib import Path

import pytest

import rtmw
from rtmw import Reliability
from tests.net.hosts import PATIENCE, Host, go_on, halt, wait_until
from tests.net.test_library import build_another_engine

SECONDS = 120.0
ROUTE = Path(rtmw.__file__).parent / "net" / "route"
BREAKS = """
#include "locks.h"
int main(int count, char **words)
{
    static pthread_mutex_t engine = PTHREAD_MUTEX_INITIALIZER, route = PTHREAD_MUTEX_INITIALIZER;
    (void)words;
    if (count == 1) lock(&engine, LOCK_ENGINE);
    lock(&route, LOCK_ROUTE);
    if (count == 2) lock(&engine, LOCK_ENGINE);
    unlock(&route, LOCK_ROUTE);
    return 0;
}
"""


def test_the_look_sees_an_order_that_is_broken(tmp_path: Path) -> None:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    (tmp_path / "breaks.c").write_text(BREAKS)
    flags = ["-std=gnu11", "-DRTMW_CHECK_LOCKS", f"-I{ROUTE}", "-pthread", "-o", str(tmp_path / "breaks")]
    subprocess.run([compiler, *flags, str(tmp_path / "breaks.c"), str(ROUTE / "locks.c")], check=True, timeout=SECONDS)
    assert subprocess.run([tmp_path / "breaks"], timeout=SECONDS).returncode == 0
    broken = subprocess.run([tmp_path / "breaks", "x"], capture_output=True, text=True, timeout=SECONDS)
    assert broken.returncode == -signal.SIGABRT
    assert "the order of locks is broken" in broken.stderr


def test_nodes_that_look_carry_all_kinds_of_messages_and_none_breaks_the_order(
    hosts: tuple[Host, Host], tmp_path: Path
) -> None:
    """A RELIABLE subscriber that is full, so that its node pauses the topic; large messages; a route that is opened
    anew; an end, at which topics are kept for the next node."""
    build_another_engine(tmp_path, "-DRTMW_CHECK_LOCKS")
    here, there = hosts
    for host in hosts:
        host.code = tmp_path
        host.start()
    asked = Reliability.RELIABLE
    subscriber = rtmw.Subscriber("many", domain=there.domain, reliability=asked, depth=5, lease=PATIENCE)
    publisher = rtmw.Publisher("many", domain=here.domain, reliability=asked, depth=5000, max_blocking=PATIENCE)
    large = rtmw.Subscriber("large", domain=there.domain, reliability=asked, depth=5, lease=PATIENCE)
    images = rtmw.Publisher("large", domain=here.domain, reliability=asked, max_blocking=PATIENCE)
    assert publisher.wait_for_subscribers(1, timeout=PATIENCE)
    assert images.wait_for_subscribers(1, timeout=PATIENCE)
    halt(here)
    assert publisher.publish_many([b"%d" % number for number in range(2000)]) == 2000
    go_on(here)
    wait_until(lambda: there.crossed("in", "many")["delayed"] > 0, "none had to wait")
    assert [int(subscriber.receive(timeout=PATIENCE).data) for _ in range(2000)] == [*range(2000)]
    for number in range(5):
        images.publish(bytes([number]) * (1 << 20))
        assert large.receive(timeout=PATIENCE).data[-1] == number
    subscriber.close()
    wait_until(lambda: "many" not in [row["topic"] for row in there.info()["in"]], "the route stays")
    again = rtmw.Subscriber("many", domain=there.domain, reliability=asked, depth=5, lease=PATIENCE)
    assert publisher.wait_for_subscribers(1, timeout=PATIENCE)
    publisher.publish(b"again")
    assert again.receive(timeout=PATIENCE).value == b"again"
    there.stop()
    there.start()
    publisher.publish(b"to the next node")
    assert again.receive(timeout=PATIENCE).value == b"to the next node"
    for host in hosts:
        assert host.stop() == 0, host.said
