"""The door before a peer is known: how many stand in it, how long, and who gives way."""

from __future__ import annotations

import asyncio
import gc
import socket
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from uuid import uuid4

import pytest
import uvloop

from rtmw.net.session import Carrier
from rtmw.net.session.carrier import SessionGuest
from rtmw.net.session.errors import Code
from rtmw.net.session.hello import MAGIC, Hello, Terms
from rtmw.net.session.meetings import Connected, Deadline, Drop, Meetings, Overdue
from rtmw.net.session.sockets import Door
from tests.net.session.skipping import ended, run_skipping, skip

IN_ALL, OF_ONE, PATIENCE_S = 64, 8, 3.0
"""What is promised of the door: connections that are not through, and seconds until they are."""

LoopFactory = Callable[[], asyncio.AbstractEventLoop]


class Mute:
    """A guest that never says anything."""

    def __init__(self, sock: socket.socket, address: str, come: list[Mute]) -> None:
        self._socket, self.address = sock, address
        self.is_over = False
        come.append(self)

    async def greet(self) -> None:
        await asyncio.get_running_loop().create_future()

    def over(self) -> None:
        self.is_over = True
        self._socket.close()


async def crowded(addresses: list[str]) -> tuple[list[Mute], Counter[str]]:
    """Those who came, one from each of these addresses, in this order, and whom the door counts as refused."""
    come, refused = list[Mute](), Counter[str]()
    loop, listening = asyncio.get_running_loop(), socket.create_server(("127.0.0.1", 0))
    listening.setblocking(False)
    door = Door(loop, listening, refused, lambda sock, address: Mute(sock, address, come))
    with ExitStack() as stack:
        for number, address in enumerate(addresses):
            one = stack.enter_context(socket.socket())
            one.setblocking(False)
            one.bind((address, 0))
            await loop.sock_connect(one, listening.getsockname())
            while len(come) <= number:
                await asyncio.sleep(0)
        while sum(refused.values()) > sum(one.is_over for one in come):
            await asyncio.sleep(0)
        gone, counted = [one for one in come if one.is_over], Counter(refused)
        door.close()
        while not all(one.is_over for one in come):
            await asyncio.sleep(0)
    return gone, counted


def of_host(number: int) -> str:
    return f"127.0.1.{number}"


@pytest.mark.parametrize("turns", range(4))
def test_a_door_that_closes_as_a_connection_comes_leaves_none_open(turns: int) -> None:
    """What nobody has closed is a ResourceWarning, which is an error in tests."""

    async def closes() -> None:
        come, loop, listening = list[Mute](), asyncio.get_running_loop(), socket.create_server(("127.0.0.1", 0))
        listening.setblocking(False)
        door = Door(loop, listening, Counter(), lambda sock, address: Mute(sock, address, come))
        await asyncio.sleep(0)
        with socket.create_connection(listening.getsockname()) as one:
            for _ in range(turns):
                await asyncio.sleep(0)
            door.close()
            assert await asyncio.to_thread(one.recv, 1) == b"" if come else True
        while not all(mute.is_over for mute in come):
            await asyncio.sleep(0)

    asyncio.run(closes())
    gc.collect()


class Spoken(Mute):
    """A guest that is through when it has read what its peer has said."""

    async def greet(self) -> None:
        await asyncio.get_running_loop().sock_recv(self._socket, 1)


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_of_many_who_have_spoken_before_they_are_let_in_none_gives_way(loop: LoopFactory) -> None:
    async def crowd() -> Counter[str]:
        come, refused, listening = list[Mute](), Counter[str](), socket.create_server(("127.0.0.1", 0), backlog=100)
        listening.setblocking(False)
        with ExitStack() as stack:
            for _ in range(100):
                one = stack.enter_context(socket.create_connection(listening.getsockname()))
                one.send(b"a")
            here = asyncio.get_running_loop()
            door = Door(here, listening, refused, lambda sock, address: Spoken(sock, address, come))
            while sum(one.is_over for one in come) < 100:
                await asyncio.sleep(0.01)
            door.close()
        return refused

    with asyncio.Runner(loop_factory=loop) as runner:
        assert runner.run(crowd()) == {}


def test_of_one_address_eight_stand_in_the_door_and_the_oldest_gives_way() -> None:
    gone, refused = asyncio.run(crowded([of_host(1)] * OF_ONE))
    assert (gone, refused) == ([], Counter())
    gone, refused = asyncio.run(crowded([of_host(1), of_host(2), *[of_host(1)] * OF_ONE]))
    assert ([one.address for one in gone], refused) == ([of_host(1)], {"too many of one address": 1})


def test_of_all_addresses_sixty_four_stand_in_the_door_and_the_oldest_gives_way() -> None:
    hosts = [of_host(1 + number // OF_ONE) for number in range(IN_ALL)]
    gone, refused = asyncio.run(crowded(hosts))
    assert (gone, refused) == ([], Counter())
    gone, refused = asyncio.run(crowded([*hosts, of_host(100), of_host(101)]))
    assert ([one.address for one in gone], refused) == ([of_host(1)] * 2, {"too many": 2})


def test_a_guest_of_sessions_that_says_nothing_is_sent_away_after_three_seconds() -> None:
    async def run() -> None:
        async with Carrier(uuid4()) as carrier:
            here, there = socket.socketpair()
            with there:
                guest = SessionGuest(carrier, here)
                greeting = asyncio.create_task(guest.greet())
                await asyncio.sleep(0)
                skip(PATIENCE_S)
                assert await ended(greeting)
                guest.over()
            assert carrier.refused == {"too slow": 1}

    run_skipping(run())


@pytest.mark.parametrize(("first", "cause"), [(b"GET / ", "no node"), (b"RTMW", "no node"), (b"", "nothing said")])
# Proves G212.
def test_a_guest_of_sessions_that_is_no_node_is_counted_once(first: bytes, cause: str) -> None:
    async def run() -> None:
        async with Carrier(uuid4()) as carrier:
            here, there = socket.socketpair()
            with there:
                there.sendall(first)
                there.shutdown(socket.SHUT_WR)
                guest = SessionGuest(carrier, here)
                await guest.greet()
                guest.over()
            assert carrier.refused == {cause: 1}

    asyncio.run(run())


# Proves G212.
def test_a_guest_of_sessions_that_goes_no_further_than_its_hello_hears_why_it_is_refused_and_is_counted_once() -> None:
    async def run() -> None:
        loop = asyncio.get_running_loop()
        async with Carrier(uuid4()) as carrier:
            here, there = socket.socketpair()
            with there:
                there.setblocking(False)
                there.sendall(Hello(uuid4(), 1, number=1, crc=True).packed())
                guest = SessionGuest(carrier, here)
                greeting = asyncio.create_task(guest.greet())
                assert (await loop.sock_recv(there, 4096)).startswith(MAGIC)
                skip(PATIENCE_S)
                assert await ended(greeting)
                guest.over()
                said = b""
                while got := await loop.sock_recv(there, 4096):
                    said += got
                assert b"no session was begun within" in said
            assert carrier.refused == {"too slow": 1}

    run_skipping(run())


def test_a_connection_that_carries_no_session_after_three_seconds_is_refused() -> None:
    meetings = Meetings(Hello(uuid4(), 1), Terms(), lambda: 1)
    effects = meetings.step(Connected(1, False, "", True), 100.0)
    assert Deadline(1, 100.0 + PATIENCE_S) in effects
    dropped = [one for one in meetings.step(Overdue(1), 100.0 + PATIENCE_S) if isinstance(one, Drop)]
    assert [one.code for one in dropped] == [Code.SILENT]
