"""`rtmw metrics`: the metrics of a domain without a node, in a form that Prometheus reads."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

import rtmw
from rtmw import Reliability, observe
from rtmw.domain import NO_DOMAIN
from rtmw.observe.services import COUNTERS_TOPIC, RELAY_TOPIC, RelayAgent, logs, pack_relay
from rtmw.publisher import OwnPublisher
from tests.child import Spawn
from tests.cli.command import Run
from tests.openmetrics import Labels, Samples, labelled, scraped
from tests.replica.nodes import Nodes, until
from tests.transfer.core_process import PATIENCE, CoreProcess

SERVER = """
    import sys
    from rtmw.cli import main
    sys.exit(main(["metrics", "--domain", "{}", "--listen", "{}"]))
"""


def printed(run: Run, domain_id: int) -> Samples:
    status, out, err = run("metrics", "--domain", str(domain_id))
    assert (status, err) == (0, "")
    families = [*text_string_to_metric_families(out)]
    assert len({family.name for family in families}) == len(families)
    samples = [sample for family in families for sample in family.samples]
    found = {(sample.name, frozenset(sample.labels.items())): sample.value for sample in samples}
    assert len(found) == len(samples), "two samples have one name and the same labels"
    return found


def of_this(domain_id: int, **more: str) -> Labels:
    """Labels of endpoints of this process on the topic that is used here."""
    return labelled(domain=str(domain_id), **more)


def end(found: Samples, name: str, **more: str) -> float:
    """A sample of this process' endpoints."""
    (value,) = (
        value for (named, labels), value in found.items()
        if named == name and {("pid", str(os.getpid())), *more.items()} <= labels
    )  # fmt: skip
    return value


def test_pool_queues_and_tables_are_shown_with_their_sizes(run: Run, domain: rtmw.Domain, domain_id: int) -> None:
    with rtmw.Publisher("t", domain=domain, priority=2) as publisher, rtmw.Subscriber("t", domain=domain):
        for _ in range(3):
            publisher.publish(bytes(10_000))
        found = printed(run, domain_id)
    here = of_this(domain_id)
    assert found["rtmw_up", here] == 1
    assert found["rtmw_pool_size_bytes", here] == domain.pool
    assert 30_000 <= found["rtmw_pool_used_bytes", here] <= domain.pool
    assert found["rtmw_pool_kept_bytes", here] == 0
    assert found["rtmw_pool_reserved_bytes", here] == domain.pool * domain.reserve
    assert found["rtmw_table_used", of_this(domain_id, table="publishers")] == 1
    assert found["rtmw_table_size", of_this(domain_id, table="topics")] == domain.region.capacity["topics"]
    assert found["rtmw_queued_messages", of_this(domain_id, priority="2")] == 3
    assert found["rtmw_queued_messages", of_this(domain_id, priority="0")] == 0
    topic = of_this(domain_id, topic="t")
    assert found["rtmw_topic_queued_messages", topic] == found["rtmw_topic_messages_total", topic] == 3
    assert found["rtmw_topic_bytes_total", topic] == 30_000
    assert found["rtmw_topic_pool_bytes", topic] >= 30_000


def test_of_each_program_it_is_shown_what_it_took_dropped_and_is_behind_by_cause(
    run: Run, domain: rtmw.Domain, domain_id: int
) -> None:
    with (
        rtmw.Publisher("t", domain=domain, reliability=Reliability.TIMELY) as publisher,
        rtmw.Subscriber("t", domain=domain, depth=4) as slow,
        rtmw.Subscriber("t", domain=domain, depth=4, min_interval=60.0) as thinned,
    ):
        for number in range(10):
            publisher.publish(b"%d" % number)
            if number < 2:
                slow.take()
                thinned.take()
        assert slow.receive().value == b"6"
        found = printed(run, domain_id)
        missed = slow.stats().missed + thinned.stats().missed
        (view,) = observe.topics(domain)
    assert missed >= 4
    assert end(found, "rtmw_subscriber_messages_total") == 4
    assert end(found, "rtmw_subscriber_drops_total", cause="missed") == missed
    assert end(found, "rtmw_subscriber_drops_total", cause="thinned") == 1
    assert end(found, "rtmw_subscriber_drops_total", cause="expired") == 0
    assert end(found, "rtmw_subscriber_behind_messages") == sum(one.behind for one in view.subscribers) > 0
    assert end(found, "rtmw_publisher_messages_total") == 10


def test_what_a_publisher_could_not_publish_is_counted_by_cause(run: Run, domain: rtmw.Domain, domain_id: int) -> None:
    reliable = Reliability.RELIABLE
    with (
        rtmw.Publisher("t", domain=domain, reliability=reliable, max_blocking=0) as publisher,
        rtmw.Subscriber("t", domain=domain, reliability=reliable, depth=1),
    ):
        assert [publisher.publish(b"x") for _ in range(3)].count(False) == 2
        found = printed(run, domain_id)
    assert end(found, "rtmw_publisher_refusals_total", cause="timed_out") == 2
    assert end(found, "rtmw_publisher_refusals_total", cause="exhausted") == 0


def test_names_that_need_it_are_escaped(run: Run, domain: rtmw.Domain, domain_id: int) -> None:
    name = 'a "b" \\ c'
    with rtmw.Publisher(name, domain=domain):
        assert printed(run, domain_id)["rtmw_topic_publishers", of_this(domain_id, topic=name)] == 1


def test_it_takes_none_of_the_places_for_programs(run: Run, domain: rtmw.Domain, domain_id: int) -> None:
    place = of_this(domain_id, table="participants")
    before = len(domain.region.participants())
    assert printed(run, domain_id)["rtmw_table_used", place] == before


