"""PySpark's daemon, which forks the workers of a session: one whose rows nobody wants any more ends without a word.

Spark closes the connection of a task when it has rows enough, as for `show()` or `limit()`. PySpark's worker finds out
when it sends the next ones, and would print a traceback among the output of the program.
"""

from __future__ import annotations

from socket import socket

from pyspark import daemon

_worker = daemon.worker


def worker(sock: socket, authenticated: bool) -> int:
    """PySpark's, with a code instead of the error that the connection is closed; such a worker is not used again."""
    try:
        return _worker(sock, authenticated)
    except (BrokenPipeError, ConnectionResetError):
        return 1


if __name__ == "__main__":
    daemon.worker = worker
    daemon.manager()
