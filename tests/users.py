"""Programs of other users, for tests that run as root."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.net.hosts import Place

ALICE, BOB = 54321, 54322
"""Users that no machine has."""
PLANT = 54999
"""A group that no machine has."""
_OBSTACLE = (
    "needs root, to become another user" if os.geteuid() else None if shutil.which("setpriv") else "needs setpriv"
)
needs_users = pytest.mark.skipif(_OBSTACLE is not None, reason=str(_OBSTACLE))


def as_user(uid: int, *groups: int) -> tuple[str, ...]:
    """Before a command, so that this user runs it, in a group of the same number and in these.

    It may read every file, for Python itself may lie in a folder of root's; it may write what it owns, and no more. To
    attach to a region and to connect to a Unix socket is to write.
    """
    more = ("--groups", ",".join(map(str, groups))) if groups else ("--clear-groups",)
    may_read = ("--inh-caps", "-all,+dac_read_search", "--ambient-caps", "-all,+dac_read_search")
    return ("setpriv", "--reuid", str(uid), "--regid", str(uid), *more, *may_read)


def of_user(uid: int, *groups: int) -> Place:
    """Where a node of this user runs."""
    return Place(enter=as_user(uid, *groups))


def give_domain(number: int, uid: int) -> None:
    """To this user; who is attached stays."""
    for one in Path("/dev/shm").glob(f"rtmw.{number}.*"):
        os.chown(one, uid, uid)
