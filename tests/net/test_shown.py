"""What DDS shows of others, while they come and go."""

from __future__ import annotations

import threading
import time
from typing import Any

from rtmw.net.dds.library import DataReader, DataWriter, DomainParticipant, Topic, matched, matched_endpoint
from tests.net.hosts import PATIENCE, wait_until
from tests.net.raw import OCTETS


# Proves G296.
def test_who_is_matched_can_be_asked_while_readers_come_and_go(participant: DomainParticipant, dds_domain: int) -> None:
    """As when eight nodes and thirty topics appear at once: between two questions there may be more of them."""
    writer: Any = DataWriter(participant, Topic(participant, "crowd", OCTETS))
    other = DomainParticipant(dds_domain)
    topic, is_over, seen = Topic(other, "crowd", OCTETS), threading.Event(), set[int]()

    def come_and_go() -> None:
        while not is_over.is_set():
            readers = [DataReader(other, topic) for _ in range(40)]
            del readers

    crowd = threading.Thread(target=come_and_go)
    crowd.start()
    try:
        until = time.monotonic() + PATIENCE
        while len(seen) < 400 and time.monotonic() < until:
            for handle in matched(writer._ref, True):
                row = matched_endpoint(writer._ref, True, handle)
                assert row is None or row[2] == b"crowd"
                seen.add(handle)
    finally:
        is_over.set()
        crowd.join()
    assert len(seen) >= 400
    wait_until(lambda: matched(writer._ref, True) == (), "some are matched that have left")


def test_all_are_told_however_many_there_are(participant: DomainParticipant, dds_domain: int) -> None:
    writer: Any = DataWriter(participant, Topic(participant, "many", OCTETS))
    other = DomainParticipant(dds_domain)
    topic = Topic(other, "many", OCTETS)
    readers = [DataReader(other, topic) for _ in range(100)]
    wait_until(lambda: len({*matched(writer._ref, True)}) == len(readers), "some are left out")
    back = matched(readers[0]._ref, False)
    assert len(back) == 1
    row = matched_endpoint(readers[0]._ref, False, back[0])
    assert row is not None
    assert row[2:4] == (b"many", b"rtmw::Octets")
