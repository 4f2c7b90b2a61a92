"""The arguments of `rtmw log`. What a command needs is imported when it runs: numpy, and more."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from rtmw.cli.quantities import argument, count, moment, natural, seconds
from rtmw.cli.replay_arguments import rate
from rtmw.cli.subcommands import add_subcommand
from rtmw.cli.values import load_type
from rtmw.log_options import check_segment
from rtmw.publisher import check_count
from rtmw.units import some_bytes, some_seconds

Add = Callable[..., argparse.ArgumentParser]
"""Adds a command that has a domain: `add(name, run, help)`."""

DEPTH = 4096
NODE = "127.0.0.1:7501"
_PLACES = "of a log that nodes keep: where they listen, best all of them, HOST:PORT or unix:PATH with commas between"


def add_bus_commands(add: Add) -> None:
    """`rtmw log store|replay`: between topics and a log."""
    _add_store(add)
    _add_replay(add)


def _run(home: str, arguments: argparse.Namespace) -> int:
    status: int = import_module(f"rtmw.cli.{home}").run(arguments)
    return status


def _depth(text: str) -> int:
    return check_count("depth", int(text), 1)


def _add_store(add: Add) -> None:
    parser = add("store", partial(_run, "log_store"), "append each message of topics to a log, until SIGINT or SIGTERM")
    parser.add_argument(
        "topics", nargs="+", metavar="TOPIC", help="of one type: a log has one; the name becomes the key"
    )
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("-o", "--output", metavar="FOLDER", help="of the log; made if need be")
    where.add_argument("--log", metavar="NAME", help="of a log that nodes keep (rtmw log create)")
    add_place(parser, f"{_PLACES} (default {NODE})")
    parser.add_argument(
        "--segment", type=argument(check_segment), default="64M", metavar="SIZE", help="of files at most"
    )
    help = f"unread messages of each priority for which publishers do not wait (default {DEPTH})"
    parser.add_argument("--depth", type=argument(_depth), default=DEPTH, metavar="N", help=help)
    help = "messages from before, of publishers that keep some (default 0)"
    parser.add_argument("--history", type=natural, default=0, metavar="N", help=help)
    parser.add_argument("--for", type=seconds, dest="seconds", metavar="TIME", help="how long (until SIGINT)")
    parser.add_argument("--timeout", type=seconds, metavar="TIME", help="to wait for the topics (default: for ever)")
    parser.add_argument("--quiet", action="store_true", help="say nothing but errors")


def _add_replay(add: Add) -> None:
    parser = add("replay", partial(_run, "log_replay"), "publish the records of a log again, each at its time")
    _one(parser)
    parser.add_argument(
        "--topic", metavar="TOPIC", help="where to (default: each record's key, as `rtmw log store` has it)"
    )
    parser.add_argument("--rate", type=rate, default=1.0, metavar="N", help="times real time; max: as fast as taken")
    help = "a position, or date and time (UTC); default: the first record"
    parser.add_argument("--start", type=_start, metavar="START", help=help)
    parser.add_argument(
        "--wait", type=natural, default=0, metavar="N", help="first wait until each topic has N subscribers"
    )
    parser.add_argument("--timeout", type=seconds, metavar="SECONDS", help="to wait for them (default: for ever)")


def _start(text: str) -> object:
    return int(text) if text.isdecimal() else moment(text)


def add_folder_commands(kinds: Any) -> None:
    """`rtmw log list|info|tail|append|check|salvage|trim|export`: of a folder, or at nodes; without a domain."""
    parser = _add(kinds, "list", "list the logs in folders, with size and writer; or those of a node")
    parser.add_argument("paths", nargs="*", metavar="FOLDER", default=["."], help="default: this one")
    add_place(parser, "HOST:PORT or unix:PATH, [log] listen of the node")
    _one(_add(kinds, "info", "show the segments of a log, its cursors and rates, as a picture and in numbers"))
    _add_tail(kinds)
    _add_append(kinds)
    _one(_add(kinds, "check", "read all of a log; tell a torn tail from damage; status 1: damaged"))
    parser = _add(kinds, "salvage", "write all that is whole of a damaged log into a new one, and say what is missing")
    _one(parser)
    parser.add_argument("-o", "--output", required=True, metavar="FOLDER", help="must not exist")
    parser = _add(kinds, "trim", "remove the segments before a position or a time, durably")
    _one(parser)
    parser.add_argument("before", type=_start, metavar="BEFORE", help="a position, or date and time (UTC)")
    parser.add_argument("--force", action="store_true", help="also what a cursor has not passed")
    parser = _add(kinds, "export", "write records for other programs, one JSON object a line")
    _one(parser)
    _from(parser)
    parser.add_argument("--jsonl", required=True, metavar="FILE", help="- for standard output")


def add_node_commands(kinds: Any) -> None:
    """`rtmw log create|status`: of a replicated log, by its name; a node is asked."""
    parser = _of_nodes(kinds, "create", "make a log that several nodes keep")
    parser.add_argument("--members", required=True, metavar="NODES", help="names of the nodes that keep it: a,b,c")
    help = "class of its values, as package.module:Class, str or dict (default: bytes)"
    parser.add_argument("--type", type=load_type, default=bytes, metavar="TYPE", help=help)
    help = "members that have each record when it is answered, at least (default: [log] min_insync of the node)"
    parser.add_argument("--min-insync", type=count, metavar="NUMBER", help=help)
    for option, what in (
        ("--sync-timeout", "after which a record that a member has not acknowledged goes to the control store"),
        ("--lag", "after which a member that is behind leaves the in-sync set"),
        ("--suspect", "of silence after which a master is replaced"),
    ):
        parser.add_argument(option, type=seconds, metavar="SECONDS", help=f"{what} (default: [log] of the node)")
    help = "full segments go when they were full so long ago: 7d (default: no limit)"
    parser.add_argument("--age", type=argument(some_seconds), metavar="TIME", help=help)
    help = "the oldest segments go until no more is left: 10G (default: no limit)"
    parser.add_argument("--bytes", type=argument(some_bytes), metavar="SIZE", help=help)
    _of_nodes(kinds, "status", "show the master of a log that nodes keep, who is in sync, and what is at risk")
    parser = _of_nodes(kinds, "members", "add, remove or replace a node that keeps a log")
    parser.add_argument("change", choices=("add", "remove", "replace"), metavar="add|remove|replace")
    parser.add_argument("which", metavar="NODE", help="name of the node; its disk may be wiped, if it is replaced")
    help = "what takes its place, if it is replaced (default: the same node, with a new copy)"
    parser.add_argument("by", nargs="?", metavar="OTHER", help=help)
    parser = _of_nodes(kinds, "move", "let another node be the master of a log")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("to", nargs="?", metavar="NODE", help="name of a node in sync (default: whichever is best)")
    where.add_argument("--off", metavar="NODE", help="if this one is the master, let another one be it")
    _with_yes(_of_nodes(kinds, "drop", "remove a log from all of its nodes, for good"))
    parser = _of_nodes(kinds, "rescue", "let a copy that was not in sync be the log; others are gone for ever")
    parser.add_argument("which", metavar="NODE", help="name of the node that has the copy")
    _with_yes(parser)


def _with_yes(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--yes", action="store_true", help="do not ask")


def _of_nodes(kinds: Any, name: str, help: str) -> argparse.ArgumentParser:
    parser = add_subcommand(kinds, name, help, ("rtmw.cli.log_replica", f"{name}_command"))
    parser.add_argument("name", metavar="NAME", help="of the log")
    add_place(parser, f"HOST:PORT or unix:PATH, [log] listen of any of its nodes (default {NODE})", NODE)
    return parser


def add_place(parser: argparse.ArgumentParser, help: str, default: str | None = None) -> None:
    """Adds the arguments that say where nodes of replicated logs are, and with which keys they are asked."""
    parser.add_argument("--node", default=default, metavar="PLACE", help=help)
    parser.add_argument("--keys", type=Path, metavar="FOLDER", help="keys of a node, where those nodes have some")


def _add(kinds: Any, name: str, help: str) -> argparse.ArgumentParser:
    return add_subcommand(kinds, name, help, ("rtmw.cli.log", f"{name}_command"))


def _one(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", metavar="LOG", help="its folder; with --node its name")
    add_place(parser, _PLACES)


def _from(parser: argparse.ArgumentParser) -> None:
    help = "a position, or date and time (UTC); default: the first record"
    parser.add_argument("--start", type=_start, metavar="START", help=help)


def _add_tail(kinds: Any) -> None:
    parser = _add(kinds, "tail", "print the last records of a log")
    _one(parser)
    parser.add_argument("-n", "--count", type=natural, default=10, help="how many (default 10)")
    _from(parser)
    parser.add_argument("-f", "--follow", action="store_true", help="and all that come, until Ctrl-C")
    parser.add_argument("--most", type=count, help="end after so many")


def _add_append(kinds: Any) -> None:
    parser = _add(kinds, "append", "append a record by hand, as the type of the log; it is on the disk when this ends")
    _one(parser)
    parser.add_argument("value", help="JSON for the type of the log; text where it is one of bytes or str")
    parser.add_argument("--key", help="text that readers find with the record")
    parser.add_argument("--id", help="text; an append with the same id is not made again")
