"""Who talks to whom: processes and topics, and an edge for each publisher and subscriber."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rtmw.observe.views import PublisherView, SubscriberView, TopicView
from rtmw.qos import Reliability


@dataclass(frozen=True)
class Process:
    """A program that publishes or subscribes."""

    pid: int
    name: str


@dataclass(frozen=True)
class Edge:
    """A process that publishes on a topic or subscribes to it; several endpoints of the same QoS are one edge."""

    process: Process
    topic: str
    publishes: bool
    reliability: Reliability
    type_name: str
    matched: bool
    """Whether there is anybody on the other side that it can meet, or nobody at all."""


@dataclass(frozen=True)
class Graph:
    """Everything that is open in a domain."""

    topics: tuple[TopicView, ...]
    edges: tuple[Edge, ...]

    @property
    def processes(self) -> tuple[Process, ...]:
        """By name and process id."""
        return tuple(sorted({edge.process for edge in self.edges}, key=lambda process: (process.name, process.pid)))

    def edges_of(self, topic: str, publishes: bool) -> tuple[Edge, ...]:
        """Of one side of a topic."""
        return tuple(edge for edge in self.edges if edge.topic == topic and edge.publishes is publishes)


def graph(topics: Sequence[TopicView]) -> Graph:
    """The graph of these topics."""
    edges = dict.fromkeys(edge for topic in topics for edge in _edges(topic))
    return Graph(tuple(topics), tuple(edges))


def _edges(topic: TopicView) -> list[Edge]:
    pairs = [(p, s) for p in topic.publishers for s in topic.subscribers]
    heard = {p.identity for p, s in pairs if matches(p, s)}
    served = {s.identity for p, s in pairs if matches(p, s)}
    return [
        *(_edge(topic.name, p, True, p.identity in heard or not topic.subscribers) for p in topic.publishers),
        *(_edge(topic.name, s, False, s.identity in served or not topic.publishers) for s in topic.subscribers),
    ]


def _edge(topic: str, view: PublisherView | SubscriberView, publishes: bool, matched: bool) -> Edge:
    return Edge(Process(view.pid, view.process), topic, publishes, view.reliability, view.type_name, matched)


def matches(publisher: PublisherView, subscriber: SubscriberView) -> bool:
    """Does the subscriber get what the publisher publishes?"""
    if subscriber.type_name not in ("*", publisher.type_name):
        return False
    asked = subscriber.reliability
    return asked is not Reliability.RELIABLE or publisher.reliability is Reliability.RELIABLE
