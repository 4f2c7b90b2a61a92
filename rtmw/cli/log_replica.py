"""`rtmw log create|status|members|move|drop|rescue`: replicated logs, which nodes keep; any of their nodes is asked."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any

from rtmw.cli.common import CommandError
from rtmw.cli.parsing import ANY_OF, NODE, add_place, argument, count, runs, seconds
from rtmw.cli.terminal import Table, line, say, show, show_json, size
from rtmw.cli.values import load_type
from rtmw.errors import SessionError
from rtmw.replica.operating import ask_node
from rtmw.text.units import duration, some_bytes, some_seconds
from rtmw.types import resolve

_SETTINGS = ("min_insync", "sync_timeout", "lag", "suspect", "age", "bytes")
_WAIT_S = 10.0
"""For nodes that are just starting, and then for a first master."""


def add_create(parser: argparse.ArgumentParser) -> None:
    _begin(parser, create_command)
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


def add_status(parser: argparse.ArgumentParser) -> None:
    _begin(parser, status_command)


def add_members(parser: argparse.ArgumentParser) -> None:
    _begin(parser, members_command)
    parser.add_argument("change", choices=("add", "remove", "replace"), metavar="add|remove|replace")
    parser.add_argument("which", metavar="NODE", help="name of the node; its disk may be wiped, if it is replaced")
    help = "what takes its place, if it is replaced (default: the same node, with a new copy)"
    parser.add_argument("by", nargs="?", metavar="OTHER", help=help)


def add_move(parser: argparse.ArgumentParser) -> None:
    _begin(parser, move_command)
    where = parser.add_mutually_exclusive_group()
    where.add_argument("to", nargs="?", metavar="NODE", help="name of a node in sync (default: whichever is best)")
    where.add_argument("--off", metavar="NODE", help="if this one is the master, let another one be it")


def add_drop(parser: argparse.ArgumentParser) -> None:
    _begin(parser, drop_command, asks=True)


def add_rescue(parser: argparse.ArgumentParser) -> None:
    _begin(parser, rescue_command, asks=True)
    parser.add_argument("which", metavar="NODE", help="name of the node that has the copy")


def _begin(parser: argparse.ArgumentParser, run: Callable[[argparse.Namespace], int], asks: bool = False) -> None:
    runs(parser, run, domain=False)
    parser.add_argument("name", metavar="NAME", help="of the log")
    add_place(parser, f"[log] listen of any of its nodes (default {NODE}): {ANY_OF}", NODE)
    if asks:
        parser.add_argument("--yes", action="store_true", help="do not ask")


def _ask(arguments: argparse.Namespace, **question: Any) -> dict[str, Any]:
    return ask_place(arguments, name=arguments.name, **question)


def ask_place(arguments: argparse.Namespace, **question: Any) -> dict[str, Any]:
    """What a node answers an operator: the first one of `--node` that is reached. CommandError, LogError,
    KeysError."""
    places = arguments.node
    try:
        return ask_node(places, arguments.keys, **question)
    except SessionError as error:
        if len(places) > 1:
            raise CommandError(f"none of the nodes at {', '.join(places)} has answered: {error}") from None
        raise CommandError(f"the node at {places[0]} is not reached: {error}") from None
    except ValueError as error:
        raise CommandError(str(error)) from None


def create_command(arguments: argparse.Namespace) -> int:
    given = {name: getattr(arguments, name) for name in _SETTINGS}
    settings = {name: value for name, value in given.items() if value is not None}
    members, description = arguments.members.split(","), resolve(arguments.type).description.hex()
    question = {"ask": "create", "members": members, "description": description, "settings": settings}
    with line() as shown:
        shown(f"waiting for a node at {', '.join(arguments.node)}, for {', '.join(members)}, and for a first master")
        made = _ask(arguments, **question, wait=_WAIT_S)
    master = f"master {made['master']}" if made["master"] else "no master yet: rtmw log status says why"
    members = ", ".join(made["members"])
    return _show_done(arguments, made, f"log {arguments.name} is made; its members are {members}; {master}")


def status_command(arguments: argparse.Namespace) -> int:
    found = _ask(arguments, ask="status")
    if arguments.json:
        show_json(found)
        return 0
    master = f"master {found['master']}, epoch {found['epoch']}" if found["master"] else "no master"
    say(f"{found['name']}: {master}, as node {found['node']} sees it")
    for words, advice, _ in found["own"] + found["risks"]:
        say(f"  at risk: {words}", f"    {advice}")
    rows = list[tuple[Any, ...]]()
    for member in found["members"]:
        lag = found["lag"].get(member)
        role = "master" if member == found["master"] else "in sync" if member in found["in_sync"] else "not in sync"
        rows.append((member, role, *((size(lag["bytes"]), lag["seconds"]) if lag else (None, None))))
    show(Table("Members", ("node", "", "behind", "for seconds"), rows))
    reach = f"positions {found['earliest']} to {found['committed']}, checkpoint {found['checkpoint']}"
    if found["checkpoint_age"]:
        reach += f", which has not risen for {duration(found['checkpoint_age'])}"
    waits = f"{found['queue']} appends wait, the oldest for {found['oldest']:g} s; {size(found['cached'])} cached"
    say(f"{reach}; {waits}; {found['pending']} answered PENDING; {found['store']}")
    return 0


def members_command(arguments: argparse.Namespace) -> int:
    change, which, by = arguments.change, arguments.which, arguments.by
    if by and change != "replace":
        raise CommandError(f"{change} names one node; `replace {which} {by}` puts {by} in the place of {which}")
    add = which if change == "add" else (by or which) if change == "replace" else ""
    done = _ask(arguments, ask="members", add=add, remove="" if change == "add" else which)
    return _show_done(arguments, done, f"the members of {arguments.name} are {', '.join(done['members'])}")


def move_command(arguments: argparse.Namespace) -> int:
    done = _ask(arguments, ask="move", to=arguments.to or "", off=arguments.off or "")
    stays = "" if done["from"] != done["to"] else ", as before"
    return _show_done(arguments, done, f"the master of {arguments.name} is {done['to']}{stays}")


def drop_command(arguments: argparse.Namespace) -> int:
    if not _is_sure(arguments, f"all records of {arguments.name} go, on all of its nodes"):
        return 1
    done = _ask(arguments, ask="drop")
    return _show_done(arguments, done, f"{arguments.name} is dropped")


def rescue_command(arguments: argparse.Namespace) -> int:
    asked = _ask(arguments, ask="rescue", node=arguments.which)
    if not _is_sure(arguments, "; ".join(asked["words"])):
        return 1
    done = _ask(arguments, ask="rescue", node=arguments.which, yes=True)
    return _show_done(arguments, done, f"{arguments.name} is rescued from the copy of {arguments.which}")


def _is_sure(arguments: argparse.Namespace, words: str) -> bool:
    if arguments.yes:
        return True
    if not sys.stdin.isatty():
        raise CommandError(f"{words}; nothing was changed: add --yes if that is meant")
    say(words)
    return input("go on? [y/N] ").strip().lower() in ("y", "yes")


def _show_done(arguments: argparse.Namespace, done: dict[str, Any], words: str) -> int:
    if arguments.json:
        show_json(done)
        return 0
    say(words)
    if done.get("stays"):
        stays = ", ".join(done["stays"])
        say(f"{stays} could not be reached: what it keeps of {arguments.name} stays, below data/logs and data/marks")
    return 0
