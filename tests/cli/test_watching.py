"""`rtmw top`, `trace`, `graph` and `topic delay` on real traffic."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import rtmw
from rtmw import observe
from rtmw.cli import main
from tests.child import Spawn
from tests.cli.command import Run, document
from tests.cli.terminal import on_a_terminal

FLOW = """
    import threading, time, rtmw
    publisher, subscriber = rtmw.Publisher("flow"), rtmw.Subscriber("flow", depth=1000)
    late = rtmw.Subscriber("flow", depth=10, reliability=rtmw.Reliability.TIMELY)
    print()
    while True:
        publisher.publish_many([bytes(100)] * 20)
        subscriber.take_many(20)
        late.take()
        time.sleep(0.002)
"""


@pytest.fixture
def flow(domain: rtmw.Domain, spawn: Spawn) -> int:
    """A process that publishes and takes 20 messages every few milliseconds; its pid."""
    child = spawn(FLOW)
    child.line(30)
    return child.pid


def seen(run: Run, fact: Callable[[Any], bool], *arguments: str) -> Any:
    """What a command says once this is true of it: on a busy machine nothing may happen in a window."""
    for _ in range(300):
        found = document(run, *arguments)
        if fact(found):
            return found
    raise AssertionError(f"never so: {found}")


def test_top_shows_rates_latency_drops_and_who_is_behind(run: Run, flow: int) -> None:
    (topic,) = seen(
        run,
        lambda found: (
            found[0]["messages_per_s"] > 0
            and found[0]["bytes_per_s"] > 0
            and found[0]["latency"]["count"] > 0
            and "missed" in found[0]["dropped"]
        ),
        *("top", "--once", "--window", "0.1"),
    )
    assert (topic["topic"], topic["publishers"], len(topic["subscribers"])) == ("flow", 1, 2)
    assert 0 < topic["latency"]["p50"] <= topic["latency"]["p99"] <= topic["latency"]["max"]
    assert {one["pid"] for one in topic["subscribers"]} == {flow}
    assert run("top", "--count", "2", "--window", "0.1", "--sort", "rate")[1].count("messages/s") == 2


def test_top_disturbs_nobody(run: Run, domain: rtmw.Domain, flow: int) -> None:
    run("top", "--once", "--window", "0.1")
    (view,) = observe.topics(domain)
    assert {one.pid for one in (*view.publishers, *view.subscribers)} == {flow}
    assert domain.region.trace_next() == 1


@pytest.mark.parametrize("columns", [160, 60, 25])
def test_top_fits_the_terminal(domain: rtmw.Domain, flow: int, columns: int) -> None:
    lines = on_a_terminal(columns, 24, "top", "--once", "--window", "0.1", "--domain", str(domain.id))
    assert all(len(line) <= columns for line in lines)
    assert any(line.startswith("flow") for line in lines)
    heading = next(line for line in lines if "msg/s" in line)
    assert ("pubs" in heading) == (columns == 160)


def test_delay_says_that_nobody_subscribes(run: Run, domain: rtmw.Domain) -> None:
    with rtmw.Publisher("alone", domain=domain):
        text = run("topic", "delay", "alone", "--window", "0.01", "--count", "1")[1]
    assert text.splitlines()[1] == "Nobody subscribes to it on this host, so no message is taken."


def test_delay_shows_the_percentiles_of_each_subscriber(run: Run, flow: int) -> None:
    window = seen(
        run,
        lambda found: all(one["count"] > 1 for one in found["subscribers"]),
        *("topic", "delay", "flow", "--window", "0.1", "--count", "1"),
    )
    assert [one["pid"] for one in window["subscribers"]] == [flow, flow]
    for one in window["subscribers"]:
        assert 0 < one["p50"] <= one["p99.9"] <= one["max"]
    text = run("topic", "delay", "flow", "--window", "0.1", "--count", "1")[1]
    assert "p99.9" in text
    assert str(flow) in text


def test_trace_shows_what_happens_to_each_message(run: Run, flow: int) -> None:
    status, out, _ = run("trace", "flow", "--count", "200", "--for", "60", "--json")
    events = [json.loads(line) for line in out.splitlines()]
    assert (status, len(events)) == (0, 200)
    assert {"published", "taken", "missed"} == {event["what"] for event in events}
    assert {event["pid"] for event in events} == {flow}
    assert all(event["latency"] >= 0 for event in events if event["what"] == "taken")
    text = run("trace", "flow", "--count", "3", "--for", "60")[1]
    assert len(text.splitlines()) == 3


def test_trace_ends_after_its_time_and_leaves_the_topic_untraced(run: Run, domain: rtmw.Domain) -> None:
    with rtmw.Publisher("silent", domain=domain) as publisher:
        status, out, _ = run("trace", "silent", "--for", "0.1")
        assert (status, out) == (0, "")
        before = domain.region.trace_next()
        publisher.publish(b"x")
        assert domain.region.trace_next() == before


def test_trace_names_the_topic_where_there_are_several(run: Run, domain: rtmw.Domain) -> None:
    with traffic(domain, "a", "b"):
        out = run("trace", "a", "b", "--count", "20", "--for", "60")[1]
    assert {line.split()[2] for line in out.splitlines()} == {"a", "b"}


class traffic:
    """Something happens on these topics until the end of the block."""

    def __init__(self, domain: rtmw.Domain, *topics: str) -> None:
        self._publishers = [rtmw.Publisher(topic, domain=domain) for topic in topics]
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._publish)

    def _publish(self) -> None:
        while not self._end.wait(0.002):
            for publisher in self._publishers:
                publisher.publish(b"x")

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *error: object) -> None:
        self._end.set()
        self._thread.join()
        for publisher in self._publishers:
            publisher.close()


@pytest.fixture
def pair(domain: rtmw.Domain) -> Iterator[None]:
    with rtmw.Publisher("pump/speed", domain=domain), rtmw.Subscriber("pump/speed", domain=domain):
        yield


def test_graph_shows_who_talks_to_whom(run: Run, pair: None) -> None:
    found = document(run, "graph")
    assert [(edge["pid"], edge["does"], edge["topic"]) for edge in found] == [
        (os.getpid(), "publishes", "pump/speed"),
        (os.getpid(), "subscribes", "pump/speed"),
    ]
    assert "pump/speed  (bytes)" in run("graph")[1]
    assert run("graph", "--dot")[1].startswith("digraph")


def test_graph_writes_a_picture(run: Run, pair: None, tmp_path: Path) -> None:
    file = tmp_path / "graph.svg"
    assert run("graph", "--svg", str(file))[:2] == (0, f"Wrote {file}.\n")
    assert ElementTree.parse(file).getroot().tag.endswith("svg")
    status, _, err = run("graph", "--svg", str(tmp_path / "nowhere" / "graph.svg"))
    assert status == 1
    assert "cannot be written: No such file or directory" in err


@pytest.mark.parametrize(
    "arguments",
    [["top"], ["graph"], ["trace", "x"], ["topic", "delay", "x"]],
)
def test_a_domain_that_does_not_exist_is_one_sentence_and_status_1(run: Run, arguments: list[str]) -> None:
    status, out, err = run(*arguments)
    assert (status, out) == (1, "")
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize("arguments", [["trace", "sped"], ["topic", "delay", "sped"]])
def test_an_unknown_topic_is_answered_with_those_that_look_like_it(
    run: Run,
    domain: rtmw.Domain,
    arguments: list[str],
) -> None:
    with rtmw.Publisher("speed", domain=domain):
        status, _, err = run(*arguments)
    assert status == 1
    assert "did you mean speed?" in err


@pytest.mark.parametrize(
    "arguments", [["top", "--sort", "colour"], ["top", "--window", "0"], ["trace"], ["trace", "t", "--for", "-1"]]
)
def test_wrong_usage_ends_with_status_2(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
