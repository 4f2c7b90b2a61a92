"""`rtmw foxglove`: the topics of a domain in Foxglove, live."""

from __future__ import annotations

import argparse
from pathlib import Path

from rtmw.cli.common import CommandError, place_of
from rtmw.cli.endings import until_asked
from rtmw.cli.parsing import add_listen, count, runs
from rtmw.cli.terminal import counted, say, warn
from rtmw.text.visible import visible


def add_arguments(parser: argparse.ArgumentParser) -> None:
    runs(parser, foxglove, json=False)
    help = "names or patterns of topics (default: all but rtmw's own)"
    parser.add_argument("patterns", nargs="*", metavar="PATTERN", help=help)
    warning = "listen at an address that others reach, without TLS: whoever reaches it reads all topics"
    add_listen(parser, "where Foxglove connects", 8765, warning)
    parser.add_argument("--ros2", action="store_true", help="schemas as ROS 2 has them, instead of IDL")
    parser.add_argument("--tls-cert", type=Path, metavar="FILE", help="certificate, in PEM: then clients use wss://")
    parser.add_argument("--tls-key", type=Path, metavar="FILE", help="its key, in PEM (PKCS#8)")
    help = "messages that wait for a slow client; then its oldest are dropped (default 1024)"
    parser.add_argument("--backlog", type=count, default=1024, metavar="N", help=help)


def foxglove(arguments: argparse.Namespace) -> int:
    """Serve until it is asked to end, also a domain that does not exist yet."""
    from rtmw.observe.foxglove import FoxgloveOptions, FoxgloveServer  # other commands do without

    if (arguments.tls_cert is None) != (arguments.tls_key is None):
        raise CommandError("--tls-cert and --tls-key belong together: name both.")
    tls = (arguments.tls_cert, arguments.tls_key) if arguments.tls_cert else None
    advice = "name --tls-cert and --tls-key, or listen at 127.0.0.1"
    place = place_of(arguments, "and whoever reaches it reads all topics", advice, allowed=tls is not None)
    how = arguments.ros2, arguments.backlog
    options = FoxgloveOptions(arguments.domain, tuple(arguments.patterns), place, tls, *how)
    with until_asked() as end, FoxgloveServer(options, lambda text: warn(f"rtmw: {visible(text)}")) as server:
        say(f"Foxglove shows domain {arguments.domain} at {server.url}", flush=True)
        server.run(end.is_set)
        server.close()
    if server.missed:
        warn(f"rtmw: {counted(server.missed, 'message')} came faster than they could be sent and were missed.")
    return 0
