"""A link that is cut: for less than the lease nothing RELIABLE is lost, for longer the peer is gone."""

from __future__ import annotations

import threading

import rtmw
from rtmw import Reliability
from tests.net.hosts import PATIENCE, wait_until
from tests.net.link.cable import Cabled


# Proves G219.
def test_a_cut_shorter_than_the_lease_loses_nothing_reliable(cabled: Cabled) -> None:
    pair, cable = cabled
    pair.start().wait_up()
    count, got = 3000, list[bytes]()
    with (
        rtmw.Subscriber("a", reliability=Reliability.RELIABLE, depth=64, domain=pair.hub.domain) as taker,
        rtmw.Publisher("a", reliability=Reliability.RELIABLE, max_blocking=PATIENCE, domain=pair.press.domain) as out,
    ):
        wait_until(lambda: pair.crossed("hub", "in", "a")["writers"] == 1, "the route")

        def read() -> None:
            while len(got) < count:
                got.append(taker.receive(timeout=PATIENCE).value)

        reader = threading.Thread(target=read)
        reader.start()
        for number in range(count):
            assert out.publish(b"%d" % number)
            if number % 750 == 500:
                cable.cut(stays_down=False)
        reader.join(PATIENCE)
        assert got == [b"%d" % number for number in range(count)]
        assert taker.stats().missed == 0
    wait_until(lambda: pair.peers("hub")[0]["resumes"] >= 3, "it has resumed")


def test_after_a_cut_longer_than_the_lease_the_peer_is_gone_and_another_link_begins(
    cabled: Cabled,
) -> None:
    pair, cable = cabled
    for name in pair.hosts:
        pair.link[name] = "lease = 1.0\n"
    pair.start().wait_up()
    with (
        rtmw.Subscriber("a", reliability=Reliability.RELIABLE, domain=pair.hub.domain) as taker,
        rtmw.Publisher("a", reliability=Reliability.RELIABLE, max_blocking=0, domain=pair.press.domain) as out,
    ):
        wait_until(lambda: pair.crossed("hub", "in", "a")["writers"] == 1, "the route")
        assert out.publish(b"before")
        assert taker.receive(timeout=PATIENCE).value == b"before"
        cable.cut(stays_down=True)
        for name in pair.hosts:
            wait_until(lambda name=name: "is over: it was cut for longer" in pair.hosts[name].said, "the end")  # type: ignore[misc]
        for number in range(1000):  # nobody is waited for
            assert out.publish(b"meanwhile %d" % number)
        cable.mend()
        pair.wait_up()
        wait_until(lambda: pair.crossed("hub", "in", "a")["writers"] == 1, "the route is there again")
        assert out.publish(b"after")
        assert taker.receive(timeout=PATIENCE).value == b"after"


# Proves G218.
def test_both_ends_act_on_the_shorter_lease_of_the_two_also_when_a_reload_makes_it_shorter(cabled: Cabled) -> None:
    pair, cable = cabled
    pair.link["hub"] = pair.link["press"] = "lease = 600.0\n"
    pair.start().wait_up()
    assert [pair.peers(name)[0]["lease"] for name in pair.hosts] == [600.0, 600.0]
    pair.link["press"] = "lease = 1.0\n"
    pair.reload("press")
    wait_until(lambda: all(pair.peers(name)[0]["lease"] == 1.0 for name in pair.hosts), "both know it")
    pair.wait_up()
    cable.cut(stays_down=True)
    for name, whose in (("hub", "the peer's"), ("press", "the")):
        words = f"is over: it was cut for longer than {whose} lease of 1 s"
        wait_until(lambda name=name, words=words: words in pair.hosts[name].said, "the end")  # type: ignore[misc]


def test_kept_messages_come_once_also_when_another_link_has_begun(cabled: Cabled) -> None:
    pair, cable = cabled
    for name in pair.hosts:
        pair.link[name] = "lease = 1.0\n"
    pair.start().wait_up()
    with (
        rtmw.Publisher("a", history=2, domain=pair.press.domain) as out,
        rtmw.Subscriber("a", history=2, depth=16, domain=pair.hub.domain) as taker,
    ):
        for message in (b"1", b"2"):
            out.publish(message)
        assert [taker.receive(timeout=PATIENCE).value for _ in range(2)] == [b"1", b"2"]
        cable.cut(stays_down=True)
        for host in pair.hosts.values():
            wait_until(lambda host=host: "is over: it was cut for longer" in host.said, "the end")  # type: ignore[misc]
        cable.mend()
        pair.wait_up()
        wait_until(lambda: pair.crossed("hub", "in", "a")["old"] == 2, "those that are here already")
        out.publish(b"3")
        assert taker.receive(timeout=PATIENCE).value == b"3"
