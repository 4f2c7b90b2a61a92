"""T3, T8 between two nodes: letters and files of a sender, of one priority and class, come in the order of sending."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import rtmw
from rtmw import Delivery, Level
from tests.transfer.between.pair import Pair, take
from tests.transfer.core_process import PATIENCE
from tests.transfer.programs.test_order import KINDS, content, number_of
from tests.whole import sample


@pytest.mark.parametrize("delivery", [Delivery.NORMAL, Delivery.LOG])
def test_letters_and_files_of_a_sender_come_to_another_node_in_the_order_of_sending(
    sender: rtmw.Sender, inbox: rtmw.Inbox, tmp_path: Path, delivery: Delivery
) -> None:
    count, taken = 5 * len(KINDS), list[int]()
    for number in range(count):
        sender.send("ingest@centre", content(tmp_path, number), delivery=delivery)
    for _ in range(count):
        with take(inbox) as letter:
            taken.append(number_of(letter))
    assert taken == list(range(count))


@pytest.mark.parametrize("seed", sample(range(24), 3))
# Proves G196.
def test_the_order_outlives_kills_of_both_cores_and_cuts_of_the_cable(pair: Pair, tmp_path: Path, seed: int) -> None:
    dice, count, taken = random.Random(seed), 5 * len(KINDS), list[int]()
    faults = {dice.randrange(count): dice.choice(("station", "centre", "cable")) for _ in range(4)}
    with (
        rtmw.Sender("gauge", domain=pair.station.domain) as sender,
        rtmw.Inbox("ingest", folder=pair.inbox, domain=pair.centre.domain) as inbox,
    ):
        sent = [
            sender.send("ingest@centre", content(tmp_path, number), delivery=Delivery.LOG, wait=Level.NONE)
            for number in range(count)
        ]
        while len(set(taken)) < count:
            with take(inbox) as letter:
                taken.append(number_of(letter))
            fault = faults.pop(len(set(taken)), None)
            if fault == "cable":
                pair.cable.cut()
            elif fault is not None:
                core = getattr(pair, fault)
                core.kill()
                core.start()
        assert all(one.wait(Level.CONSUMED, PATIENCE) for one in sent)
    assert list(dict.fromkeys(taken)) == list(range(count))
