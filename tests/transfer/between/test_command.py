"""`rtmw send` and `rtmw transfers` between two nodes."""

from __future__ import annotations

import json
import signal

import pytest

import rtmw
from rtmw import Delivery, Level
from tests import warm
from tests.child import Spawn
from tests.transfer.between.pair import MIB, Pair, arrived, shown, take, until
from tests.transfer.carry.pair import AGAIN, digest, write_file
from tests.transfer.core_process import PATIENCE

SIZE = 128 * MIB


def run(*words: str) -> str:
    """What the command prints; it ends well."""
    return warm.run(*words, check=True).stdout


def test_a_send_that_is_given_again_in_the_middle_of_a_file_goes_on_with_it(
    pair: Pair, inbox: rtmw.Inbox, spawn: Spawn
) -> None:
    source = pair.folder / "run.mcap"
    write_file(source, SIZE)
    where = ["--domain", str(pair.station.domain)]
    words = ["send", str(source), "--to", "ingest@centre", *where, "--wait", "sent", "--timeout", str(PATIENCE)]
    child = spawn(f"import sys\nfrom rtmw.cli import main\nprint(0)\nsys.exit(main({words!r}))")
    until(lambda: arrived(pair) > SIZE // 4, "a part of it has come")
    pair.cable.take_down()
    child.signal(signal.SIGINT)
    assert child.wait() == 130
    (row,) = json.loads(run("transfers", "--json", *where))["transfers"]
    assert arrived(pair) < SIZE
    pair.cable.put_up()
    (sent,) = json.loads(run(*words, "--json"))
    assert (sent["id"], sent["state"]) == (row["id"], "SENT")
    with take(inbox) as letter:
        assert digest(letter.files[0]) == digest(source)
    assert inbox.take(0) is None
    assert pair.cable.relay.passed < 1.02 * (SIZE + AGAIN)


def test_the_retries_of_a_letter_are_shown_by_the_node_that_hands_it_over(pair: Pair, sender: rtmw.Sender) -> None:
    sent = sender.send("ingest@centre", b"poison", delivery=Delivery.LOG)
    with rtmw.Inbox("ingest", domain=pair.centre.domain) as inbox, rtmw.Sender("a", domain=pair.centre.domain) as there:
        for _ in range(16):
            take(inbox).give_back("not now")
        with pytest.raises(rtmw.TransferRefused, match="delivered 16 times"):
            sent.wait(Level.CONSUMED, PATIENCE)
        for who, counted in ((sender, (None, None)), (there, (16, 15))):
            (row,) = shown(who)
            assert (row["state"], row["deliveries"], row["retries"]) == ("DEAD", *counted)
    assert str(sent.id) in run("transfers", "--domain", str(pair.station.domain))
