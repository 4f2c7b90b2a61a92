"""PySpark's daemon, which forks the workers of a session: one whose rows nobody wants any more ends without a word.

Spark closes the connection of a task when it has rows enough, as for `show()` or `limit()`. PySpark's worker finds out
when it sends the next ones, and would print a traceback among the output of the program.

The program of a worker is imported before the first fork, and not anew in each worker: a session ends workers that had
nothing to do for a minute. It starts no thread, and a fork keeps none; NumPy and PyArrow do, so workers import these.
"""

from __future__ import annotations

from socket import socket

from rtmw.spark.unpacked import prefer_unpacked

prefer_unpacked()

from pyspark import daemon  # noqa: E402 (from where, has just been decided)

_worker = daemon.worker


def worker(sock: socket, authenticated: bool) -> int:
    """PySpark's, with a code instead of the error that the connection is closed; such a worker is not used again."""
    try:
        return _worker(sock, authenticated)
    except (BrokenPipeError, ConnectionResetError):
        return 1


if __name__ == "__main__":
    import pyspark.worker  # noqa: F401  # pyright: ignore[reportUnusedImport]

    daemon.worker = worker
    daemon.manager()
