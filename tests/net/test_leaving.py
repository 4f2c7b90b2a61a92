"""A node that ends has its RELIABLE topics kept for the next one, by those who send them, and by nobody for ever."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from typing import Any

import pytest

import rtmw
from rtmw import Reliability
from rtmw.net.dds.succession import Leaving
from rtmw.net.node import END_S
from rtmw.net.topics import added, usable
from rtmw.observe.node_status import NodeStatus, Undelivered
from rtmw.text.strict_json import JsonError
from tests import warm
from tests.net.hosts import PATIENCE, Host, go_on, halt, wait_until
from tests.net.stranger import stranger_in
from tests.net.test_restart import LONG, TOPIC, Load, restart_while_taking, while_taking
from tests.net.ways import BOTH_WAYS
from tests.openmetrics import labelled, scraped
from tests.whole import sample

NOT_IN_TIME = "messages that are not delivered"
"""What a node says that could not wait any longer."""


@BOTH_WAYS
# Proves G240, G302.
def test_both_nodes_restarted_at_once_under_load_lose_nothing(hosts: tuple[Host, Host]) -> None:
    for host in hosts:
        host.start(*LONG)
    load = Load(*hosts)
    for _ in range(2):
        load.come(1000)
        restart_while_taking(load, *hosts)
    load.come(1000)
    load.all_came_once()
    assert not any(NOT_IN_TIME in host.said for host in hosts)


@BOTH_WAYS
# Proves G302.
def test_what_a_node_had_taken_for_one_that_ends_is_delivered_before_both_have_ended(hosts: tuple[Host, Host]) -> None:
    here, there = hosts
    for host in hosts:
        host.start(*LONG)
    load = Load(here, there)
    load.come(1000)
    for host in (there, here):  # the publisher goes on all the time, so the node here has messages in its queue
        while_taking(load, Host.stop, host)
    for host in hosts:
        host.start(*LONG)
    load.all_came_once()
    assert not any(NOT_IN_TIME in host.said for host in hosts)


@pytest.mark.parametrize("limit", sample(["--max-rate", "--topic-rates", "--peer-rates"], 1))
# Proves G298.
def test_of_a_slow_line_a_node_takes_no_more_than_it_can_send_before_both_have_ended(
    hosts: tuple[Host, Host], limit: str
) -> None:
    here, there = hosts
    here.start(*LONG, limit, "2K" if limit == "--max-rate" else "*=2K")
    there.start(*LONG)
    load = Load(here, there, digits=100)
    load.come(20)
    for host in (there, here):
        while_taking(load, Host.stop, host)
    for host in hosts:
        host.start(*LONG)
    load.all_came_once()
    assert not any(NOT_IN_TIME in host.said for host in hosts)


@BOTH_WAYS
# Proves G302.
def test_what_came_before_its_sender_left_is_on_the_bus_before_the_node_ends(hosts: tuple[Host, Host]) -> None:
    here, there = hosts
    for host in hosts:
        host.start(*LONG)
    load = Load(here, there)
    wait_until(lambda: there.crossed("in", TOPIC)["delayed"] > 0, "nothing waits for room")
    assert here.stop() == 0
    while_taking(load, Host.stop, there)
    for host in hosts:
        host.start(*LONG)
    load.all_came_once()
    assert not any(NOT_IN_TIME in host.said for host in hosts)


@BOTH_WAYS
def test_a_node_that_ends_does_not_wait_until_it_must_no_longer(hosts: tuple[Host, Host]) -> None:
    for host in hosts:
        host.start(*LONG)
    load = Load(*hosts)
    load.come(100)
    while_taking(load, Host.stop, hosts[1])
    wait_until(lambda: "RELIABLE topics wait for the next one" in hosts[0].said, "nobody keeps anything for it")
    hosts[1].start(*LONG)
    load.all_came_once()
    assert NOT_IN_TIME not in hosts[1].said


@BOTH_WAYS
def test_publishers_wait_for_a_node_elsewhere_as_long_as_their_own_node_allows_and_what_is_lost_is_told(
    hosts: tuple[Host, Host],
) -> None:
    here, there = hosts
    here.start("--handover", "1")
    there.start(*LONG)
    load = Load(here, there)
    load.come(100)
    load.end()
    wait_until(lambda: load.take() == load.sent, "not all comes")
    there.stop()
    begun = time.monotonic()
    for _ in range(5000):  # more than wait for it
        assert load.publisher.publish(b"%d" % load.sent)
        load.sent += 1
    assert time.monotonic() - begun < PATIENCE / 2
    there.start(*LONG)
    assert load.publisher.wait_for_subscribers(1, timeout=PATIENCE)

    def comes() -> bool:
        load.sent += load.publisher.publish(b"%d" % load.sent)
        load.take()
        return load.got[-1] >= load.sent - 1

    wait_until(comes, "no stream again")
    assert load.subscriber.stats().missed == load.got[-1] + 1 - len(load.got) > 0


@BOTH_WAYS
def test_what_is_published_for_a_node_that_has_ended_outlives_the_end_of_the_other_node(
    hosts: tuple[Host, Host],
) -> None:
    here, there = hosts
    for host in hosts:
        host.start(*LONG)
    load = Load(here, there)
    load.come(100)
    load.end()
    wait_until(lambda: load.take() == load.sent, "not all comes")
    assert there.stop() == 0
    wait_until(lambda: "RELIABLE topics wait for the next one" in here.said, "nothing is kept for it")
    for _ in range(50):  # fewer than wait for a node
        assert load.publisher.publish(b"%d" % load.sent)
        load.sent += 1
    assert here.stop() == 0
    assert NOT_IN_TIME not in here.said
    for host in hosts:
        host.start(*LONG)
    load.all_came_once()


# Proves G299.
def test_a_node_that_ends_names_what_it_takes_with_it_and_waits_once_for_all_topics(hosts: tuple[Host, Host]) -> None:
    here, there = hosts
    here.begins_warm = False  # how long its start takes is a measure below
    reliable, took, started = Reliability.RELIABLE, list[float](), list[float]()
    for topics in (1, 20):
        there.start()
        begun = time.monotonic()
        here.start()
        started.append(time.monotonic() - begun)
        names = [f"late/{number}" for number in range(topics)]
        readers = [rtmw.Subscriber(name, domain=there.domain, reliability=reliable) for name in names]
        writers = [rtmw.Publisher(name, domain=here.domain, reliability=reliable, max_blocking=0) for name in names]
        for writer in writers:
            assert writer.wait_for_subscribers(1, timeout=PATIENCE)
        there.kill()
        for writer in writers:
            assert writer.publish(b"nobody acknowledges it")
        for name in names:
            wait_until(lambda name=name: here.crossed("out", name)["sent"] > 0, f"{name} is not sent")
        begun = time.monotonic()
        assert here.stop() == 0
        took.append(time.monotonic() - begun)
        for one in (*readers, *writers):
            one.close()
    told = [line for line in here.said.splitlines() if NOT_IN_TIME in line]
    assert [line.count("what was sent last is not acknowledged by") for line in told] == [1, 20]
    assert took[1] < 2 * took[0]
    assert max(took) < END_S + 3 * max(started)  # and what a process and its topics take here to come or go


# Proves G300.
def test_what_a_node_took_with_it_is_shown_by_the_nodes_that_follow(hosts: tuple[Host, Host]) -> None:
    here, there = hosts
    here.start("--max-rate", "1K", "--handover", "0")  # of which it sends a few before it ends
    there.start()
    reliable = Reliability.RELIABLE
    subscriber = rtmw.Subscriber("slow", domain=there.domain, reliability=reliable, depth=100)
    publisher = rtmw.Publisher("slow", domain=here.domain, reliability=reliable, max_blocking=0)
    assert publisher.wait_for_subscribers(1, timeout=PATIENCE)
    assert publisher.publish_many([bytes(1000)] * 20) == 20
    wait_until(lambda: bool(subscriber.take_many(100)), "nothing is sent")
    assert here.stop() == 0
    told = re.search(r"slow: (\d+) taken from the bus and not sent", here.said)
    assert told, here.said
    left = int(told[1])
    row = {"topic": "slow", "direction": "out", "messages": left}
    for _ in range(2):
        here.start("--metrics-port", "0")
        (shown,) = here.info()["undelivered"]
        assert row.items() <= shown.items()
        of_topic = labelled(topic="slow", direction="out")
        metrics = scraped(f"http://127.0.0.1:{here.info()['metrics_port']}/metrics")
        assert metrics["rtmw_node_undelivered_total", of_topic] == left > 0
        assert here.stop() == 0


# Proves G300.
def test_what_a_node_that_stands_still_has_not_acknowledged_is_shown_as_a_number_that_is_not_known(
    hosts: tuple[Host, Host],
) -> None:
    here, there = hosts
    for host in hosts:
        host.start()
    reliable = Reliability.RELIABLE
    with (
        rtmw.Subscriber("r", domain=there.domain, reliability=reliable) as subscriber,
        rtmw.Publisher("r", domain=here.domain, reliability=reliable, max_blocking=0) as publisher,
    ):
        assert publisher.wait_for_subscribers(1, timeout=PATIENCE)
        assert publisher.publish(b"comes")
        assert subscriber.receive(timeout=PATIENCE).value == b"comes"
        halt(there)
        for _ in range(5):
            assert publisher.publish(b"comes or not")
        wait_until(lambda: here.crossed("out", "r")["sent"] == 6, "not all is sent")
        assert here.stop() == 0
        here.start("--metrics-port", "0")
        go_on(there)
        (shown,) = here.info()["undelivered"]
        (who,) = shown["unacknowledged_by"]
        assert (shown["messages"], who.startswith(f"the node of domain {there.number}")) == (0, True)
        metrics = scraped(f"http://127.0.0.1:{here.info()['metrics_port']}/metrics")
        of_topic = labelled(topic="r", direction="out")
        assert metrics["rtmw_node_undelivered_total", of_topic] == 0
        assert metrics["rtmw_node_undelivered_unacknowledged", of_topic] == 1
        told = warm.run("node", "doctor", "--domain", str(here.number)).stdout
        assert re.search(r"nodes that ended .*the last one \d+ s ago: r \(out, not known\)", told), told


# Proves G300.
def test_what_any_program_says_that_nodes_took_with_them_is_read_with_care() -> None:
    told: dict[str, Any] = {"topic": "t", "direction": "out", "messages": 2, "unacknowledged_by": ["far"]}
    for odd in (None, 7, {}, {**told, "messages": "2"}, {**told, "unacknowledged_by": 1}, {**told, "topic": None}):
        with pytest.raises(JsonError, match=r"undelivered\.1"):
            NodeStatus.of({"pid": 1, "told_ns": 1, "undelivered": [told, odd]})
    (row,) = NodeStatus.of({"pid": 1, "told_ns": 1, "undelivered": [told]}).undelivered
    assert row == Undelivered("t", "out", 2, ("far",))
    assert usable([replace(row, messages=-1), row, replace(row, direction="up")]) == [row]
    assert [one.messages for one in added([row], [row])] == [4]
    known = replace(row, unacknowledged_by=(), at=7.0)
    assert added([row], [known]) == [replace(row, messages=4, at=7.0)], "what was not known stays so"
    assert len(added((), [replace(row, topic=str(n)) for n in range(5000)])) == 1000


def test_who_is_no_node_makes_nobody_wait(hosts: tuple[Host, Host]) -> None:
    for host in hosts:
        host.start(*LONG)
    load = Load(*hosts)
    load.come(100)
    with stranger_in(hosts[0].dds_domain) as stranger:
        again = stranger.tell("rtmw/leaving", Leaving, Leaving(10**18, [1, 2, 3]), Leaving(0, [0] * 5000))

        def is_counted() -> bool:
            again()
            load.take()
            return any(cause == "rtmw/leaving" for cause in hosts[0].info()["refusals"])

        wait_until(is_counted, "the node does not count it")
        load.come(1000)
    load.all_came_once()


@BOTH_WAYS
def test_what_is_published_as_adaptive_waits_for_nobody(hosts: tuple[Host, Host]) -> None:
    here, there = hosts
    for host in hosts:
        host.start(*LONG)
    with (
        rtmw.Subscriber(TOPIC, domain=there.domain) as subscriber,
        rtmw.Publisher(TOPIC, domain=here.domain, reliability=Reliability.ADAPTIVE, max_blocking=0) as publisher,
    ):
        assert publisher.wait_for_subscribers(1, timeout=PATIENCE)
        publisher.publish(b"before")
        assert subscriber.receive(timeout=PATIENCE).value == b"before"
        there.stop()
        for _ in range(5000):
            assert publisher.publish(b"meanwhile")
