"""Services that a node hosts, `serve = ["transfer"]`: each a child process, started again when it dies.

A disk that fails ends the service that writes to it, and never the bridge. A child reads its standard input: when the
node is gone, however it ended, that closes, and the child ends, too.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rtmw.clock import CLOCK
from rtmw.net.session.backoff import Backoff
from rtmw.net.settings import Settings

__all__ = ["Services"]

log = logging.getLogger("rtmw.node")

MODULES: Final = {"transfer": "rtmw.transfer.core"}
_FIRST_S, _MOST_S = 0.1, 5.0
"""Between the end of a service and its next start (`Backoff`)."""
_LONG_S: Final = 10.0
"""A service that has run for so long is started at once."""
_END_S: Final = 5.0


@dataclass
class Service:
    """As the status of the node shows it."""

    name: str
    pid: int | None = None
    """None: it is not running."""
    starts: int = 0
    why: str = ""
    """The reason that its last process gave at its end."""
    failures: int = 0
    """How often in a row it ended soon after its start."""
    begun: float = 0.0
    """When its last process was started, by CLOCK_MONOTONIC."""

    def row(self) -> dict[str, Any]:
        """`failures`: 0 also of one that has been running for long."""
        lasts = self.pid is not None and CLOCK.monotonic() - self.begun > _LONG_S
        return {
            "name": self.name, "pid": self.pid, "starts": self.starts, "why": self.why,
            "failures": 0 if lasts else self.failures,
        }  # fmt: skip


class Services:
    """They run during `async with`."""

    def __init__(self, settings: Settings, config: Path | None = None) -> None:
        """`config`: the file of the settings, which services read tables of; None: there is none."""
        self._settings, self._config = settings, config
        self._services = [Service(name) for name in settings.serve]
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> None:
        self._tasks = [asyncio.create_task(self._keep(service)) for service in self._services]

    def reload(self) -> None:
        """They read the file of the settings again."""
        for service in self._services:
            if service.pid is not None:
                with suppress(ProcessLookupError):
                    os.kill(service.pid, signal.SIGHUP)

    def rows(self) -> list[dict[str, Any]]:
        """For the status of the node."""
        return [service.row() for service in self._services]

    async def _keep(self, service: Service) -> None:
        backoff, said = Backoff(_FIRST_S, _MOST_S), ""
        while True:
            code = await self._run(service, said)
            service.failures += 1
            if CLOCK.monotonic() - service.begun > _LONG_S:
                backoff.reset()
                service.failures, said = 0, ""
            if said != (said := service.why or "no reason"):
                log.warning("service %s ended (%d): %s; it starts again, until it goes on", service.name, code, said)
            await asyncio.sleep(backoff.seconds())

    async def _run(self, service: Service, said: str) -> int:
        """One process, from start to end. Cancelled, it is told to end. `said`: the last reason in the log."""
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            *self._command(service.name), stdin=pipe, stdout=asyncio.subprocess.DEVNULL, stderr=pipe
        )
        service.pid, service.starts, service.begun = process.pid, service.starts + 1, CLOCK.monotonic()
        assert process.stderr is not None, "it was asked for"
        try:
            while data := await _line(process.stderr):
                if line := data.decode(errors="replace").strip():
                    service.why = line
                    if line != said:
                        log.info("service %s: %s", service.name, line)
            return await process.wait()
        finally:
            service.pid = None
            await _end(process)

    def _command(self, name: str) -> list[str]:
        settings = self._settings
        where = ["--domain", str(settings.domain), "--data", str(settings.data), "--node", settings.node_name]
        config = [] if self._config is None else ["--config", str(self._config)]
        return [sys.executable, "-m", MODULES[name], *where, *config]

    async def __aexit__(self, *_: object) -> None:
        """Each is told to end, and killed if it does not within five seconds."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def _line(said: asyncio.StreamReader) -> bytes:
    """The next one; empty at the end. One beyond the limit of the stream, 64 KiB, is said not to be shown."""
    try:
        return await said.readline()
    except ValueError:  # what was read of it is gone
        return b"a line that is too long to be shown\n"


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is not None:
        return
    with suppress(ProcessLookupError):
        process.send_signal(signal.SIGTERM)
    try:
        await asyncio.wait_for(process.wait(), _END_S)
    except TimeoutError:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
