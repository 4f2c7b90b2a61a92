"""Workers of PySpark end without a word when Spark has closed their connection.

Spark does so when a task has rows enough, as for `show()` or `limit()`, when a worker had nothing to do for a minute,
and when the session ends. PySpark's worker finds out when it sends the next rows, or its last answer: its daemon would
print a traceback among the output of the program.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from socket import socket
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    Worker = Callable[[socket, bool], int]

UNIX_SOCKETS = "spark.python.unix.domain.socket.enabled"


def quiet(worker: Worker) -> Worker:
    """PySpark's, with a code instead of the error that the connection is closed; such a worker is not used again."""

    def quietly(sock: socket, authenticated: bool) -> int:
        try:
            return worker(sock, authenticated)
        except (BrokenPipeError, ConnectionResetError):
            return 1

    return quietly


def quiet_planner() -> None:
    """In a worker that plans for a data source, from its next call on; elsewhere nothing.

    Spark forks such workers from PySpark's own daemon, whatever daemon is set.
    """
    daemon: Any = sys.modules["__main__"]
    if getattr(getattr(daemon, "__spec__", None), "name", None) == "pyspark.daemon":
        daemon.worker = quiet(daemon.worker)


@contextmanager
def workers_by_tcp(session: SparkSession) -> Generator[None]:
    """Has the JVM reach its workers by TCP within the block, for workers that run nothing of rtmw: a worker's last
    answer into a closed connection of TCP is no error.

    The JVM asks for this setting whenever it starts a daemon of workers.
    """
    context: Any = getattr(session, "_sc", None)  # None: of Spark Connect, whose server has the workers
    settings = context and context._jsc.sc().conf()
    if settings is None or settings.get(UNIX_SOCKETS, "false") != "true":
        yield
        return
    settings.set(UNIX_SOCKETS, "false")
    try:
        yield
    finally:
        settings.set(UNIX_SOCKETS, "true")
