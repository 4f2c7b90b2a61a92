"""The process of a service that a node hosts: `python -m MODULE`, as `rtmw/net/services.py` starts it, and again.

SIGINT, SIGTERM and the end of standard input, which is a pipe of the node, end it; SIGHUP makes it read the settings
again, all of them or nothing. Its exit status is 0 if it was told to end, and 1 if it could not begin or go on: then
the last line on standard error says why.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import os
import resource
import signal
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar

import uvloop

from rtmw.domain import NO_DOMAIN
from rtmw.errors import RtmwError
from rtmw.text.daemon_log import VisibleLines, written
from rtmw.text.visible import visible

__all__ = ["Asked", "run_service"]

log = logging.getLogger("rtmw.service")


@dataclass(frozen=True)
class Asked:
    """The command line of a service."""

    domain: int
    data: Path
    """The folder of what all services of the node keep."""
    node: str
    config: Path | None
    """The settings file of the node; None: it has none."""


class Work(Protocol):
    """What a service does, in the loop of its process."""

    stopping: asyncio.Event
    """Set: `run` returns."""

    async def run(self) -> None: ...


W = TypeVar("W", bound=Work)


def run_service(
    module: str, begin: Callable[[Asked], AbstractContextManager[W]], obey: Callable[[W, Asked], None]
) -> int:
    """The process, from its command line to its exit status. `begin`: the work, closed at the end of the block. `obey`:
    reads the settings again, all of them, or raises RtmwError. An RtmwError, ValueError or OSError ends the process."""
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=__doc__)
    parser.add_argument("--domain", type=int, default=NO_DOMAIN, help=f"of the node; {NO_DOMAIN}: it has none")
    parser.add_argument("--data", type=Path, required=True, help="folder of what services keep")
    parser.add_argument("--node", default="node", help="its name")
    parser.add_argument("--config", type=Path, help="settings file of the node")
    asked = Asked(**vars(parser.parse_args()))
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})  # it waits until the service can obey it
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)  # files and connections of all peers are open
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    try:
        with written(logging.getLogger(), VisibleLines("%(message)s")):
            uvloop.run(_serve(asked, begin, obey))
    except (RtmwError, ValueError, OSError) as error:
        print(visible(_why(error, asked.data)), file=sys.stderr)
        return 1
    return 0


def _why(error: Exception, data: Path) -> str:
    if not isinstance(error, OSError) or error.filename is None:
        return str(error)
    words = f"{error.filename}: {error.strerror}"
    return f"the folder of data cannot be used: {words}" if Path(error.filename).is_relative_to(data) else words


async def _serve(
    asked: Asked, begin: Callable[[Asked], AbstractContextManager[W]], obey: Callable[[W, Asked], None]
) -> None:
    loop = asyncio.get_running_loop()
    with begin(asked) as work:
        loop.add_signal_handler(signal.SIGHUP, _reread, partial(obey, work, asked))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, work.stopping.set)
        loop.add_reader(sys.stdin.fileno(), _hear, work, loop)
        gc.freeze()  # modules, and what waits already: a full collection went through all of it
        try:
            await work.run()
        finally:
            loop.remove_reader(sys.stdin.fileno())


def _reread(obey: Callable[[], None]) -> None:
    try:
        obey()
    except RtmwError as error:
        log.error("the settings stay as they are: %s", error)
    else:
        log.info("settings read again")


def _hear(work: Work, loop: asyncio.AbstractEventLoop) -> None:
    if not os.read(sys.stdin.fileno(), 4096):
        loop.remove_reader(sys.stdin.fileno())  # it has an end for ever, and the work may take a while to stop
        work.stopping.set()
