"""A relay that is killed, or whose disk fails or is full, at any call that changes its files (R3, R4, R8)."""

from __future__ import annotations

import errno
import threading
from collections import Counter
from contextlib import suppress
from itertools import islice
from pathlib import Path

import pytest

import rtmw
from rtmw.relay import Frame
from rtmw.relay import rows as r
from rtmw.relay.seals import verify
from tests import namespaces
from tests.relay.servers import ALONE, PATIENCE, Ended, Peer, Relay
from tests.transfer.kill_at_call import killed_at_call
from tests.whole import sample

ORDERS = 8
CALLS = range(1, 120)
"""A start on an empty folder and ORDERS orders have some more than half of them."""
CASES = [(call, error) for error in (0, errno.EIO, errno.ENOSPC) for call in CALLS]


def exchange(relay: Relay, orders: dict[bytes, Frame], got: Counter[bytes], told: dict[bytes, bytes]) -> None:
    """Each order in its turn, until the relay is gone. `told`: what the source hears of each, by stamp."""
    source, gate = Peer(relay, "AODB"), Peer(relay, "GATE")
    gate.socket.settimeout(0.01)
    source.socket.settimeout(0.01)
    for stamp, frame in orders.items():
        source.send(frame)
        answer = None
        while answer is None:
            with suppress(TimeoutError):
                came = gate.take()
                got[came.stamp] += 1
                gate.confirm(came)
            with suppress(TimeoutError):
                found = source.take()
                answer = found.body if found.answers[0] == stamp else None
        assert told.setdefault(stamp, answer) == answer, "an outcome that was told holds"


@pytest.mark.parametrize(("call", "error"), sample(CASES, 5))
# Proves G321.
def test_no_order_that_was_answered_is_lost_and_each_outcome_holds_whatever_call_dies_or_fails(
    call: int, error: int, tmp_path: Path
) -> None:
    relay = Relay(tmp_path)
    maker = Peer.__new__(Peer)
    maker.address = "AODB"
    orders = {frame.stamp: frame for frame in (maker.made("GATE", b"%d" % number) for number in range(ORDERS))}
    got, told = Counter[bytes](), dict[bytes, bytes]()
    relay.before = killed_at_call(tmp_path, call, error)
    with suppress(OSError, StopIteration, Ended):
        relay.start()
        exchange(relay, orders, got, told)
    relay.kill()
    relay.before = []
    relay.start()
    try:
        exchange(relay, orders, got, told)
        assert relay.end() == 0
    finally:
        relay.kill()
    rows = relay.rows()
    stored = Counter(row.head[8:30] for row in rows if row.kind == r.STORED)
    assert stored == dict.fromkeys(orders, 1), "one id, one effect"
    delivered = {row.order for row in rows if row.kind == r.DELIVERED}
    numbers = {row.head[8:30]: row.order for row in rows if row.kind == r.STORED}
    assert all(numbers[stamp] in delivered and got[stamp] for stamp, cause in told.items() if not cause)
    assert verify(tmp_path / "relay" / "record").faults == []


OWN_DISK = """
import os, time
import rtmw

with rtmw.Agent("AODB", server="unix:{server}", folder="{disk}/aodb") as source:
    for number in range(30):
        while True:
            try:
                sent = source.send("GATE", b"x" * 900_000)
                break
            except rtmw.LogFull:
                time.sleep(0.05)
        assert sent.wait(60).name == "DELIVERED"
print("all are delivered")
"""


# Proves G330.
def test_an_agent_whose_own_log_has_filled_its_disk_removes_what_nobody_needs_and_goes_on(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    namespaces.require("unshare", "--mount", "sh", "-c", f"mount -t tmpfs -o size=64k tmpfs {disk}")
    mount = f'mount -t tmpfs -o size=20m tmpfs {disk} && exec "$@"'
    relay = Relay(tmp_path, ALONE)
    relay.start()
    source = OWN_DISK.format(server=tmp_path / "relay.sock", disk=disk)
    program = namespaces.start(["unshare", "--mount", "sh", "-c", mount, "sh"], source, tmp_path / "small.py")
    try:
        with rtmw.Agent("GATE", server=f"unix:{tmp_path}/relay.sock") as gate:
            taken = threading.Thread(target=lambda: [*islice(gate, 30)], daemon=True)
            taken.start()
            assert "all are delivered" in program.communicate(timeout=PATIENCE)[0]
    finally:
        program.kill()
        program.communicate()
        relay.kill()
