"""Three members of one system on this host: each record is on the disk of two of them, at least, when it is answered.

A module has three functions. `serving(folder)` is a context manager that starts three servers with folders of their own
and gives a Cluster; they end with the block, by their pids. `store(places)` is what writers use while all is well, and
`appender(places)` appends in spite of a member that dies: it returns when the record is there, however long that takes.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Final, Protocol, cast

from bench.cases import RTMW
from bench.log_peers import AppendAsync, Store

NATS: Final = "NATS JetStream, 3 replicas"
RABBITMQ: Final = "RabbitMQ quorum queue, 3 members"
MODULES: Final = {RTMW: "replicated", NATS: "nats", RABBITMQ: "rabbitmq"}
PEERS: Final = (NATS, RABBITMQ)


@dataclass(frozen=True)
class Cluster:
    """Three servers that know each other."""

    places: list[str]
    """Where clients connect."""
    leader: Callable[[], int]
    """The pid of the member that leads now."""
    pids: dict[str, int] = field(default_factory=dict[str, int])
    """By name; of rtmw."""


class System(Protocol):
    """A module of this package."""

    def serving(self, folder: Path) -> AbstractContextManager[Cluster]: ...
    def store(self, places: list[str]) -> AbstractContextManager[Store]: ...
    def appender(self, places: list[str]) -> AbstractAsyncContextManager[AppendAsync]: ...


def system(name: str) -> System:
    """CannotMeasure, ImportError, of this and of `serving`: it is not installed."""
    return cast("System", import_module(f"bench.clusters.{MODULES[name]}"))
