"""`rtmw clean`: remove the shared memory of a domain."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from rtmw import observe
from rtmw.cli.common import CommandError, look_at
from rtmw.cli.show import size
from rtmw.domain import Domain
from rtmw.errors import AccessDenied, DomainError, DomainNotFound

SHARED_MEMORY = Path("/dev/shm")


def clean(arguments: argparse.Namespace) -> int:
    """Remove the region unless somebody uses it, and say what was removed."""
    number: int = arguments.domain
    try:
        users = living(number)
    except DomainNotFound:
        print(f"Domain {number} does not exist; nothing was removed.")
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
        print("Nothing was removed.")
        return 0
    before = _objects(number)
    Domain.unlink(number)
    removed = {name: space for name, space in before.items() if name not in _objects(number)}
    print(f"Removed domain {number}: {', '.join(f'{name} ({size(space)})' for name, space in removed.items())}")
    return 0


def living(number: int) -> list[str]:
    """The other processes that are attached and alive."""
    with look_at(number) as domain:
        participants = observe.examine(domain).participants
    return [f"{p.process} (pid {p.pid})" for p in participants if p.alive and p.pid != os.getpid()]


def _confirmed(number: int) -> bool:
    if not sys.stdin.isatty():
        raise CommandError("Nobody is there to ask; --yes removes the domain without asking.")
    return input(f"Remove all shared memory of domain {number}? [y/N] ").strip().lower() in ("y", "yes")


def _objects(number: int) -> dict[str, int]:
    """Shared-memory objects of a domain and the bytes that they take."""
    return {path.name: path.stat().st_size for path in SHARED_MEMORY.glob(f"rtmw.{number}.*")}
