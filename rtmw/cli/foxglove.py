"""`rtmw foxglove`: the topics of a domain in Foxglove, live."""

from __future__ import annotations

import argparse
from pathlib import Path

from rtmw.addresses import place_to_listen
from rtmw.cli.common import CommandError
from rtmw.cli.endings import until_asked
from rtmw.cli.parsing import argument, count, runs
from rtmw.cli.terminal import counted, say, warn
from rtmw.visible import visible


def add_arguments(parser: argparse.ArgumentParser) -> None:
    runs(parser, foxglove, json=False)
    help = "names or patterns of topics (default: all but rtmw's own)"
    parser.add_argument("patterns", nargs="*", metavar="PATTERN", help=help)
    parser.add_argument(
        "--listen",
        type=argument(place_to_listen),
        default=("127.0.0.1", 8765),
        metavar="ADDRESS:PORT",
        help="where Foxglove connects (default 127.0.0.1:8765); port 0: any that is free",
    )
    parser.add_argument("--ros2", action="store_true", help="schemas as ROS 2 has them, instead of IDL")
    help = "listen at an address that others reach, without TLS: whoever reaches it reads all topics"
    parser.add_argument("--allow-remote", action="store_true", help=help)
    parser.add_argument("--tls-cert", type=Path, metavar="FILE", help="certificate, in PEM: then clients use wss://")
    parser.add_argument("--tls-key", type=Path, metavar="FILE", help="its key, in PEM (PKCS#8)")
    help = "messages that wait for a slow client; then its oldest are dropped (default 1024)"
    parser.add_argument("--backlog", type=count, default=1024, metavar="N", help=help)


def foxglove(arguments: argparse.Namespace) -> int:
    """Serve until it is asked to end, also a domain that does not exist yet."""
    from rtmw.foxglove import FoxgloveOptions, FoxgloveServer  # other commands do without

    if (arguments.tls_cert is None) != (arguments.tls_key is None):
        raise CommandError("--tls-cert and --tls-key belong together: name both.")
    address, port = arguments.listen
    options = FoxgloveOptions(
        arguments.domain,
        tuple(arguments.patterns),
        address,
        port,
        arguments.allow_remote,
        None if arguments.tls_cert is None else (arguments.tls_cert, arguments.tls_key),
        arguments.ros2,
        arguments.backlog,
    )
    with until_asked() as end, FoxgloveServer(options, lambda text: warn(f"rtmw: {visible(text)}")) as server:
        say(f"Foxglove shows domain {arguments.domain} at {server.url}", flush=True)
        server.run(end.is_set)
        server.close()
    if server.missed:
        warn(f"rtmw: {counted(server.missed, 'message')} came faster than they could be sent and were missed.")
    return 0
