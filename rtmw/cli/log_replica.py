"""`rtmw log create` and `status`: replicated logs, which nodes keep; any of their nodes is asked."""

from __future__ import annotations

import argparse
from typing import Any

from rtmw.cli.common import CommandError
from rtmw.cli.show import Table, say, show, show_json, size
from rtmw.errors import SessionError
from rtmw.replica.operating import ask_node
from rtmw.types import resolve


def _ask(arguments: argparse.Namespace, **question: Any) -> dict[str, Any]:
    keys = None
    if arguments.keys is not None:
        from rtmw.net.security.identity import Identity

        keys = Identity.load(arguments.keys)
    try:
        return ask_node(arguments.node, keys, name=arguments.name, **question)
    except SessionError as error:
        raise CommandError(f"the node at {arguments.node} is not reached: {error}") from None
    except ValueError as error:
        raise CommandError(str(error)) from None


def create_command(arguments: argparse.Namespace) -> int:
    given = {name: getattr(arguments, name) for name in ("min_insync", "sync_timeout", "lag", "suspect")}
    settings = {name: value for name, value in given.items() if value is not None}
    members, description = arguments.members.split(","), resolve(arguments.type).description.hex()
    made = _ask(arguments, ask="create", members=members, description=description, settings=settings)
    if arguments.json:
        show_json(made)
    else:
        say(f"log {arguments.name} is made; its members are {', '.join(made['members'])}")
    return 0


def status_command(arguments: argparse.Namespace) -> int:
    found = _ask(arguments, ask="status")
    if arguments.json:
        show_json(found)
        return 0
    master = f"master {found['master']}, epoch {found['epoch']}" if found["master"] else "no master"
    say(f"{found['name']}: {master}, as node {found['node']} sees it")
    for word in found["words"]:
        say(f"  at risk: {word}")
    rows = list[tuple[Any, ...]]()
    for member in found["members"]:
        lag = found["lag"].get(member)
        role = "master" if member == found["master"] else "in sync" if member in found["in_sync"] else "not in sync"
        rows.append(
            (member, role, None if lag is None else size(lag["bytes"]), None if lag is None else lag["seconds"])
        )
    show(Table("Members", ("node", "", "behind", "for seconds"), rows))
    reach = f"records {found['earliest']} to {found['committed']}, checkpoint {found['checkpoint']}"
    waits = f"{found['queue']} appends wait, the oldest for {found['oldest']:g} s; {size(found['cached'])} cached"
    say(f"{reach}; {waits}; {found['pending']} answered PENDING; {found['store']}")
    return 0
