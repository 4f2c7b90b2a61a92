"""Look into a domain without taking part in it: topics, queues, endpoints and the books (requirement P10).

Everything is read from counters and control blocks in the region; nobody has to cooperate, and nothing is subscribed.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

from rtmw.observe.events import Event, EventKind, Events, events
from rtmw.observe.graph import Edge, Graph, Process, graph, matches
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

if TYPE_CHECKING:
    from rtmw.observe.activity import Meter, SubscriberActivity, TopicActivity
    from rtmw.observe.books import Books, Holding, ParticipantView, TableUse, examine, holdings, tables
    from rtmw.observe.services import TransferActivity, TransferCounters, TransferQueue, service_fault, transfers
    from rtmw.observe.trace import Trace, TraceEvent

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

_LATE: Final = {
    "Books": "books",
    "Holding": "books",
    "Meter": "activity",
    "ParticipantView": "books",
    "SubscriberActivity": "activity",
    "TableUse": "books",
    "TopicActivity": "activity",
    "Trace": "trace",
    "TraceEvent": "trace",
    "TransferActivity": "services",
    "TransferCounters": "services",
    "TransferQueue": "services",
    "examine": "books",
    "holdings": "books",
    "service_fault": "services",
    "tables": "books",
    "transfers": "services",
}
"""The modules of names that are imported on first use: most commands look at topics alone."""


def __getattr__(name: str) -> object:
    if name in _LATE:
        found = globals()[name] = getattr(import_module(f"rtmw.observe.{_LATE[name]}"), name)
        return found
    raise AttributeError(f"module 'rtmw.observe' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
