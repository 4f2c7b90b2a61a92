"""Files of /dev/shm that another user has planted under a name of rtmw, and what belongs to a user or to its group.

Who may write to a file may cut it short, and then who has mapped it dies of SIGBUS. These tests run as root.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import rtmw
from rtmw import shm
from tests.conftest import free_number
from tests.net.hosts import Host
from tests.users import ALICE, BOB, as_user, needs_users

pytestmark = needs_users
SHM = Path("/dev/shm")


def planted(path: Path, kind: str) -> Path:
    """What a user of no group of ours makes there."""
    script = {
        "writable": f"umask 0; : > {path}",
        "own": f"umask 077; : > {path}",
        "pipe": f"umask 0; mkfifo {path}",
        "link": f"ln -s /etc/hostname {path}",
        "folder": f"mkdir {path}",
    }[kind]
    subprocess.run([*as_user(BOB), "sh", "-c", script], check=True)
    return path


def removed(path: Path) -> None:
    if path.is_dir():
        path.rmdir()
    else:
        path.unlink()


def attach_as(uid: int, number: int, keywords: str = "") -> str:
    """What the program of a user is told that uses the domain; empty: it may."""
    source = f"import rtmw\ntry: rtmw.Domain({number}{keywords})\nexcept rtmw.RtmwError as error: print(error)"
    env = {**os.environ, "PYTHONPATH": str(Path(rtmw.__file__).parents[1])}
    command = [*as_user(uid), sys.executable, "-c", source]
    return subprocess.run(command, check=True, capture_output=True, text=True, env=env, timeout=60).stdout.strip()


@pytest.mark.parametrize("kind", ["writable", "pipe", "link", "folder"])
@pytest.mark.parametrize("keywords", ["", ", observe=True"])
# Proves G104.
def test_a_program_does_not_open_what_another_user_has_planted_as_its_domain_and_says_whose_it_is(
    domain_id: int, kind: str, keywords: str
) -> None:
    path = planted(SHM / f"rtmw.{domain_id}.control", kind)
    try:
        told = attach_as(ALICE, domain_id, keywords)
    finally:
        removed(path)
    assert told.startswith(f"domain {domain_id} cannot be used: {path} ")
    assert f"{BOB}, who made it, or root can remove it" in told
    assert attach_as(ALICE, domain_id) == ""


# Proves G104.
def test_a_domain_of_another_user_is_used_by_nobody_else_not_even_by_programs_of_root(domain_id: int) -> None:
    assert attach_as(BOB, domain_id) == ""
    told = f"domain {domain_id} belongs to another user; use another number, or run as that user."
    assert attach_as(ALICE, domain_id).startswith(told)
    with pytest.raises(rtmw.AccessDenied, match=told):
        rtmw.Domain(domain_id)
    with rtmw.Domain(domain_id, observe=True):
        pass  # root may look on


# Proves G104.
def test_blocks_that_every_user_may_write_to_are_not_mapped(domain_id: int) -> None:
    rtmw.Domain(domain_id, pool="1M").close()
    blocks = next(SHM.glob(f"rtmw.{domain_id}.blocks.*"))
    blocks.chmod(0o666)
    with pytest.raises(rtmw.AccessDenied):
        rtmw.Domain(domain_id)
    blocks.chmod(0o600)
    rtmw.Domain(domain_id).close()


@pytest.mark.parametrize("kind", ["pipe", "link", "folder"])
# Proves G104.
def test_cleaning_up_is_not_held_up_by_what_another_user_has_planted_as_half_made(domain_id: int, kind: str) -> None:
    path = planted(SHM / f"rtmw.{domain_id}.new.4194305.0123456789abcdef", kind)  # a pid that no process has
    beside = planted(SHM / f"rtmw.{domain_id}.blocks.0123456789abcdef", "writable")
    try:
        shm.leftovers(domain_id)
        assert attach_as(ALICE, domain_id) == ""
    finally:
        removed(path)
        removed(beside)


@pytest.mark.parametrize("kind", ["writable", "own", "pipe", "link", "folder"])
# Proves G104.
def test_a_node_does_not_map_a_table_that_another_user_has_planted_and_says_whose_it_is(
    tmp_path: Path, kind: str
) -> None:
    number = free_number()
    host = Host(number, number, tmp_path)
    path = planted(Path(shm.beside(number, host.domain.region.nonce, "carried")), kind)
    try:
        assert host.launch().wait(60) == 1
        assert f"{path}, in which nodes leave to the next one how far they came, cannot be" in host.said
        assert "can remove it" in host.said
        assert "Traceback" not in host.said
        removed(path)
        host.start()
        assert (path.stat().st_uid, path.stat().st_mode & 0o777) == (0, 0o600)
    finally:
        host.end()
        if os.path.lexists(path):
            removed(path)
