"""More than there are slots: the specific exception says what to do, and a slot that is given back can be had again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import rtmw
from tests.books import assert_whole, examine
from tests.child import Spawn

TOPICS = 256
ENDPOINTS = 512
TYPES = 256
PARTICIPANTS = 127


@pytest.fixture
def domain(domain_id: int) -> Iterator[rtmw.Domain]:
    """The smallest tables there are."""
    with rtmw.Domain(domain_id, pool="1M") as attached:
        yield attached


Endpoint = Callable[..., Any]
both = pytest.mark.parametrize("endpoint", [rtmw.Publisher, rtmw.Subscriber])


def test_more_topics_than_slots_are_refused_and_those_that_exist_go_on(domain: rtmw.Domain) -> None:
    opened = [rtmw.Publisher(f"topic/{number}", domain=domain) for number in range(TOPICS)]
    for endpoint in (rtmw.Publisher, rtmw.Subscriber):
        with pytest.raises(rtmw.LimitReached, match=r"'one more'.*topic slot.*close some.*larger pool"):
            endpoint("one more", domain=domain)
    with rtmw.Subscriber("topic/7", domain=domain) as subscriber:
        assert opened[7].publish(b"goes on")
        assert subscriber.receive(10.0).value == b"goes on"
    for publisher in opened:
        publisher.close()
    assert_whole(domain)


@both
def test_more_endpoints_than_slots_are_refused_until_one_is_closed(endpoint: Endpoint, domain: rtmw.Domain) -> None:
    opened = [endpoint("crowd", domain=domain) for _ in range(ENDPOINTS)]
    with pytest.raises(rtmw.LimitReached, match=r"'crowd'.*endpoint slot.*close some"):
        endpoint("crowd", domain=domain)
    opened.pop().close()
    opened.append(endpoint("crowd", domain=domain))
    for one in opened:
        one.close()
    assert_whole(domain)


@both
def test_slots_of_endpoints_that_died_can_be_had_again_without_repair(
    endpoint: Endpoint, domain: rtmw.Domain, spawn: Spawn
) -> None:
    child = spawn(
        f"""
        import rtmw
        opened = [rtmw.{endpoint.__name__}("crowd") for _ in range({ENDPOINTS})]
        print("full"); input()
        """
    )
    assert child.line() == "full"
    with pytest.raises(rtmw.LimitReached, match="endpoint slot"):
        endpoint("crowd", domain=domain)
    child.kill()
    endpoint("crowd", domain=domain).close()
    assert_whole(domain)


def test_more_types_than_slots_are_refused_and_those_that_exist_go_on(domain: rtmw.Domain) -> None:
    opened = [rtmw.Publisher("a", np.dtype((np.uint8, (sides,))), domain=domain) for sides in range(1, TYPES + 1)]
    with pytest.raises(rtmw.LimitReached, match=r"'a'.*256 type slots.*close some.*another domain"):
        rtmw.Publisher("a", np.dtype((np.uint8, (TYPES + 1,))), domain=domain)
    known = np.dtype((np.uint8, (3,)))
    with (
        rtmw.Subscriber("a", known, domain=domain) as subscriber,
        rtmw.Publisher("a", known, domain=domain) as publisher,
    ):
        assert publisher.publish(np.array([1, 2, 3], np.uint8))
        assert subscriber.receive(10.0).value.tolist() == [1, 2, 3]
    assert len({one.type.name for one in opened}) == TYPES
    assert_whole(domain)


CROWD = """
    import os, signal, sys
    import rtmw

    number, processes = int(os.environ["RTMW_DOMAIN"]), []

    def attach():
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                domain = rtmw.Domain(number)
                os.write(writing, b"attached")
            except rtmw.LimitReached as error:
                os.write(writing, str(error).encode())
                os._exit(0)
            signal.alarm(60)
            signal.pause()
        os.close(writing)
        processes.append(pid)
        said = os.read(reading, 4096).decode()
        os.close(reading)
        return said

    try:
        for command in sys.stdin:
            if command == "kill\\n":
                os.kill(processes[0], signal.SIGKILL)
                os.waitpid(processes.pop(0), 0)
                print("killed")
            elif command == "end\\n":
                print("ending")
                break
            else:
                print(attach())
    finally:
        for pid in processes:
            os.kill(pid, signal.SIGKILL)
        for pid in processes:
            os.waitpid(pid, 0)
"""


def test_more_processes_than_slots_are_refused_until_one_ends(domain: rtmw.Domain, spawn: Spawn) -> None:
    crowd = spawn(CROWD)

    def ask(command: str) -> str:
        crowd.send(command)
        return crowd.line()

    for _ in range(PARTICIPANTS - 1):
        assert ask("attach") == "attached"
    assert len(examine(domain).participants) == PARTICIPANTS
    assert "127 processes are attached" in (said := ask("attach"))
    assert "end one, or use another domain" in said
    assert ask("kill") == "killed"
    assert ask("attach") == "attached"
    assert_whole(domain, processes=PARTICIPANTS)
    assert ask("end") == "ending"
    assert crowd.wait() == 0
    assert_whole(domain)
