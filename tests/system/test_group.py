"""A domain that is open to a group: its users meet there as one user's programs do, and nobody else."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

import rtmw
from rtmw import observe
from tests.child import Child
from tests.conftest import free_number
from tests.net.hosts import Host, wait_until
from tests.users import ALICE, BOB, PLANT, as_user, needs_users, of_user

pytestmark = needs_users
Start = Callable[..., Child]
"""The program of a user, by its source, the user's number, and those of groups."""

CREATE = f"""
    import os, sys
    import rtmw
    os.umask(0o077)
    domain = rtmw.Domain(pool="8M", group={PLANT})
    print("made")
"""
ECHO = """
    taker = rtmw.Subscriber("to", reliability=rtmw.Reliability.RELIABLE, domain=domain)
    out = rtmw.Publisher("back", reliability=rtmw.Reliability.RELIABLE, domain=domain)
    for sample in taker:
        out.publish(bytes(sample.value) * 1000)
"""
ASK = """
    import asyncio, rtmw
    domain = rtmw.Domain(create=False)
    taker = rtmw.Subscriber("back", reliability=rtmw.Reliability.RELIABLE, domain=domain)
    out = rtmw.Publisher("to", reliability=rtmw.Reliability.RELIABLE, domain=domain)
    assert out.wait_for_subscribers(1, timeout=20.0)
    async def ask():
        async for sample in taker:
            print(len(sample.value), flush=True)
            if input() == "end":
                break
            out.publish(b"x")
    out.publish(b"x")
    asyncio.run(ask())
    held = taker
    print("holds", flush=True)
    input()
"""


@pytest.fixture
def domain_id() -> Iterator[int]:
    number = free_number(with_dds=False)
    yield number
    with suppress(rtmw.DomainNotFound):
        rtmw.Domain.unlink(number)


@pytest.fixture
def start(domain_id: int, tmp_path: Path) -> Iterator[Start]:
    children = list[Child]()
    code = str(Path(rtmw.__file__).parents[1])
    env = {**os.environ, "RTMW_DOMAIN": str(domain_id), "PYTHONPATH": code}

    def run(source: str, uid: int, *groups: int) -> Child:
        script = tmp_path / f"user_{len(children)}.py"
        children.append(Child(source, script, env, as_user(uid, *groups)))
        return children[-1]

    yield run
    for child in children:
        child.end()


# Proves G247.
def test_users_of_the_group_meet_whatever_the_umask_of_its_creator_is(domain_id: int, start: Start) -> None:
    alice = start(CREATE + ECHO, ALICE, PLANT)
    assert alice.line() == "made"
    for one in Path("/dev/shm").glob(f"rtmw.{domain_id}.*"):
        about = one.stat()
        assert (about.st_uid, about.st_gid, stat.S_IMODE(about.st_mode)) == (ALICE, PLANT, 0o660)
    bob = start(ASK, BOB, PLANT)
    for _ in range(20):
        assert bob.line() == "1000"
        bob.send("")
    assert bob.line() == "1000"
    bob.send("end")
    assert bob.line() == "holds"
    with rtmw.Domain(domain_id, observe=True) as domain:
        assert [one.alive for one in observe.examine(domain).participants] == [True, True]
    bob.kill()
    third = start(ASK, BOB, PLANT)  # it sweeps after the dead one of another life
    assert third.line() == "1000"
    with rtmw.Domain(domain_id, observe=True) as domain:
        assert len(observe.examine(domain).participants) == 2
    alice.kill()
    with rtmw.Domain(domain_id, observe=True) as domain:
        assert [one.pid for one in observe.examine(domain).participants if one.alive] == [third.pid]


# Proves G247.
def test_a_user_of_another_group_is_told_which_group_it_needs(domain_id: int, start: Start) -> None:
    alice = start(CREATE + "    input()", ALICE, PLANT)
    assert alice.line() == "made"
    words = start(
        """
        import rtmw
        try:
            rtmw.Domain()
        except rtmw.AccessDenied as error:
            print(error)
        """,
        BOB,
    ).line()
    assert words.startswith(f"domain {domain_id} is open to the users of group {PLANT}, and this process is not in")
    assert f"usermod -aG {PLANT} USER" in words


def test_a_group_that_the_creator_is_not_in_is_refused_and_nothing_is_left(domain_id: int, start: Start) -> None:
    alice = start(CREATE, ALICE)
    assert alice.wait() != 0
    assert f"cannot be opened to group {PLANT}: this process is not in that group" in alice.stderr
    assert list(Path("/dev/shm").glob(f"rtmw.{domain_id}.*")) == []


def test_tools_of_a_member_show_the_domain_and_its_creator_alone_removes_it(domain_id: int, start: Start) -> None:
    alice = start(CREATE + ECHO, ALICE, PLANT)
    assert alice.line() == "made"
    tools = """
        import subprocess, sys
        for words in (["topic", "list"], ["doctor"], ["clean", "--yes", "--force"]):
            done = subprocess.run([sys.executable, "-m", "rtmw", *words], capture_output=True, text=True)
            print(words[0], done.returncode, " ".join((done.stdout + done.stderr).split()), flush=True)
    """
    bob = start(tools, BOB, PLANT)
    assert " to " in bob.line()
    doctor = bob.line()
    assert f", open to the users of group {PLANT} pid process" in doctor
    assert f"belongs to another user, {ALICE}; only that user can remove it, and root" in bob.line()
    assert Path(f"/dev/shm/rtmw.{domain_id}.control").exists()
    alice.kill()
    owner = start(tools, ALICE, PLANT)
    assert [owner.line().split()[0] for _ in range(3)] == ["topic", "doctor", "clean"]
    assert not list(Path("/dev/shm").glob(f"rtmw.{domain_id}.*"))


def test_a_group_that_there_is_not_is_named(domain_id: int) -> None:
    for wrong in ("no such group", "", -1, 1 << 32, True):
        with pytest.raises(ValueError, match="group"):
            rtmw.Domain(domain_id, group=wrong)


def test_a_node_that_is_the_first_opens_the_domain_to_the_group_of_its_settings(domain_id: int, start: Start) -> None:
    words = ["node", "--pool", "8M", "--dds-domain", str(free_number()), "--group", str(PLANT)]
    node = start(f"from rtmw.cli import main; main({words})", ALICE, PLANT)
    wait_until(lambda: "is carried" in node.stderr, "the node")
    for one in Path("/dev/shm").glob(f"rtmw.{domain_id}.*"):
        assert (one.stat().st_gid, stat.S_IMODE(one.stat().st_mode)) == (PLANT, 0o660), one
    ask = """
        import rtmw
        try:
            rtmw.Domain(create=False)
            print("in")
        except rtmw.AccessDenied:
            print("not in")
    """
    assert [start(ask, BOB, *groups).line() for groups in ((PLANT,), ())] == ["in", "not in"]


# Proves G247.
def test_the_node_of_another_member_follows_one_that_was_killed(tmp_path: Path) -> None:
    number = free_number()
    with rtmw.Domain(number, pool="8M", group=PLANT):
        host = Host(number, number, tmp_path)
    try:
        for uid in (ALICE, BOB):
            host.place = of_user(uid, PLANT)
            host.start()
            assert host.info()["pid"] == host.node.pid
            host.kill()
        carried = list(Path("/dev/shm").glob(f"rtmw.{number}.carried.*"))
        assert [(one.stat().st_uid, one.stat().st_gid, stat.S_IMODE(one.stat().st_mode)) for one in carried] == [
            (ALICE, PLANT, 0o660)
        ]
    finally:
        host.end()
