"""The arguments of `rtmw log`. What a command needs is imported when it runs: numpy, and more."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from importlib import import_module

from rtmw.cli.quantities import argument, natural, seconds
from rtmw.cli.replay_arguments import moment, rate
from rtmw.log_options import check_segment
from rtmw.publisher import check_count

Add = Callable[..., argparse.ArgumentParser]
"""Adds a command that has a domain: `add(name, run, help)`."""

DEPTH = 4096


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
    parser.add_argument("-o", "--output", required=True, metavar="FOLDER", help="of the log; made if need be")
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
    parser.add_argument("folder", metavar="FOLDER", help="of the log")
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
