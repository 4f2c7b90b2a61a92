"""A node that is killed under load: all that subscribers lost of a RELIABLE topic is told them, and hardly more."""

from __future__ import annotations

import pytest

from tests.net.hosts import Host, wait_until
from tests.net.test_restart import Load
from tests.net.ways import LINK

SHORT = ("--lease", "1")
KILLS = 3
"""So many messages may be told more than were lost: each node may die between the two words that it writes of one."""


@pytest.mark.parametrize("hosts", [LINK], indirect=True)
@pytest.mark.parametrize("killed", [0, 1], ids=["the publisher's", "the subscriber's"])
def test_all_that_is_lost_when_a_node_is_killed_under_load_is_told(hosts: tuple[Host, Host], killed: int) -> None:
    for host in hosts:
        host.start(*SHORT)
    load = Load(*hosts)
    for _ in range(KILLS):
        load.come(2000)  # more than wait for the subscriber: the stream has come through again
        hosts[killed].kill()
        hosts[killed].start(*SHORT)
    load.come(2000)
    load.end()

    def comes() -> bool:
        load.sent += load.publisher.publish(b"%d" % load.sent)
        load.take()
        return load.got[-1] == load.sent - 1

    wait_until(comes, "the last one does not come")
    lost, told = load.sent - len(load.got), load.subscriber.stats().missed
    assert load.got == sorted(set(load.got))
    assert lost > 0
    assert lost <= told <= lost + KILLS
