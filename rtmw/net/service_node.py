"""A node whose settings name nothing but replicated logs: it hosts their service, and carries no domain.

So several of them run on one host, which one node at a time can have for a domain.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from rtmw.domain import NO_DOMAIN
from rtmw.errors import RtmwError
from rtmw.net.services import Services
from rtmw.net.settings import OF_LOGS, Settings, check_reload
from rtmw.net.signals import ENDING, let_signals_in
from rtmw.net.supervisor import notify
from rtmw.settings import SettingsFile

__all__ = ["ServiceNode", "names_only_logs"]

log = logging.getLogger("rtmw.node")

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
