"""`python -m rtmw.transfer.core`: the process that `rtmw node` starts for `serve = ["transfer"]`.

Its standard input is a pipe of the node: when that closes, the node is gone, and the core ends, too.
"""

from __future__ import annotations

import argparse
import asyncio
import ctypes
import gc
import logging
import os
import resource
import signal
import sys
from pathlib import Path
from typing import Final

import uvloop

import rtmw
from rtmw.daemon_log import VisibleLines, written
from rtmw.settings import SettingsFile
from rtmw.transfer.core.network import read_network
from rtmw.transfer.core.process import Process
from rtmw.transfer.limits import Limits, read_limits
from rtmw.visible import visible

log = logging.getLogger("rtmw.transfer")

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""Of mallopt(3)."""
_KEPT: Final = 16 << 20
"""Bytes of free memory that are not given back at once."""


def main() -> int:
    """0: it was told to end. 1: it could not begin, or not go on; the last line on standard error says why."""
    parser = argparse.ArgumentParser(prog="python -m rtmw.transfer.core", description=__doc__)
    parser.add_argument("--domain", type=int, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--node", required=True)
    parser.add_argument("--config", type=Path, help="settings file of the node: [transfer] and [[allow]]")
    asked = parser.parse_args()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})  # it waits until the core can obey it
    _keep_memory()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)  # files that arrive and are sent, of all nodes, are open
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    try:
        with written(logging.getLogger(), VisibleLines("%(message)s")):
            uvloop.run(serve(asked))
    except (rtmw.RtmwError, ValueError, OSError) as error:
        print(visible(_why(error, asked.data)), file=sys.stderr)
        return 1
    return 0


def _why(error: Exception, data: Path) -> str:
    if not isinstance(error, OSError) or error.filename is None:
        return str(error)
    words = f"{error.filename}: {error.strerror}"
    return f"the folder of data cannot be used: {words}" if Path(error.filename).is_relative_to(data) else words


def _keep_memory() -> None:
    """Pieces of files come and go all the time: pages that each of them gives back cost the next one a page fault each.
    Nothing without glibc."""
    change = getattr(ctypes.CDLL(None), "mallopt", None)
    if change is not None:
        change(_TRIM_THRESHOLD, _KEPT)
        change(_MMAP_THRESHOLD, _KEPT)


async def serve(asked: argparse.Namespace) -> None:
    """Until SIGINT, SIGTERM, or the end of standard input. SIGHUP: the settings file is read again."""
    loop = asyncio.get_running_loop()
    with rtmw.Domain(asked.domain, create=False) as attached:  # it is the node's, and may be removed with it
        network = read_network(asked.config, asked.node)
        process = Process(attached, asked.data, asked.node, _limits(asked), network)
        loop.add_signal_handler(signal.SIGHUP, _reread, process, asked)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, process.stopping.set)
        loop.add_reader(sys.stdin.fileno(), _hear, process)
        gc.freeze()  # modules, and what waits already: a full collection went through all of it
        try:
            await process.run()
        finally:
            loop.remove_reader(sys.stdin.fileno())
            process.close()


def _reread(process: Process, asked: argparse.Namespace) -> None:
    """All of it, or nothing."""
    try:
        process.obey(read_network(asked.config, asked.node), _limits(asked))
    except rtmw.RtmwError as error:
        log.error("the settings stay as they are: %s", error)
    else:
        log.info("settings read again")


def _limits(asked: argparse.Namespace) -> Limits:
    return Limits() if asked.config is None else read_limits(SettingsFile.read(asked.config))


def _hear(process: Process) -> None:
    if not os.read(sys.stdin.fileno(), 4096):
        process.stopping.set()


if __name__ == "__main__":
    sys.exit(main())
