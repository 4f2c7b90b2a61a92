"""`python -m rtmw.relay`: the process that `rtmw node` starts for `serve = ["relay"]`.

Its standard input is a pipe of the node: when that closes, the node is gone, and the relay ends, too.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
import sys
from pathlib import Path

import uvloop

import rtmw
from rtmw.daemon_log import VisibleLines, written
from rtmw.relay.server import Server
from rtmw.relay.settings import read_relay
from rtmw.visible import visible

log = logging.getLogger("rtmw.relay")


def main() -> int:
    """0: it was told to end. 1: it could not begin, or not go on; the last line on standard error says why."""
    parser = argparse.ArgumentParser(prog="python -m rtmw.relay", description=__doc__)
    parser.add_argument("--domain", type=int, help="of the node")
    parser.add_argument("--data", type=Path, required=True, help="folder; the record lies in its relay/")
    parser.add_argument("--node", help="its name")
    parser.add_argument("--config", type=Path, required=True, help="settings file with [relay] and [[agent]]")
    asked = parser.parse_args()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})  # it waits until the relay can obey it
    try:
        with written(logging.getLogger(), VisibleLines("%(message)s")):
            uvloop.run(serve(asked))
    except (rtmw.RtmwError, ValueError, OSError) as error:
        print(visible(str(error)), file=sys.stderr)
        return 1
    return 0


async def serve(asked: argparse.Namespace) -> None:
    """Until SIGINT, SIGTERM, or the end of standard input. SIGHUP: the settings file is read again."""
    loop = asyncio.get_running_loop()
    server = Server(asked.data / "relay", read_relay(asked.config))
    loop.add_signal_handler(signal.SIGHUP, _reread, server, asked.config)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, server.stopping.set)
    loop.add_reader(sys.stdin.fileno(), _hear, server)
    try:
        await server.run()
    finally:
        loop.remove_reader(sys.stdin.fileno())


def _reread(server: Server, path: Path) -> None:
    """All of it, or nothing."""
    try:
        server.obey(read_relay(path))
    except rtmw.RtmwError as error:
        log.error("the settings stay as they are: %s", error)
    else:
        log.info("settings read again")


def _hear(server: Server) -> None:
    if not os.read(sys.stdin.fileno(), 4096):
        server.stopping.set()


if __name__ == "__main__":
    sys.exit(main())
