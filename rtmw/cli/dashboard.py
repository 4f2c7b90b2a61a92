"""`rtmw dashboard`: a domain on a page of this host, read-only."""

from __future__ import annotations

import argparse
from typing import Final

from rtmw.addresses import bracketed, is_loopback, place_to_listen
from rtmw.cli.common import CommandError
from rtmw.cli.metrics import serve
from rtmw.cli.parsing import argument, runs

PORT: Final = 9466


def add_arguments(parser: argparse.ArgumentParser) -> None:
    runs(parser, dashboard, json=False)
    help = "where the page is served, until SIGINT or SIGTERM (default 127.0.0.1:9466); port 0: any that is free"
    parser.add_argument(
        "--listen", type=argument(place_to_listen), default=("127.0.0.1", PORT), metavar="ADDRESS:PORT", help=help
    )
    help = "listen on an address that other hosts reach: whoever has the URL reads, and it is not encrypted"
    parser.add_argument("--allow-remote", action="store_true", help=help)


def dashboard(arguments: argparse.Namespace) -> int:
    """Serve the page until SIGINT or SIGTERM, also of a domain that does not exist yet."""
    address, port = arguments.listen
    if not is_loopback(address) and not arguments.allow_remote:
        raise CommandError(
            f"{address} is reached from other hosts, without encryption, and whoever has the URL reads all topics: "
            "listen on 127.0.0.1 and forward the port with ssh, or say --allow-remote."
        )

    from rtmw.cli.page import Site
    from rtmw.net.http_server import HttpServer

    def begin() -> tuple[HttpServer, str]:
        site = Site(arguments.domain)
        server = HttpServer(address, port, site.answer, "the dashboard")
        place = f"http://{bracketed(address)}:{server.port}/?token={site.token}"
        return server, f"the dashboard of domain {arguments.domain} is at {place}"

    return serve(begin)
