"""Look into a domain without taking part in it: topics, queues, endpoints and the books (requirement P10).

Everything is read from counters and control blocks in the region; nobody has to cooperate, and nothing is subscribed.
"""

from rtmw.observe.activity import Meter, SubscriberActivity, TopicActivity
from rtmw.observe.books import Books, Holding, ParticipantView, TableUse, examine, holdings, tables
from rtmw.observe.events import Event, EventKind, Events, events
from rtmw.observe.graph import Edge, Graph, Process, graph, matches
from rtmw.observe.services import TransferActivity, TransferCounters, TransferQueue, service_fault, transfers
from rtmw.observe.trace import Trace, TraceEvent
from rtmw.observe.views import (
    PublisherView,
    QueuedMessage,
    SubscriberView,
    TopicView,
    program,
    queue,
    topics,
    types_in_use,
)

__all__ = [
    "Books",
    "Edge",
    "Event",
    "EventKind",
    "Events",
    "Graph",
    "Holding",
    "Meter",
    "ParticipantView",
    "Process",
    "PublisherView",
    "QueuedMessage",
    "SubscriberActivity",
    "SubscriberView",
    "TableUse",
    "TopicActivity",
    "TopicView",
    "Trace",
    "TraceEvent",
    "TransferActivity",
    "TransferCounters",
    "TransferQueue",
    "events",
    "examine",
    "graph",
    "holdings",
    "matches",
    "program",
    "queue",
    "service_fault",
    "tables",
    "topics",
    "transfers",
    "types_in_use",
]
