"""Graph: who talks to whom."""

from __future__ import annotations

import os
from dataclasses import replace

import rtmw
from rtmw import Reliability, observe
from tests.bus import Reading
from tests.child import Spawn
from tests.cli.views import PUBLISHER, SUBSCRIBER, topic

RELIABLE = Reliability.RELIABLE


def test_each_endpoint_is_an_edge_between_its_process_and_its_topic() -> None:
    graph = observe.graph([topic()])
    assert [(edge.process.pid, edge.topic, edge.publishes) for edge in graph.edges] == [
        (11, "pump/speed", True),
        (22, "pump/speed", False),
    ]
    assert [(process.name, process.pid) for process in graph.processes] == [("panel", 22), ("pump", 11)]


def test_endpoints_of_one_process_that_ask_the_same_are_one_edge() -> None:
    view = topic(publishers=(PUBLISHER, replace(PUBLISHER, identity=1), replace(PUBLISHER, reliability=RELIABLE)))
    assert len(observe.graph([view]).edges_of("pump/speed", publishes=True)) == 2


def test_an_endpoint_that_meets_nobody_of_those_who_are_there_is_marked() -> None:
    view = topic(subscribers=(SUBSCRIBER, replace(SUBSCRIBER, pid=23, identity=23 << 32, reliability=RELIABLE)))
    graph = observe.graph([view])
    assert {edge.process.pid: edge.matched for edge in graph.edges} == {11: True, 22: True, 23: False}
    graph = observe.graph([topic(subscribers=(replace(SUBSCRIBER, type_name="Reading"),))])
    assert [edge.matched for edge in graph.edges] == [False, False]


def test_an_endpoint_that_is_alone_is_not_marked() -> None:
    assert all(edge.matched for edge in observe.graph([topic(publishers=())]).edges)
    assert all(edge.matched for edge in observe.graph([topic(subscribers=())]).edges)


FAR = observe.Edge(observe.Process(22, "archive", "far"), "pump/speed", False, Reliability.ADAPTIVE, "bytes")


def test_a_topic_crosses_when_sides_on_two_hosts_meet() -> None:
    alone = topic(subscribers=())
    assert observe.graph([alone], [FAR]).crossing == {"pump/speed"}
    assert observe.graph([alone], [replace(FAR, type_name="Reading")]).crossing == frozenset()
    assert observe.graph([alone], [replace(FAR, publishes=True)]).crossing == frozenset()
    assert observe.graph([topic()]).crossing == frozenset()


def test_a_topic_that_is_used_elsewhere_only_is_in_the_graph() -> None:
    graph = observe.graph([topic()], [replace(FAR, topic="archive")])
    assert [(view.name, view.types) for view in graph.topics] == [("archive", ("bytes",)), ("pump/speed", ("bytes",))]
    assert observe.Process(22, "archive", "far") in graph.processes


def test_the_edges_of_a_domain_are_those_of_its_processes(domain: rtmw.Domain, spawn: Spawn) -> None:
    child = spawn("import rtmw; s, p = rtmw.Subscriber('t', rtmw.ANY), rtmw.Publisher('u'); print(); input()")
    child.line()
    with rtmw.Publisher("t", Reading, domain=domain):
        pid = os.getpid()
        graph = observe.graph(observe.topics(domain))
    assert {(edge.process.pid, edge.topic, edge.publishes, edge.matched) for edge in graph.edges} == {
        (pid, "t", True, True),
        (child.pid, "t", False, True),
        (child.pid, "u", True, True),
    }