def test_without_a_domain_it_says_so_and_ends_with_1(run: Run, domain_id: int) -> None:
    status, out, err = run("metrics", "--domain", str(domain_id))
    assert (status, out) == (1, "")
    assert f"domain {domain_id} does not exist" in err


def served(spawn: Spawn, domain_id: int, place: str) -> str:
    """Start a server; its URL."""
    said = re.fullmatch(
        r"metrics of domain \d+ are at (http://\S+)/metrics", spawn(SERVER.format(domain_id, place)).line()
    )
    assert said
    return said[1]


def health(url: str) -> int:
    try:
        with urlopen(f"{url}/health", timeout=60.0) as answer:
            return int(answer.status)
    except HTTPError as error:
        return error.code


@pytest.mark.parametrize("place", ["127.0.0.1:0", "[::1]:0"])
def test_a_server_of_metrics_outlives_the_domain_and_shows_the_next_one(
    spawn: Spawn, domain_id: int, place: str
) -> None:
    if "::" in place and not socket.has_ipv6:
        pytest.skip("no IPv6 here")
    url = served(spawn, domain_id, place)
    up = ("rtmw_up", of_this(domain_id))
    assert (scraped(f"{url}/metrics"), health(url)) == ({up: 0}, 503)
    for topic in ("first", "second"):
        domain = rtmw.Domain(domain_id, pool="8M")
        with rtmw.Publisher(topic, domain=domain) as publisher:
            publisher.publish(b"x")
            found = scraped(f"{url}/metrics")
        assert (found[up], health(url)) == (1, 200)
        assert found["rtmw_topic_messages_total", of_this(domain_id, topic=topic)] == 1
        domain.close()
        rtmw.Domain.unlink(domain_id)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_server_of_metrics_that_is_asked_to_end_ends_with_0(
    spawn: Spawn, domain_id: int, number: signal.Signals
) -> None:
    child = spawn(SERVER.format(domain_id, "127.0.0.1:0"))
    child.line()
    child.signal(number)
    assert child.wait() == 0


ASKED_EARLY = """
    import os, signal, sys, threading
    from rtmw.cli.endings import ends_in_order
    from rtmw.cli.metrics import serve
    from rtmw.net.http_server import HttpServer

    def begin():
        server = HttpServer("127.0.0.1", 0, lambda request, start: [], "nothing")
        os.kill(os.getpid(), signal.SIGTERM)
        return server, "begun"

    threading.Thread(target=threading.Event().wait, daemon=True).start()  # as libraries have: it would take the signal
    with ends_in_order():
        sys.exit(serve(begin))
"""


def test_a_server_that_is_asked_to_end_while_it_begins_ends_with_0(spawn: Spawn) -> None:
    child = spawn(ASKED_EARLY)
    assert child.line() == "begun"
    assert child.wait() == 0


def test_a_port_that_is_taken_is_named_with_what_to_do(run: Run, domain_id: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        status, _, err = run("metrics", "--domain", str(domain_id), "--listen", f"127.0.0.1:{port}")
    assert status == 1
    assert f"port {port} of 127.0.0.1: Address already in use; choose another port" in err


@pytest.mark.parametrize(
    "place", ["9464", "localhost:9464", "127.0.0.1", "::1:9464", "[127.0.0.1]:9464", "127.0.0.1:x"]
)
def test_what_is_no_address_and_port_is_refused(run: Run, place: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as refusal:
        run("metrics", "--listen", place)
    assert refusal.value.code == 2
    assert "is not ADDRESS:PORT of this host, such as 127.0.0.1:9464" in capsys.readouterr().err


@contextmanager
def serving_logs(domain_id: int, folder: Path) -> Generator[None]:
    """The service of a node that has a domain, and is the master of a log; it has told so."""
    with Nodes(folder, "ab") as nodes, ExitStack() as running:
        for name, domain in (("a", domain_id), ("b", NO_DOMAIN)):
            where = ["--domain", str(domain), "--data", str(folder / name), "--node", name]
            command = [sys.executable, "-m", "rtmw.replica", *where, "--config", str(nodes.file(name))]
            process = running.enter_context(subprocess.Popen(command, stdin=subprocess.PIPE))
            running.callback(process.terminate)
        nodes.create("orders")
        nodes.master("orders", "a")
        nodes.move("orders", "a")
        with rtmw.Domain(domain_id, observe=True) as seen:
            until(lambda: (said := logs(seen)) and [row for row in said.told["logs"] if row["lag"]])
            yield


# Proves G374.
def test_every_metric_is_explained(
    core: CoreProcess, domain: rtmw.Domain, domain_id: int, run: Run, tmp_path: Path
) -> None:
    with rtmw.Publisher("t", domain=domain), rtmw.Subscriber("t", domain=domain):
        with rtmw.Sender("gauge", domain=domain) as sender, rtmw.Subscriber(COUNTERS_TOPIC, domain=domain) as counters:
            sender.send("ingest", b"waits")
            while b'"ingest"' not in counters.receive(timeout=PATIENCE).value:
                pass
        with OwnPublisher(RELAY_TOPIC, domain=domain, history=1) as relay:  # as a relay says it
            relay.publish(pack_relay([RelayAgent("GATE", True, 1, 0, 1, 0.5)], {"STORED": 1}, ""))
            with serving_logs(domain_id, tmp_path):
                found = printed(run, domain_id)
            shown = {name for name, _ in found}
    assert found["rtmw_log_is_master", labelled(log="orders", node="a")] == 1
    text = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text()
    assert {*re.findall(r"`(rtmw_\w+)`", text.partition("| name")[2])} == shown
