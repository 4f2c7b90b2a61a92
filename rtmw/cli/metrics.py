"""`rtmw metrics`: the metrics of a domain in the text format of Prometheus, printed or served, without a node; or of
the replicated logs of a node that has no domain, which is asked for them.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, Any

from rtmw.cli.common import CommandError, look_at
from rtmw.cli.endings import until_asked
from rtmw.cli.parsing import add_place, argument, runs
from rtmw.cli.terminal import say
from rtmw.errors import RtmwError
from rtmw.text.addresses import metrics_url, place_to_listen

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

    from rtmw.net.http_server import HttpServer


def add_arguments(parser: argparse.ArgumentParser) -> None:
    runs(parser, metrics, json=False)
    help = "serve them there under /metrics, and /health, until SIGINT or SIGTERM; port 0: any that is free"
    parser.add_argument("--listen", type=argument(place_to_listen), metavar="ADDRESS:PORT", help=help)
    add_place(parser, "those of the replicated logs of the node there, [log] listen, not of a domain")


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


class OfNode:
    """The metrics of a node's logs: it asks the node for each scrape."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._arguments = arguments
        self._unreached = suppress(RtmwError) if arguments.listen is not None else nullcontext()
        """Where they are served, /health says why there are none."""

    def told(self) -> dict[str, Any]:
        from rtmw.cli.log_replica import ask_place

        return ask_place(self._arguments, ask="logs")

    def collect(self) -> Iterator[Metric]:
        from rtmw.observe.metrics import of_logs

        with self._unreached:
            yield from of_logs(self.told())

    def fault(self) -> str:
        try:
            self.told()
        except RtmwError as error:
            return str(error)
        return ""


def metrics(arguments: argparse.Namespace) -> int:
    """Print the metrics once, of a domain or node that exists; or serve them, also of one that does not exist yet."""
    domain = arguments.domain
    what = f"domain {domain}" if arguments.node is None else f"the logs at {', '.join(arguments.node)}"
    collector = OfDomain(domain) if arguments.node is None else OfNode(arguments)
    if arguments.listen is not None:
        return _serve(what, collector, *arguments.listen)
    from rtmw.net.http_server import as_text

    if isinstance(collector, OfDomain) and (fault := collector.fault()):  # a node that is asked says it itself
        raise CommandError(fault)
    say(*as_text(collector).removesuffix("\n").split("\n"))
    return 0


def _serve(what: str, collector: OfDomain | OfNode, address: str, port: int) -> int:
    from rtmw.net.http_server import MetricsServer

    def begin() -> tuple[MetricsServer, str]:
        server = MetricsServer(address, port, collector, collector.fault)
        return server, f"metrics of {what} are at {metrics_url(address, server.port)}"

    return serve(begin)


def serve(begin: Callable[[], tuple[HttpServer, str]]) -> int:
    """Serves until a signal asks it to end, also while it begins. `begin`: returns the server, and the line that says
    where it is.
    """
    with until_asked() as end:
        server, words = begin()
        try:
            say(words, flush=True)
            end.wait()
        finally:
            server.close()
    return 0
