"""`rtmw clean`: remove the shared memory of a domain."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from rtmw import observe, shm
from rtmw.cli.common import CommandError, look_at
from rtmw.cli.parsing import runs
from rtmw.cli.terminal import say, size
from rtmw.domain import Domain
from rtmw.errors import AccessDenied, DomainError, DomainNotFound

SHARED_MEMORY = Path("/dev/shm")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    runs(parser, clean, json=False)
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.add_argument("--force", action="store_true", help="also while living programs are attached")


def clean(arguments: argparse.Namespace) -> int:
    """Remove the region unless somebody uses it, and say what was removed."""
    number: int = arguments.domain
    try:
        users = living(number)
    except DomainNotFound:
        say(f"Domain {number} does not exist; {_remove_half_made(number)}")
        return 0
    except AccessDenied:
        raise
    except DomainError as error:
        if not arguments.force:
            raise CommandError(f"{error} Whether it is in use cannot be seen; --force removes it anyway.") from error
        users = []
    if users and not arguments.force:
        raise CommandError(
            f"Domain {number} is in use by {', '.join(users)}; end them first, or remove it under them with --force."
        )
    if not arguments.yes and not _confirmed(number):
        say("Nothing was removed.")
        return 0
    before = _objects(number)
    Domain.unlink(number)
    say(f"Removed domain {number}: {_gone(before, number)}")
    return 0


def _remove_half_made(number: int) -> str:
    """Objects of creators that died before their domain had a name are nobody's, and are removed without a question."""
    before = _objects(number)
    shm.remove_leftovers(number)
    removed = _gone(before, number)
    return f"removed what a program left that died while it made it: {removed}" if removed else "nothing was removed."


def _gone(before: Mapping[str, int], number: int) -> str:
    """The objects that were there before and are not there now, with their sizes."""
    left = _objects(number)
    return ", ".join(f"{name} ({size(space)})" for name, space in before.items() if name not in left)


def living(number: int) -> list[str]:
    """The other processes that are attached and alive, each once however often it is attached."""
    with look_at(number) as domain:
        participants = observe.examine(domain).participants
    return list(dict.fromkeys(f"{p.process} (pid {p.pid})" for p in participants if p.alive and p.pid != os.getpid()))


def _confirmed(number: int) -> bool:
    if not sys.stdin.isatty():
        raise CommandError("Nobody is there to ask; --yes removes the domain without asking.")
    return input(f"Remove all shared memory of domain {number}? [y/N] ").strip().lower() in ("y", "yes")


def _objects(number: int) -> dict[str, int]:
    """Shared-memory objects of a domain and the bytes that they take."""
    return {path.name: path.stat().st_size for path in SHARED_MEMORY.glob(f"rtmw.{number}.*")}
