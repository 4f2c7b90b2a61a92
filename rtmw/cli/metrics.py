"""`rtmw metrics`: the metrics of a domain in the text format of Prometheus, printed or served, without a node."""

from __future__ import annotations

import argparse
import signal
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from rtmw.addresses import metrics_url
from rtmw.cli.common import look_at
from rtmw.cli.show import say
from rtmw.errors import RtmwError

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

    from rtmw.net.http_server import HttpServer

ENDS: Final = (signal.SIGINT, signal.SIGTERM)


class OfDomain:
    """A collector, as prometheus_client defines it."""

    def __init__(self, domain: int) -> None:
        self._domain = domain

    def collect(self) -> Iterator[Metric]:
        from rtmw.observe.metrics import collect

        return collect(self._domain)

    def fault(self) -> str:
        """Why there is nothing to tell; empty: there is. For any thread."""
        try:
            look_at(self._domain).close()
        except RtmwError as error:
            return str(error)
        return ""


def metrics(arguments: argparse.Namespace) -> int:
    """Print the metrics once, of a domain that exists; or serve them, also of one that does not exist yet."""
    if arguments.listen is not None:
        return _serve(arguments.domain, *arguments.listen)
    from rtmw.net.metrics_server import as_text

    with look_at(arguments.domain):
        say(*as_text(OfDomain(arguments.domain)).removesuffix("\n").split("\n"))
    return 0


def _serve(domain: int, address: str, port: int) -> int:
    from rtmw.net.metrics_server import MetricsServer

    of_domain = OfDomain(domain)

    def begin() -> tuple[MetricsServer, str]:
        server = MetricsServer(address, port, of_domain, of_domain.fault)
        return server, f"metrics of domain {domain} are at {metrics_url(address, server.port)}"

    return serve(begin)


def serve(begin: Callable[[], tuple[HttpServer, str]]) -> int:
    """Until SIGINT or SIGTERM. `begin`: the server, and the line that says where it is."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDS)  # threads of the server inherit it: this one gets them
    try:
        server, words = begin()
        try:
            say(words, flush=True)
            signal.sigwait(ENDS)
        finally:
            server.close()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return 0
