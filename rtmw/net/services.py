"""Services that a node hosts, `serve = ["transfer"]`: each a child process, started again when it dies.

A disk that fails ends the service that writes to it, and never the bridge. A child reads its standard input: when the
node is gone, however it ended, that closes, and the child ends, too.

A node whose settings name nothing but replicated logs hosts their service, and carries no domain (`ServiceNode`). So
several of them run on one host, which one node at a time can have for a domain.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeAlias

from rtmw.clock import CLOCK
from rtmw.domain import NO_DOMAIN, Domain
from rtmw.errors import RtmwError
from rtmw.net.process import ENDING, let_signals_in, notify
from rtmw.net.session.sockets import Backoff
from rtmw.net.settings import OF_LOGS, Settings, check_reload
from rtmw.observe.node_status import HostedService
from rtmw.observe.services import STILL, STILL_S, LogsActivity, RelayActivity, TransferActivity, logs, relay, transfers
from rtmw.settings import SettingsFile
from rtmw.text.daemon_log import BOUNDED_BEFORE

__all__ = ["ServiceNode", "Services", "names_only_logs"]


log = logging.getLogger("rtmw.node")

Activity: TypeAlias = TransferActivity | RelayActivity | LogsActivity
MODULES: Final = {"transfer": "rtmw.transfer.core", "relay": "rtmw.relay", "log": "rtmw.replica"}
LOOKS: Final[dict[str, Callable[[Domain], Activity | None]]] = {"transfer": transfers, "relay": relay, "log": logs}
"""What a service says of itself; None: it has said nothing."""
_FIRST_S, _MOST_S = 0.1, 5.0
"""Seconds between the end of a service and its next start (`Backoff`)."""
_LONG_S: Final = 10.0
"""A service that has been at work for so long is started at once, and has no failures behind it."""
_END_S: Final = 5.0
_REST_S: Final = 1.0
"""Seconds in which the last lines of a process that has ended are read: they are there."""
_BEGINS_S: Final = 60.0
"""Seconds that a service may take to begin, since it reads what it has kept."""


@dataclass
class Service:
    """A service as the node knows it."""

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
    works: bool = False
    """Its last process has said that it is at work, so it has begun."""
    silent: float | None = None
    """Seconds for which its process has stood still; None: it is at work, or is not running."""
    full: str = ""
    """Its disk is full; what it says of that."""

    def start(self, pid: int) -> None:
        """Its next process runs."""
        self.pid, self.starts, self.silent = pid, self.starts + 1, None
        self.works, self.full, self.begun = False, "", CLOCK.monotonic()

    def hear(self, said: Activity | None) -> None:
        """`said`: what its process has said last; None: nothing. That it begins to stand still, and that it goes on, is
        logged."""
        self.works, self.full = said is not None, "" if said is None else said.full
        silent = CLOCK.monotonic() - self.begun if said is None else said.silent
        was_still, is_still = self.silent is not None, silent > (_BEGINS_S if said is None else STILL_S)
        self.silent = silent if is_still else None
        if is_still and not was_still:
            log.warning("service %s: process %s stands still: %s", self.name, self.pid, STILL)
        elif was_still and not is_still:
            log.info("service %s: process %s goes on", self.name, self.pid)

    def told(self) -> HostedService:
        """What the node's document says of it."""
        failures = 0 if self.pid is not None and self.lasts else self.failures
        return HostedService(self.name, self.pid, self.starts, self.why, failures, self.silent, self.full)

    @property
    def lasts(self) -> bool:
        """Its last process was at work, and not for a moment only. One that reads for long what it keeps, and ends
        because that is damaged, was never at work."""
        return self.works and CLOCK.monotonic() - self.begun > _LONG_S


