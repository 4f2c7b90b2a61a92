"""The node's metrics, as Prometheus scrapes them."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Iterator
from urllib.error import HTTPError
from urllib.request import urlopen

import psutil
import pytest

import rtmw
from rtmw.domain import LARGEST_ID
from rtmw.errors import RtmwError
from rtmw.net.metrics import Metrics
from rtmw.net.settings import Settings
from rtmw.observe.node_status import CARRIED, Crossing, Ended, NodeStatus, Standstills
from tests.net.hosts import PATIENCE, Host, wait_until
from tests.openmetrics import Samples, labelled, scraped

ADDRESS = Settings().metrics_address
NOWHERE = LARGEST_ID
"""A domain that no test makes."""


def scrape(port: int) -> Samples:
    return scraped(f"http://{ADDRESS}:{port}/metrics")


def port_of(host: Host) -> int:
    said = re.search(r"metrics are at http://127\.0\.0\.1:(\d+)/metrics", host.said)
    assert said, host.said
    return int(said[1])


def test_messages_that_cross_are_counted_by_topic_and_direction(hosts: tuple[Host, Host]) -> None:
    here, there = hosts
    here.start("--metrics-port", "0")
    there.start("--metrics-port", "0")
    subscriber = rtmw.Subscriber("counted", domain=there.domain)
    publisher = rtmw.Publisher("counted", domain=here.domain)
    assert publisher.wait_for_subscribers(1, timeout=PATIENCE)
    for number in range(3):
        publisher.publish(b"%d" % number)
        subscriber.receive(timeout=PATIENCE)
    out, into = labelled(topic="counted", direction="out"), labelled(topic="counted", direction="in")
    wait_until(lambda: scrape(port_of(here)).get(("rtmw_node_messages_total", out)) == 3, "3 messages are not shown")
    wait_until(lambda: scrape(port_of(there)).get(("rtmw_node_messages_total", into)) == 3, "3 messages are not shown")
    shown = scrape(port_of(here))
    assert shown["rtmw_node_bytes_total", out] == 3
    assert shown["rtmw_node_matched_endpoints", out] == 1
    assert shown["rtmw_node_drops_total", out | {("cause", "expired")}] == 0
    wait_until(lambda: scrape(port_of(here))["rtmw_node_peers", labelled()] == 1, "the other node is not shown")
    of_topic = labelled(domain=str(here.number), topic="counted")
    assert scrape(port_of(here))["rtmw_topic_messages_total", of_topic] == 3


def ended(host: Host, way: str) -> list[tuple[str, int, int]]:
    """Topic, messages and bytes of what no longer crosses."""
    return [(row["topic"], row[CARRIED[way]], row["bytes"]) for row in host.info()["ended"][way]]


def test_what_was_counted_stays_when_a_topic_no_longer_crosses(pair: tuple[Host, Host]) -> None:
    here, there = pair
    with rtmw.Publisher("ended", domain=here.domain) as publisher:
        for crossed in (3, 6):
            with rtmw.Subscriber("ended", domain=there.domain) as subscriber:
                assert publisher.wait_for_subscribers(1, timeout=PATIENCE)
                for number in range(3):
                    publisher.publish(b"%d" % number)
                    subscriber.receive(timeout=PATIENCE)
            found = [("ended", crossed, crossed)]
            wait_until(lambda known=found: ended(there, "in") == known, "it is not counted")
            wait_until(lambda: publisher.subscribers == 0, "it still crosses")
    wait_until(lambda: ended(here, "out") == [("ended", 6, 6)], "it is not counted")
    assert not there.info()["in"]


def test_types_of_one_topic_and_what_has_ended_are_added_up_in_one_series() -> None:
    counters = {"sent": 2, "bytes": 10, "expired": 3}
    rows = tuple(Crossing("t", name, readers=1, counters=counters) for name in ("A", "B"))
    ended = Ended(out=(Crossing("t", counters={"sent": 3, "bytes": 1, "expired": 1}),))
    metrics = Metrics(NOWHERE, ADDRESS, 0)
    try:
        refusals, standstills = {"rtmw/roster": 4}, Standstills(in_=2, out=1)
        told = NodeStatus(1, 1, "h", since=5.0, out=rows, ended=ended, refusals=refusals, standstills=standstills)
        metrics.tell(told)
        shown = scrape(metrics.port)
    finally:
        metrics.close()
    out = labelled(topic="t", direction="out")
    assert shown["rtmw_node_messages_total", out] == 7
    assert shown["rtmw_node_drops_total", out | {("cause", "expired")}] == 7
    assert shown["rtmw_node_info", labelled(host="h", domain="0", dds_domain="0", interface="")] == 1
    assert shown["rtmw_node_start_time_seconds", labelled()] == 5
    assert shown["rtmw_node_refusals_total", labelled(cause="rtmw/roster")] == 4
    assert shown["rtmw_node_standstills_total", labelled(direction="in")] == 2


@pytest.fixture
def metrics() -> Iterator[Metrics]:
    made = Metrics(NOWHERE, ADDRESS, 0)
    yield made
    made.close()


def health(metrics: Metrics) -> int:
    try:
        with urlopen(f"http://{ADDRESS}:{metrics.port}/health", timeout=PATIENCE) as answer:
            return int(answer.status)
    except HTTPError as error:
        return error.code


def test_health_is_good_while_the_node_says_how_it_is(metrics: Metrics) -> None:
    assert health(metrics) == 503
    metrics.tell(NodeStatus(1, 1))
    assert health(metrics) == 200


# Proves G113.
def test_clients_that_dawdle_cost_a_bounded_number_of_threads_and_keep_nobody_out(metrics: Metrics) -> None:
    before, dawdlers = threading.active_count(), list[socket.socket]()
    for _ in range(200):
        dawdlers.append(socket.create_connection((ADDRESS, metrics.port)))
        dawdlers[-1].sendall(b"GET /metrics HTTP/1.1\r\nX-Slow: ")
    metrics.tell(NodeStatus(1, 1))
    assert health(metrics) == 200
    wait_until(lambda: threading.active_count() - before <= 16, "each of them keeps a thread")
    for dawdler in dawdlers:
        dawdler.close()


def test_metrics_and_health_listen_where_they_are_told(hosts: tuple[Host, Host]) -> None:
    host = hosts[0]
    host.start("--metrics-port", "0", "--metrics-address", "127.0.0.2")
    port = host.info()["metrics_port"]
    with urlopen(f"http://127.0.0.2:{port}/health", timeout=PATIENCE) as answer:
        assert answer.read() == b"ok\n"
    listening = [one.laddr for one in psutil.Process(host.node.pid).net_connections() if one.status == "LISTEN"]
    assert listening == [("127.0.0.2", port)]


def test_a_taken_port_ends_the_node_before_anything_has_started(hosts: tuple[Host, Host]) -> None:
    host = hosts[0]
    with socket.socket() as taken:
        taken.bind((ADDRESS, 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert host.launch("--metrics-port", str(port)).wait(PATIENCE) == 1
    assert f"metrics cannot be served at port {port} of {ADDRESS}: Address already in use" in host.said
    assert "is carried" not in host.said


def test_a_port_is_free_again_when_the_metrics_are_closed() -> None:
    first = Metrics(NOWHERE, ADDRESS, 0)
    with pytest.raises(RtmwError, match="Address already in use"):
        Metrics(NOWHERE, ADDRESS, first.port)
    first.close()
    Metrics(NOWHERE, ADDRESS, first.port).close()
