"""The arguments of `rtmw relay`. What a command needs is imported when it runs."""

from __future__ import annotations

import argparse
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from rtmw.cli.quantities import argument, count
from rtmw.cli.subcommands import add_subcommand

__all__ = ["add_commands"]

ACTS: Final = {
    "hold": ("WHOM", "send nothing to an agent, or of a stream SOURCE:DESTINATION, until it is released"),
    "release": ("WHOM", "send again to an agent, or of a stream, that was held, or stopped behind a failure"),
    "requeue": ("ORDER", "send an order that failed once more, out of order, under a new number"),
    "resend": ("ORDER", "send an order again now that is on its way and not confirmed"),
    "drop": ("ORDER", "end an order that is open; its source is told"),
}


def add_commands(commands: Any) -> None:
    """`rtmw relay frame|explain|check|agents|queue|show`, ACTS, and `rtmw relay audit verify|show|export`."""
    kinds = commands.add_parser("relay", help="orders between agents: decode frames, explain and check the rules")
    kinds = kinds.add_subparsers(metavar="COMMAND", required=True)
    parser = _add(kinds, "frame", "show the frames of a capture of one direction")
    parser.add_argument("file", metavar="FILE", help="bytes as one side sent them; - is standard input")
    parser.add_argument(
        "--config", metavar="FILE", type=Path, help="settings with [relay]: header, types, commands, checksum"
    )
    parser.add_argument("--charset", default="utf-8", help="of the data, for showing (default utf-8)")
    parser = _add(kinds, "explain", "say whether an agent may send an order, and why")
    parser.add_argument("agent", metavar="FROM", help="its name in the settings")
    parser.add_argument("to", metavar="TO", help="an agent or a subject")
    parser.add_argument("command", metavar="COMMAND", help="one letter, such as I, U or D")
    parser.add_argument("--performative", metavar="NAME", help="of a KQML body, such as tell")
    parser.add_argument("--file", metavar="FILE", type=Path, required=True, help="settings of the node with the relay")
    parser = _add(kinds, "check", "say what a relay would do with a file; status 1 for advice")
    parser.add_argument("file", metavar="FILE", type=Path, help="settings of the node with the relay")
    parser.add_argument(
        "--on", metavar="FOLDER", type=Path, help="`data` of a node: list orders it would judge otherwise"
    )
    _add_operation(kinds)
    audit = kinds.add_parser("audit", help="the record of a relay: show it, prove it, hand it out")
    _add_audit(audit.add_subparsers(metavar="COMMAND", required=True))


def _add_operation(kinds: Any) -> None:
    parsers = [_add(kinds, "agents", "show who is connected to a relay that runs, and what waits")]
    parsers += [_add(kinds, "queue", "show the orders that wait in a relay that runs, by priority")]
    parsers[-1].add_argument("agent", metavar="AGENT", nargs="?", default="", help="for this one (default: for all)")
    parsers += [_add(kinds, "show", "show every row of an order, also where no relay runs")]
    parsers[-1].add_argument("order", metavar="ORDER", type=count, help="its number")
    for verb, (whom, what) in ACTS.items():
        parsers += [_add(kinds, verb, what, "act")]
        parsers[-1].set_defaults(verb=verb)
        help = "the number of an order" if whom == "ORDER" else "the name of an agent, or SOURCE:DESTINATION"
        parsers[-1].add_argument("whom", metavar=whom, type=count if whom == "ORDER" else str, help=help)
    for parser in parsers:
        place = parser.add_mutually_exclusive_group(required=True)
        place.add_argument("--file", metavar="FILE", type=Path, help="settings of the node with the relay")
        place.add_argument("--data", metavar="FOLDER", type=Path, help="`data` of that node")


def _add_audit(kinds: Any) -> None:
    parser = _add(kinds, "verify", "say whether the record is what was sealed; status 1 if it is not")
    parser.add_argument("folder", metavar="FOLDER", type=Path, help="`data` of the node, or the record itself")
    parser.add_argument("--keys", metavar="FOLDER", type=Path, help="with ca.pem: whose nodes may sign")
    parser.add_argument("--heads", metavar="FILE", type=Path, help="a line for each order with a head that came")
    for name, help in (("show", "show rows as a table"), ("export", "write rows with their data to standard output")):
        parser = _add(kinds, name, help, "audit")
        parser.add_argument("folder", metavar="FOLDER", type=Path, help="`data` of the node, or the record itself")
        parser.add_argument("--agent", metavar="NAME", help="rows that name this agent")
        parser.add_argument("--order", metavar="ORDER", type=count, help="rows of this order")
        for option, which in (("--since", "at this time or later"), ("--until", "before this time")):
            parser.add_argument(option, metavar="TIME", type=argument(_time), help=f"rows {which}: 2026-11-29T13:44")
        parser.add_argument("--file", metavar="FILE", type=Path, help="settings with [[agent]]: their charsets")
    parser.add_argument("--format", choices=("jsonl", "csv"), default="jsonl", help="of the lines (default jsonl)")


def _add(kinds: Any, name: str, help: str, home: str = "") -> argparse.ArgumentParser:
    return add_subcommand(kinds, name, help, ("rtmw.cli.relay", f"{home or name}_command"))


def _time(text: str) -> datetime:
    """Returns a time, with this host's zone if it has none. Raises ValueError."""
    return datetime.fromisoformat(text).astimezone()
