"""The arguments of `rtmw transfers`. What a command needs is imported when it runs."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path

from rtmw.cli.quantities import count, seconds

__all__ = ["add_commands"]

Add = Callable[..., argparse.ArgumentParser]
"""Adds a command that has a domain: `add(commands, name, run, help)`."""


def add_commands(commands: object, add: Add) -> None:
    """`rtmw transfers`, and `rtmw transfers cancel|retry|info|body|restored`."""
    help = "show transfers, open transactions and what went wrong, as the core of the host has them"
    parser = add(commands, "transfers", partial(_run, "show"), help)
    parser.add_argument("--watch", action="store_true", help="again and again, with rates, until q or Ctrl-C")
    parser.add_argument("--queues", action="store_true", help="the queues, and each item with its eleven fields")
    parser.add_argument("--window", type=seconds, default=1.0, help="seconds to measure over, for --watch (default 1)")
    parser.add_argument("--count", type=count, help="windows to show, for --watch (default: until q or Ctrl-C)")
    kinds = parser.add_subparsers(metavar="COMMAND", required=False)
    for name, what in (
        ("cancel", "end transfers that nobody has taken yet, and dead letters"),
        ("retry", "put dead letters in their places again, for any receiver"),
        ("info", "show all that the core knows of transfers"),
    ):
        one = add(kinds, name, partial(_run, name), what)
        one.add_argument("ids", nargs="+" if name == "info" else "*", metavar="ID", help="as `rtmw transfers` shows it")
        if name != "info":
            one.add_argument("--service", metavar="SERVICE", help="instead of IDs: the dead letters of this service")
            one.add_argument(
                "--cause",
                metavar="WORDS",
                help="instead of IDs: the dead letters whose why has these words, just so",
            )
    body = add(kinds, "body", partial(_run, "body"), "show what a transfer carries, without taking it")
    body.add_argument("id", metavar="ID", help="as `rtmw transfers` shows it")
    body.add_argument("--part", type=count, metavar="N", help="of a composite: this part alone, from 1")
    body.add_argument("--raw", metavar="FILE", help="write the bytes to a new file, or with - to standard output")
    what = "say that the data of a node that does not run was set back, by a snapshot of its disk: ids begin anew"
    restored = add(kinds, "restored", partial(_run, "restored"), what)
    restored.add_argument("folder", type=Path, metavar="FOLDER", help="`data` of the node")


def _run(name: str, arguments: argparse.Namespace) -> int:
    status: int = getattr(import_module("rtmw.cli.transfers"), f"{name}_command")(arguments)
    return status