class Services:
    """The services of a node. They run during `async with`."""

    def __init__(self, settings: Settings, config: Path | None = None) -> None:
        """`config`: the file of the settings, which services read tables of; None: there is none."""
        self._settings, self._config = settings, config
        self._services = [Service(name) for name in settings.serve]
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> None:
        self._tasks = [asyncio.create_task(self._keep(service)) for service in self._services]

    def reload(self) -> None:
        """Has each service that runs read the settings file again (SIGHUP)."""
        for service in self._services:
            if service.pid is not None:
                with suppress(ProcessLookupError):
                    os.kill(service.pid, signal.SIGHUP)

    def look(self, domain: Domain | None) -> None:
        """Are they at work? Call it about once a second. `domain`: None: the node carries none."""
        for service in self._services:
            if domain is None:
                service.works = service.pid is not None  # it says nothing more
            elif service.pid is not None:
                said = LOOKS[service.name](domain)
                service.hear(said if said is not None and said.pid == service.pid else None)

    def told(self) -> tuple[HostedService, ...]:
        """What the node's document says of them."""
        return tuple(service.told() for service in self._services)

    async def _keep(self, service: Service) -> None:
        backoff, said = Backoff(_FIRST_S, _MOST_S), ""
        async for _ in backoff:
            code = await self._run(service, said)
            if code < 0:
                service.why = f"killed by {signal.Signals(-code).name}"
            service.failures += 1
            if service.lasts:
                backoff.reset()
                service.failures, said = 0, ""
            if said != (said := service.why or "no reason"):
                log.warning("service %s ended (%d): %s; it starts again, until it goes on", service.name, code, said)

    async def _run(self, service: Service, said: str) -> int:
        """Runs one process of a service from start to end, and returns its exit code. Cancelled, it tells the process
        to end. `said`: the last reason in the log."""
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            *self._command(service.name), stdin=pipe, stdout=asyncio.subprocess.DEVNULL, stderr=pipe
        )
        service.start(process.pid)
        assert process.stderr is not None, "it was asked for"
        try:
            await _hear(service, process.stderr, said)
            return await process.wait()
        finally:
            service.pid = service.silent = None
            await _end(process)
            with suppress(TimeoutError):  # its last lines, where it was told to end
                async with asyncio.timeout(_REST_S):  # `wait_for` loses a cancellation that comes as they end
                    await _hear(service, process.stderr, said)

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


async def _hear(service: Service, told: asyncio.StreamReader, said: str) -> None:
    """Log what its process says, to the end. `said`: a line that the log has already."""
    while data := await _line(told):
        if line := data.decode(errors="replace").strip():
            service.why = line
            if line != said:
                log.info("service %s: %s", service.name, line, extra=BOUNDED_BEFORE)


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
        async with asyncio.timeout(_END_S):
            await process.wait()
    except TimeoutError:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


_NAMED: Final = frozenset({"name", "serve", "data", "allow", *OF_LOGS})
_WATCHDOG_S: Final = 1.0


def names_only_logs(settings: Settings, file: SettingsFile | None, given: dict[str, Any]) -> bool:
    """Do file and command line say nothing of a domain, and of no other service?"""
    named = {name for name, value in given.items() if value is not None} | {*(file.values if file else ())}
    return settings.serve == ("log",) and named <= _NAMED


class ServiceNode:
    """A node that only hosts services, from `run()` until SIGINT or SIGTERM."""

    def __init__(
        self, settings: Settings, file: SettingsFile | None, remake: Callable[[SettingsFile], Settings]
    ) -> None:
        self._settings, self._file, self._remake = settings, file, remake
        self._services = Services(replace(settings, domain=NO_DOMAIN), file.path if file else None)

    async def run(self) -> None:
        loop, stopping = asyncio.get_running_loop(), asyncio.Event()
        for number in ENDING:
            loop.add_signal_handler(number, stopping.set)
        loop.add_signal_handler(signal.SIGHUP, self._reload)
        let_signals_in()
        async with self._services:
            log.info("node %s serves logs, and carries no domain: its settings name none", self._settings.node_name)
            notify("READY=1")
            while not stopping.is_set():
                notify("WATCHDOG=1")
                self._services.look(None)
                with suppress(TimeoutError):
                    async with asyncio.timeout(_WATCHDOG_S):
                        await stopping.wait()
            notify("STOPPING=1")
        log.info("stopped")

    def _reload(self) -> None:
        if self._file is None:
            log.info("there is no file to read again")
            return
        try:
            file = SettingsFile.read(self._file.path)
            new = self._remake(file)
            check_reload(file, self._settings, new)
        except RtmwError as error:
            log.error("the settings stay as they are: %s", error)
            return
        self._file, self._settings = file, new
        self._services.reload()
        log.info("settings read again; who is served, and where data is, takes effect when the node is started again")
