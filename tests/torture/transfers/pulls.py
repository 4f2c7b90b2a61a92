"""A file between two real nodes whose cable is pulled again and again: it arrives whole, once, and little goes twice.

By turns both ends are told by a FIN, both by a RST, and neither, for whom a lease has to end.
"""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from pathlib import Path

import rtmw
from rtmw import Delivery, Level, TransferState
from tests.conftest import free_number
from tests.net.session.relay import Relay
from tests.transfer.between.pair import Pair, arrived, opened, take, until
from tests.transfer.carry.pair import AGAIN, digest, write_file
from tests.transfer.core_process import PATIENCE

OVERHEAD = 1.02
"""Of frames and TLS, and of what nodes say beside."""


def pull(size: int, number: int, *, tls: bool) -> int:
    """So many times while a file of this size goes. Bytes that were carried beside its own."""
    with ExitStack() as held:
        folder = Path(held.enter_context(tempfile.TemporaryDirectory()))
        domains = [held.enter_context(rtmw.Domain(free_number(with_dds=False), pool="8M", reserve=0)) for _ in "ab"]
        for domain in domains:
            held.callback(rtmw.Domain.unlink, domain.id)
        pair = Pair(folder, (domains[0].id, domains[1].id), tls=tls, keeps=False)
        held.callback(pair.end)
        write_file(folder / "source", size)
        pair.start()
        _endure(pair, size, number)
        return pair.cable.relay.passed - size


def _endure(pair: Pair, size: int, number: int) -> None:
    cable, source = pair.cable, pair.folder / "source"
    with (
        opened(lambda: rtmw.Inbox("ingest", folder=pair.inbox, domain=pair.centre.domain)) as inbox,
        opened(lambda: rtmw.Sender("gauge", domain=pair.station.domain)) as sender,
    ):
        sent = sender.send("ingest@centre", rtmw.File(source, "file"), delivery=Delivery.LOG)
        for turn in range(number):
            goal = (turn + 1) * (size // (number + 1))
            until(lambda goal=goal: arrived(pair) >= goal or _is_there(sent), f"{goal} bytes have come")  # type: ignore[misc]
            connections = cable.relay.connections
            (cable.cut, cable.reset, cable.silence)[turn % 3]()
            _wait_for_another_connection(cable.relay, connections)
        with take(inbox) as letter:
            assert letter.redelivered == 0
            assert digest(letter.files[0]) == digest(source)
        assert sent.wait(Level.CONSUMED, PATIENCE)
        assert inbox.take(0.2) is None
    assert cable.relay.connections > number
    assert cable.relay.passed <= OVERHEAD * (size + number * AGAIN)
    assert [path.name for path in pair.inbox.rglob("*") if path.is_file()] == ["file"]


def _wait_for_another_connection(relay: Relay, connections: int) -> None:
    """Which both ends have: a pull before that would meet nothing. `connections`: that there were before."""
    until(lambda: relay.connections > connections, "it is dialled again")
    passed = relay.passed
    until(lambda: relay.passed > passed, "something passes again")


def _is_there(sent: rtmw.Transfer) -> bool:
    return sent.state is not TransferState.ACCEPTED
