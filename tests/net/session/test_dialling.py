"""Who dials again, and when: after a cut that is noticed by silence alone, and never beside another connection."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from uuid import UUID, uuid4

import pytest
import uvloop

from rtmw.errors import SessionError
from rtmw.net.session import Carrier, Terms
from rtmw.net.session.sockets import Backoff, carry, reach
from tests.net.security.site import Site
from tests.net.session.relay import Relay
from tests.net.session.skipping import ended, run_skipping, skip
from tests.net.session.test_carrier import PATIENCE, echoed, serving


def test_a_dial_that_is_called_off_at_any_moment_leaves_no_socket() -> None:
    async def run() -> None:
        with socket.create_server(("127.0.0.1", 0), backlog=100) as server:
            before = len(os.listdir("/proc/self/fd"))
            for moment in range(20):
                dial = asyncio.create_task(reach(f"127.0.0.1:{server.getsockname()[1]}"))
                for _ in range(moment):
                    await asyncio.sleep(0.0001)
                dial.cancel()
                with suppress(asyncio.CancelledError):
                    (await dial).close()
                await asyncio.sleep(0)
            async with asyncio.timeout(PATIENCE):
                while len(os.listdir("/proc/self/fd")) != before:  # a thread may still look an address up
                    await asyncio.sleep(0.01)

    asyncio.run(run())


class Closing(asyncio.Protocol):
    """It closes its connection before whoever made it knows of it."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.abort()  # type: ignore[attr-defined]


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
@pytest.mark.parametrize("is_dialler", [True, False], ids=["dialled", "accepted"])
def test_a_connection_that_closes_while_it_is_made_leaves_no_number_of_a_descriptor(
    run: Callable[[Coroutine[None, None, None]], None], is_dialler: bool
) -> None:
    async def closes() -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            by_tcp = (socket.create_connection(server.getsockname()), server.accept()[0])
        for ours, theirs in (socket.socketpair(), by_tcp):
            with theirs:
                await carry(Closing, ours, is_dialler=is_dialler)
                assert await asyncio.to_thread(theirs.recv, 1) == b""
                assert ours.fileno() == -1, "collected, it would close a number that is another's by then"

    run(closes())


def test_the_first_try_comes_at_once_and_each_later_one_after_its_wait() -> None:
    async def run() -> None:
        tries = aiter(Backoff(shortest=1000.0, longest=4000.0))
        await asyncio.wait_for(anext(tries), PATIENCE)
        for longest in (1000.0, 2000.0, 4000.0, 4000.0):
            later = asyncio.create_task(anext(tries))
            await asyncio.sleep(0)
            skip(longest / 2 - PATIENCE)
            await asyncio.sleep(0)
            assert not later.done()
            skip(longest / 2 + PATIENCE)
            assert await ended(later)

    run_skipping(run())


def test_a_session_that_another_connection_carries_costs_its_first_dialler_nothing() -> None:
    async def run() -> None:
        async with asyncio.timeout(PATIENCE), Carrier(UUID(int=1)) as one, Carrier(UUID(int=2)) as other:
            ports = await one.listen("127.0.0.1"), await other.listen("127.0.0.1")
            session = await one.connect("127.0.0.1", ports[1])
            assert (await other.connect("127.0.0.1", ports[0])).number == session.number
            began, used = time.monotonic(), time.process_time()
            await asyncio.sleep(0.5)
            assert time.process_time() - used < (time.monotonic() - began) / 2
            assert session.is_connected

    asyncio.run(run())


@pytest.mark.parametrize("tls", [True, False])
def test_a_connection_that_falls_silent_is_left_for_another_one_within_the_lease(tls: bool, tmp_path: Path) -> None:
    async def run() -> None:
        terms = Terms(lease=4.0)
        site = Site(tmp_path)
        first, second = (site.node("rtmw://plant/a"), site.node("rtmw://plant/b")) if tls else (None, None)
        async with (
            serving(first, terms) as (_, port),
            Relay(port) as relay,
            Carrier(uuid4(), identity=second, terms=terms) as carrier,
        ):
            session = await carrier.connect("127.0.0.1", relay.port)
            stream = session.open("echo")
            await stream.write(b"before")
            assert await stream.read() == b"before"
            relay.silence()
            await stream.write(b"after")
            assert await stream.read() == b"after"
            assert relay.connections > 1
            await stream.finish()
            assert await echoed(session, b"again") == b"again"

    asyncio.run(run())


def test_a_peer_that_hangs_up_in_the_handshake_is_named_with_words(tmp_path: Path) -> None:
    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.close()

    async def run() -> None:
        server = await asyncio.start_server(hang_up, "127.0.0.1", 0)
        async with server, Carrier(uuid4(), identity=Site(tmp_path).node("rtmw://plant/a")) as carrier:
            port = server.sockets[0].getsockname()[1]
            with pytest.raises(SessionError, match=rf"^127.0.0.1:{port}: .*(closed|reset)"):
                await carrier.connect("127.0.0.1", port)

    asyncio.run(run())
