"""Regions in the making: creators that die at any line, many at once, and what is left over."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

import rtmw
from rtmw import shm
from tests.books import assert_usable, assert_whole
from tests.child import Spawn

SHM = Path("/dev/shm")
NATIVE = Path(__file__).parents[1] / "native"


def objects(number: int) -> list[str]:
    return sorted(f"/{path.name}" for path in SHM.glob(f"rtmw.{number}.*"))


def left_over(number: int) -> list[str]:
    return [name for name in shm.leftovers() if name.startswith(f"/rtmw.{number}.")]


def put(name: str) -> str:
    (SHM / name[1:]).write_bytes(bytes(4096))
    return name


def works(number: int) -> bool:
    """Can a domain be made and used?"""
    with (
        rtmw.Domain(number, pool="64K") as domain,
        rtmw.Publisher("a", domain=domain) as publisher,
        rtmw.Subscriber("a", domain=domain) as subscriber,
    ):
        publisher.publish(b"works")
        return subscriber.receive(10.0).value == b"works"


# Proves G101.
def test_a_creator_killed_before_any_step_leaves_no_half_made_region_and_what_it_leaves_is_found(
    domain_id: int, tmp_path: Path
) -> None:
    if not (shutil.which("gcc") and shutil.which("make")):
        pytest.skip("needs gcc and make")
    creator = tmp_path / "plain" / "creation"
    subprocess.run(["make", "-s", "-C", NATIVE, f"BUILD={tmp_path}", creator], check=True)
    killed = leftovers = 0
    while True:
        status = subprocess.run([creator, str(domain_id), "65536", str(killed + 1)], check=False).returncode
        left = left_over(domain_id)
        assert works(domain_id)
        for name in left:
            shm.unlink_quietly(name)
        assert len(objects(domain_id)) == 2, f"after a creator killed before step {killed + 1}"
        rtmw.Domain.unlink(domain_id)
        assert objects(domain_id) == []
        leftovers += len(left)
        if status == 0:
            break
        assert status == -signal.SIGKILL
        killed += 1
    assert killed >= 9
    assert leftovers > 0


def test_objects_of_dead_creators_are_left_over_and_those_of_living_ones_are_not(domain_id: int, spawn: Spawn) -> None:
    dead = spawn("pass")
    assert dead.wait() == 0
    nonces = [f"{number:016x}" for number in (0xD, 0xA, 0xB)]
    names = [
        put(f"/rtmw.{domain_id}.new.{dead.pid}.{nonces[0]}"),
        put(f"/rtmw.{domain_id}.blocks.{nonces[0]}"),
        put(f"/rtmw.{domain_id}.blocks.{nonces[1]}"),
        put(f"/rtmw.{domain_id}.new.{os.getpid()}.{nonces[2]}"),
        put(f"/rtmw.{domain_id}.blocks.{nonces[2]}"),
    ]
    try:
        with rtmw.Domain(domain_id, pool="64K") as domain:
            assert left_over(domain_id) == sorted(names[:3])
            assert_usable(domain)
    finally:
        for name in names:
            shm.unlink_quietly(name)
    assert left_over(domain_id) == []


# Proves G101.
def test_what_a_creator_is_making_whose_pid_is_not_of_this_namespace_is_not_left_over(
    domain_id: int, spawn: Spawn
) -> None:
    dead = spawn("pass")
    assert dead.wait() == 0
    name = f"/rtmw.{domain_id}.new.{dead.pid}.{7:016x}"
    creator = spawn(
        f"""
        import fcntl, sys
        made = open("/dev/shm" + {name!r}, "xb")
        made.truncate(4096)
        fcntl.flock(made, fcntl.LOCK_EX)  # as region.c does
        print("making", flush=True)
        sys.stdin.readline()
        """
    )
    try:
        assert creator.line() == "making"
        assert left_over(domain_id) == []
        creator.kill()
        assert left_over(domain_id) == [name]
        assert shm.remove_leftovers(domain_id) == [name]
        assert objects(domain_id) == []
    finally:
        shm.unlink_quietly(name)


def test_removing_a_domain_leaves_alone_what_a_living_creator_is_making(domain_id: int) -> None:
    making = [put(f"/rtmw.{domain_id}.blocks.{7:016x}"), put(f"/rtmw.{domain_id}.new.{os.getpid()}.{7:016x}")]
    try:
        rtmw.Domain(domain_id, pool="64K").close()
        rtmw.Domain.unlink(domain_id)
        assert objects(domain_id) == sorted(making)
    finally:
        for name in making:
            shm.unlink_quietly(name)


@pytest.mark.parametrize("creators", [2, 6])
def test_creators_at_the_same_time_meet_in_one_region(creators: int, domain_id: int, spawn: Spawn) -> None:
    children = [
        spawn(
            """
            import rtmw
            print("ready"); input()
            domain = rtmw.Domain(int(__import__("os").environ["RTMW_DOMAIN"]), pool="1M")
            publisher = rtmw.Publisher("meet", domain=domain, history=1, depth=1)
            print("attached"); input()
            publisher.publish(b"hello")
            print("published"); input()
            """
        )
        for _ in range(creators)
    ]
    for word in ("ready", "attached"):
        assert [child.line() for child in children] == [word] * creators
        if word == "ready":
            for child in children:
                child.send()
    with rtmw.Domain(domain_id, create=False) as domain, rtmw.Subscriber("meet", domain=domain) as subscriber:
        for child in children:
            child.send()
        senders = {subscriber.receive(20.0).publisher for _ in range(creators)}
        pids = {domain.region.identity(row[1]): row[1] >> 32 for row in domain.region.publishers()}
        assert {pids[sender] for sender in senders} == {child.pid for child in children}
        assert left_over(domain_id) == []
        assert len(objects(domain_id)) == 2
        for child in children:
            child.kill()
        assert_usable(domain)


def test_a_domain_removed_while_attached_serves_those_in_it_and_newcomers_meet_in_a_new_one(
    domain_id: int, spawn: Spawn
) -> None:
    echo = """
        import rtmw
        publisher, subscriber = rtmw.Publisher("back"), rtmw.Subscriber("there")
        print("ready")
        for sample in subscriber:
            publisher.publish(sample.value + b" %d" % __import__("os").getpid())
    """
    with rtmw.Domain(domain_id, pool="1M") as old:
        old_peer = spawn(echo)
        assert old_peer.line() == "ready"
        rtmw.Domain.unlink(domain_id)
        new_peer = spawn(echo)
        assert new_peer.line() == "ready"
        with rtmw.Domain(domain_id, pool="1M") as new:
            for domain, peer in ((old, old_peer), (new, new_peer)):
                with rtmw.Subscriber("back", domain=domain) as back, rtmw.Publisher("there", domain=domain) as there:
                    assert there.publish(b"from")
                    assert back.receive(20.0).value == b"from %d" % peer.pid
                    assert back.take() is None
                peer.kill()
            assert_whole(old)
            assert_whole(new)
