"""The arguments of `rtmw send` and `rtmw receive`. What they need is imported when they run."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from importlib import import_module

from rtmw.cli.quantities import count, seconds

__all__ = ["add_commands"]

Add = Callable[..., argparse.ArgumentParser]
"""Adds a command that has a domain: `add(commands, name, run, help)`."""
LEVELS = ("accepted", "sent", "delivered", "consumed")


def add_commands(commands: object, add: Add) -> None:
    help = "send files to the inbox of a service; the same command again goes on where it was, and sends nothing twice"
    parser = add(commands, "send", partial(_run, "send"), help)
    parser.add_argument("files", nargs="+", metavar="FILE", help="which must not be written to until it has arrived")
    parser.add_argument("--to", metavar="SERVICE", help="service, service/pid or service/*, and @NODE")
    parser.add_argument("--wait", choices=LEVELS, help="when it ends (default sent: all there)")
    parser.add_argument("--into", metavar="FOLDER", default="", help="below the folder of the receiver (default: that)")
    parser.add_argument("--timeout", type=seconds, help="seconds after which it ends; the files go on")
    parser.add_argument("--quiet", action="store_true", help="say nothing but errors")
    paper = "each FILE is a transfer in the paper's form, with its address; - is standard input"
    parser.add_argument("--paper", action="store_true", help=paper)
    help = "take the letters of a service, with their files into a folder, until SIGINT or SIGTERM"
    parser = add(commands, "receive", partial(_run, "receive"), help)
    parser.add_argument("service", metavar="SERVICE", help="its name alone")
    parser.add_argument("--into", required=True, metavar="FOLDER", help="made if need be")
    paper = "write each letter as a file in the paper's form"
    parser.add_argument("--paper", action="store_true", help=paper)
    parser.add_argument("--count", type=count, help="end after so many letters")


def _run(name: str, arguments: argparse.Namespace) -> int:
    status: int = getattr(import_module("rtmw.cli.files"), f"{name}_command")(arguments)
    return status
