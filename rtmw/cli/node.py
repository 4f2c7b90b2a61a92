"""`rtmw node`: run the daemon of this host."""

from __future__ import annotations

import argparse
import gc
import json
import logging
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, NoReturn

from rtmw.cli.common import CommandError
from rtmw.cli.parsing import Commands, add_commands, add_settings, domain_number, natural, runs, seconds, seconds_or_0
from rtmw.cli.terminal import say
from rtmw.domain import environment_domain
from rtmw.errors import RtmwError
from rtmw.net.process import signals_held, systemd_unit
from rtmw.net.settings import NODE, Settings, make_settings
from rtmw.settings import SettingsFile
from rtmw.text.daemon_log import VisibleLines, written

STDERR = 2
ANEW = "RTMW_NODE_ANEW"
"""Variable in the environment of a node that has replaced itself."""
HELD = "RTMW_NODE_SETTINGS"
"""Likewise: the descriptor of the text of its settings file, as it was taken in. The file may be empty or wrong by now,
and was refused at SIGHUP."""


COMMANDS: Final[Commands] = {
    "list": ("node_status:add_list", "list the node of the domain and its peers"),
    "info": ("node_status:add_info", "show what crosses and what does not, what was dropped, and why"),
    "check": (
        "node_check:add_arguments",
        "say what a node would do with the settings of a file, and what is in its way; nothing starts",
    ),
    "explain": ("node_explain:add_arguments", "say what the rules let a peer do, and why"),
    "keys": ("node_keys:COMMANDS", "make, request, sign, install, renew and show keys of nodes"),
    "doctor": (
        "node_doctor:add_arguments",
        "look for what is in the way between this host and the others; status 1 for a fault",
    ),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    runs(parser, run)
    parser.allow_abbrev = False  # else `--peer` of `node explain` is taken for a short --peers or --peer-rates
    parser.set_defaults(domain=None)  # not given: the file may say it
    parser.add_argument("--config", metavar="FILE", help="settings in TOML, by the same names; SIGHUP reads it again")
    types = {"dds_domain": domain_number, "lease": seconds, "handover": seconds_or_0, "metrics_port": natural}
    add_settings(parser, NODE, types, without=("domain",))
    parser.add_argument("--systemd-unit", action="store_true", help="print a unit for systemd that starts it, and end")
    add_commands(parser, COMMANDS, required=False)


class _Lines(logging.Formatter):
    """Formats each record of the log as one JSON object on one line."""

    def format(self, record: logging.LogRecord) -> str:
        return json.dumps({"time": record.created, "level": record.levelname.lower(), "message": record.getMessage()})


def run(arguments: argparse.Namespace) -> int:
    """Run until SIGINT or SIGTERM."""
    path = Path(arguments.config) if arguments.config else None
    given: dict[str, Any] = {name: getattr(arguments, name) for name in NODE.by_name}
    if arguments.systemd_unit:
        make_settings(None, given, base_settings())
        say(*systemd_unit(path, given, json=arguments.json).splitlines())
        return 0
    log = logging.getLogger("rtmw.node")
    with written(log, _Lines() if arguments.json else VisibleLines("%(asctime)s rtmw node: %(message)s")):
        try:
            with signals_held():  # before any library has a thread
                _serve(path, given)
        except RtmwError as error:
            if not arguments.json:
                raise
            log.critical("%s", error)
            return 1
    return 0


def base_settings() -> Settings:
    """The settings that hold where neither file nor command line says anything."""
    try:
        return Settings(domain=environment_domain())
    except ValueError as error:
        raise CommandError(str(error)) from error


@contextmanager
def _imports_kept() -> Generator[None]:
    """What is imported inside stays until the process ends, so the garbage collector searches it neither now nor later.
    Its searches take a fifth of the processor time in which a node starts and ends."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def _serve(path: Path | None, given: dict[str, Any]) -> None:
    from rtmw.net.services import ServiceNode, names_only_logs  # asyncio, which few commands need

    base = base_settings()
    begins_anew, held = os.environ.pop(ANEW, None) is not None, os.environ.pop(HELD, None)
    file = _file(path, held) if path else None
    settings, log = make_settings(file, given, base), logging.getLogger("rtmw.node")
    log.info("process %d begins, with %s", os.getpid(), path or "the settings of the command line")
    if names_only_logs(settings, file, given):
        import uvloop

        uvloop.run(ServiceNode(settings, file, lambda read: make_settings(read, given, base)).run())
        return
    with _imports_kept():
        import uvloop

        from rtmw.net.dds.network import NetworkChanged
        from rtmw.net.node import Node
    node = Node(settings, file, lambda read: make_settings(read, given, base), begins_anew)
    try:
        uvloop.run(node.run())
    except NetworkChanged as change:
        log.warning("%s; the node begins anew", change)
        _begin_anew(node.file)


def _file(path: Path, held: str | None) -> SettingsFile:
    """The settings file. `held`: where the node before this one has left its text."""
    if held is None:
        return SettingsFile.read(path)
    with open(int(held), encoding="utf-8") as text:
        return SettingsFile.parse(path, text.read())


def _begin_anew(file: SettingsFile | None) -> NoReturn:
    """Starts the node anew in this process, with the arguments that it was started with and the settings that hold.
    It closes all that DDS has opened. Signals wait meanwhile (rtmw/net/process.py)."""
    for descriptor in os.listdir("/proc/self/fd"):
        if int(descriptor) > STDERR:
            with suppress(OSError):  # the one of the list itself
                os.set_inheritable(int(descriptor), False)
    said = {ANEW: "1"}
    if file is not None:
        said[HELD] = str(kept := os.memfd_create("settings", 0))
        with open(kept, "w", encoding="utf-8", closefd=False) as text:
            text.write(file.text)
        os.lseek(kept, 0, os.SEEK_SET)
    logging.shutdown()  # what is still to be said, is
    os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], {**os.environ, **said})
