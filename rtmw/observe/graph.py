"""The communication graph: processes and topics, and an edge for each publisher and subscriber."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from rtmw.observe.views import PublisherView, SubscriberView, TopicView
from rtmw.qos import Reliability


@dataclass(frozen=True)
class Process:
    """A program that publishes or subscribes."""

    pid: int
    name: str
    host: str = ""
    """Where it runs; empty: here."""


@dataclass(frozen=True)
class Edge:
    """A process that publishes on a topic or subscribes to it; several endpoints of the same QoS are one edge."""

    process: Process
    topic: str
    publishes: bool
    reliability: Reliability
    type_name: str
    matched: bool = False
    """Whether there is anybody on the other side that it can meet, or nobody at all."""
    apart: str = ""
    """On another host: why it can meet nobody here, as the node says; empty: nothing is known against it."""


@dataclass(frozen=True)
class Graph:
    """Everything that is open in a domain, and what is known of other hosts."""

    topics: tuple[TopicView, ...]
    edges: tuple[Edge, ...]

    @property
    def processes(self) -> tuple[Process, ...]:
        """By name, process id and host."""
        return tuple(sorted({edge.process for edge in self.edges}, key=lambda one: (one.name, one.pid, one.host)))

    @property
    def crossing(self) -> frozenset[str]:
        """Topics that have one side here and the other elsewhere, and meet."""
        met = [edge for edge in self.edges if edge.matched]
        here = {(edge.topic, edge.publishes) for edge in met if not edge.process.host}
        return frozenset(edge.topic for edge in met if edge.process.host and (edge.topic, not edge.publishes) in here)

    def _repr_html_(self) -> str:
        """Its picture, as an image: so its style touches nothing else on the page of a notebook."""
        from base64 import b64encode

        from rtmw.observe.picture import picture

        data = b64encode(picture(self, "Topics and programs").encode()).decode()
        return f'<img alt="Topics and programs" src="data:image/svg+xml;base64,{data}">'

    def edges_of(self, topic: str, publishes: bool) -> tuple[Edge, ...]:
        """The edges of one topic: those of its publishers, or those of its subscribers."""
        return tuple(edge for edge in self.edges if edge.topic == topic and edge.publishes is publishes)


def graph(topics: Sequence[TopicView], elsewhere: Sequence[Edge] = ()) -> Graph:
    """The graph of these topics, and of endpoints on other hosts."""
    known, far = {topic.name for topic in topics}, dict[str, list[Edge]]()
    for edge in elsewhere:
        far.setdefault(edge.topic, []).append(edge)
    added = [name for name in far if name not in known]
    every = [*topics, *(_far_topic(name, far[name]) for name in added)]
    edges = dict.fromkeys(edge for topic in every for edge in _edges(topic, far.get(topic.name, ())))
    return Graph(tuple(sorted(every, key=lambda topic: topic.name)) if added else tuple(topics), tuple(edges))


def _far_topic(name: str, elsewhere: Sequence[Edge]) -> TopicView:
    """A topic that nobody uses here. `elsewhere`: of this topic, here and below."""
    types = {edge.type_name for edge in elsewhere} - {"*"}
    return TopicView(name, tuple(sorted(types)), 0, 0, (), (), ())


def _edges(topic: TopicView, elsewhere: Sequence[Edge]) -> list[Edge]:
    here = [_edge(topic.name, view, True) for view in topic.publishers]
    here += [_edge(topic.name, view, False) for view in topic.subscribers if view.pid]  # else parked
    edges = [*dict.fromkeys([*here, *elsewhere])]
    sending, taking = ([edge for edge in edges if edge.publishes is side] for side in (True, False))
    return [
        *(replace(one, matched=not taking or any(matches(one, other) for other in taking)) for one in sending),
        *(replace(one, matched=not sending or any(matches(other, one) for other in sending)) for one in taking),
    ]


def _edge(topic: str, view: PublisherView | SubscriberView, publishes: bool) -> Edge:
    return Edge(Process(view.pid, view.process), topic, publishes, view.reliability, view.type_name)


def matches(publisher: PublisherView | Edge, subscriber: SubscriberView | Edge) -> bool:
    """Does the subscriber get what the publisher publishes?"""
    if any(isinstance(one, Edge) and one.apart for one in (publisher, subscriber)):
        return False
    if subscriber.type_name not in ("*", publisher.type_name):
        return False
    asked = subscriber.reliability
    return asked is not Reliability.RELIABLE or publisher.reliability is Reliability.RELIABLE
