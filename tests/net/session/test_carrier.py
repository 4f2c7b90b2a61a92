"""Carriers on loopback with TLS and real certificates: streams, cuts, kills, and who is refused in which words."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from rtmw.clock import CLOCK
from rtmw.errors import SessionError, StreamError
from rtmw.net.security import certificates as c
from rtmw.net.security.identity import Identity
from rtmw.net.session import Carrier, Code, Hello, Session, Stream, Terms
from rtmw.net.session.frames import bye
from rtmw.net.session.sockets import UNSENT
from tests.net.security.site import Site
from tests.net.session.child import serve
from tests.net.session.relay import Relay

ROOT = Path(__file__).parents[3]
PATIENCE = 60.0
DATA = random.Random(1).randbytes(3_000_000)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    return Site(tmp_path_factory.mktemp("keys"))


@pytest.fixture(scope="module")
def identities(site: Site) -> tuple[Identity, Identity]:
    return site.node("rtmw://plant/a"), site.node("rtmw://plant/b")


@asynccontextmanager
async def serving(identity: Identity | None = None, terms: Terms | None = None) -> AsyncIterator[tuple[Carrier, int]]:
    """A carrier that says back what comes on each stream, and its port."""

    async def run(carrier: Carrier) -> None:
        async with asyncio.TaskGroup() as tasks:
            async for session in carrier:
                tasks.create_task(quietly(session))

    async with asyncio.timeout(PATIENCE), Carrier(uuid4(), identity=identity, terms=terms) as carrier:
        port = await carrier.listen("127.0.0.1")
        task = asyncio.create_task(run(carrier))
        yield carrier, port
        task.cancel()
        await asyncio.wait([task])


async def quietly(session: Session) -> None:
    """Streams of a session that ends are no failure of a test."""
    try:
        await serve(session)
    except* StreamError:
        pass


async def read_all(stream: Stream) -> bytes:
    parts: list[bytes] = []
    while data := await stream.read():
        parts.append(data)
    return b"".join(parts)


async def echoed(session: Session, data: bytes, position: int = 0) -> bytes:
    """What comes back of these bytes, all of which were durable there."""
    async with session.open("echo", priority=3, position=position) as stream:
        reading = asyncio.create_task(read_all(stream))
        await stream.write(data)
        stream.end()
        await stream.reached(position + len(data), durable=True)
        return await reading


@pytest.mark.parametrize("tls", [True, False])
def test_a_stream_brings_all_its_bytes_both_ways_and_says_what_is_durable(
    tls: bool, identities: tuple[Identity, Identity]
) -> None:
    async def run() -> None:
        first, second = identities if tls else (None, None)
        async with serving(first) as (_, port), Carrier(uuid4(), identity=second) as carrier:
            session = await carrier.connect("127.0.0.1", port)
            assert session.name == ("rtmw://plant/a" if tls else "")
            assert await echoed(session, DATA, position=(1 << 64) - len(DATA) - 1) == DATA
            small = [session.open(f"stream {n}", priority=n % 8) for n in range(20)]
            await asyncio.gather(*(stream.write(b"%d" % n) for n, stream in enumerate(small)))
            assert [await stream.read() for stream in small] == [b"%d" % n for n in range(20)]
            await asyncio.gather(*(stream.finish() for stream in small))

    asyncio.run(run())


# Proves G210.
def test_after_cuts_a_session_goes_on_and_no_byte_is_doubled_or_lost(identities: tuple[Identity, Identity]) -> None:
    async def run() -> None:
        async with (
            serving(identities[0]) as (_, port),
            Relay(port) as relay,
            Carrier(uuid4(), identity=identities[1]) as carrier,
        ):
            session = await carrier.connect("127.0.0.1", relay.port)
            stream = session.open("echo")
            for cut in range(3):
                reading = asyncio.create_task(read_exactly(stream, len(DATA)))
                await stream.write(DATA[: len(DATA) // 2])
                relay.cut()
                await stream.write(DATA[len(DATA) // 2 :])
                assert await reading == DATA, cut
            assert relay.connections >= 4
            await stream.finish()

    asyncio.run(run())


async def read_exactly(stream: Stream, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        data += await stream.read(size - len(data))
    return bytes(data)


def test_a_bit_turned_on_the_wire_ends_the_connection_and_the_session_goes_on(
    identities: tuple[Identity, Identity],
) -> None:
    async def run(tls: bool) -> None:
        first, second = identities if tls else (None, None)
        async with (
            serving(first) as (_, port),
            Relay(port) as relay,
            Carrier(uuid4(), identity=second) as carrier,
        ):
            session = await carrier.connect("127.0.0.1", relay.port)
            before = relay.connections

            def turned(data: bytes) -> bytes:
                relay.change = bytes
                return data[:-1] + bytes([data[-1] ^ 4])

            stream = session.open("echo")
            await stream.write(b"before")
            assert await stream.read() == b"before"
            relay.change = turned
            await stream.write(DATA)
            assert await read_exactly(stream, len(DATA)) == DATA
            assert relay.connections > before
            await stream.finish()

    asyncio.run(run(True))
    asyncio.run(run(False))


# Proves G210.
def test_beyond_the_lease_streams_and_session_end_with_the_reason() -> None:
    async def run() -> None:
        terms = Terms(lease=1.0)
        async with (
            serving(terms=terms) as (_, port),
            Relay(port) as relay,
            Carrier(uuid4(), terms=terms) as carrier,
        ):
            session = await carrier.connect("127.0.0.1", relay.port)
            stream = session.open("echo")
            relay.is_down = True
            relay.cut()
            error = await session.closed()
            assert error.code == Code.LEASE
            assert "nothing was heard of the peer for the lease of 1 s" in str(error)
            with pytest.raises(StreamError, match=r"stream \d, 'echo': .*lease") as caught:
                await stream.read()
            assert caught.value.code == Code.LEASE
            with pytest.raises(SessionError, match="lease"):
                session.open("another")

    asyncio.run(run())


def test_a_node_that_is_killed_and_begins_again_supersedes_its_session(site: Site) -> None:
    keys, node = site.keys("rtmw://plant/killed"), uuid4()

    def start(port: int) -> tuple[subprocess.Popen[str], int]:
        command = [sys.executable, "-m", "tests.net.session.child", str(keys), str(node), str(port)]
        child = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        assert child.stdout
        return child, int(child.stdout.readline())

    async def run() -> None:
        child, port = start(0)
        identity = site.node("rtmw://plant/killer")
        try:
            async with asyncio.timeout(PATIENCE), Carrier(uuid4(), identity=identity) as carrier:
                session = await carrier.connect("127.0.0.1", port)
                assert await echoed(session, DATA) == DATA
                stream = session.open("cut short")
                os.kill(child.pid, signal.SIGKILL)
                child.wait()
                child.stdout.close()  # type: ignore[union-attr]
                child, _ = start(port)
                error = await session.closed()
                assert error.code in (Code.SUPERSEDED, Code.LEASE)
                with pytest.raises(StreamError, match="cut short"):
                    await read_all(stream)
                async for newer in carrier:
                    if newer is not session:
                        assert await echoed(newer, b"again") == b"again"
                        break
        finally:
            child.kill()
            child.wait()
            child.stdout.close()  # type: ignore[union-attr]

    asyncio.run(run())


def test_two_nodes_that_dial_each_other_at_once_have_one_session() -> None:
    async def run() -> None:
        async with serving() as (one, one_port), serving() as (other, other_port):
            first, second = await asyncio.gather(
                one.connect("127.0.0.1", other_port), other.connect("127.0.0.1", one_port)
            )
            assert first.number == second.number
            assert first.error is None

    asyncio.run(run())


def test_who_dials_with_an_older_hello_than_the_peer_has_heard_dials_once_more() -> None:
    async def run() -> None:
        async with serving() as (_, port), Carrier(uuid4()) as carrier:
            tries = 0

            async def between(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                """The first connection is refused, the next one goes on to the peer."""
                nonlocal tries
                tries += 1
                if tries == 1:
                    writer.write(bye(Code.REPLACED, "a later hello of the node has come before this one", crc=True))
                    writer.close()
                    return
                far, to = await asyncio.open_connection("127.0.0.1", port)
                await asyncio.gather(carried(reader, to), carried(far, writer))

            async with await asyncio.start_server(between, "127.0.0.1", 0) as server:
                session = await carrier.connect(*server.sockets[0].getsockname())
                assert (session.error, tries) == (None, 2)
                await carrier.close()

    asyncio.run(run())


async def carried(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
    writer.close()


def test_strangers_are_refused_in_words_at_both_ends(site: Site, tmp_path: Path) -> None:
    async def run() -> None:
        stranger = Site(tmp_path, name="plant").node("rtmw://plant/stranger")
        async with serving(site.node("rtmw://plant/host")) as (host, port):
            async with Carrier(uuid4(), identity=stranger) as carrier:
                with pytest.raises(SessionError, match=r"authority|certificate|signed"):
                    await carrier.connect("127.0.0.1", port)
            async with Carrier(uuid4()) as carrier:
                with pytest.raises(SessionError, match=r"closed the connection|Connection reset"):
                    await carrier.connect("127.0.0.1", port)
            assert host.refused["no node"] == 1

    asyncio.run(run())


@pytest.mark.parametrize(
    ("newer", "words"),
    [
        ({"lowest": 2, "highest": 3}, "no version in common"),
        ({"lowest": 1, "highest": 9}, None),
    ],
)
def test_a_newer_version_is_spoken_as_far_as_both_know_it_or_refused_in_words(
    newer: dict[str, int], words: str | None
) -> None:
    async def run() -> None:
        node = uuid4()
        async with serving() as (_, port), Carrier(node, hello=replace(Hello(node, 1), **newer)) as carrier:
            if words is None:
                assert await echoed(await carrier.connect("127.0.0.1", port), b"x") == b"x"
            else:
                with pytest.raises(SessionError, match=words) as caught:
                    await carrier.connect("127.0.0.1", port)
                assert caught.value.code == Code.VERSION

    asyncio.run(run())


def test_who_is_refused_as_soon_as_the_session_begins_has_the_reason() -> None:
    async def run() -> None:
        async def refuse(carrier: Carrier) -> None:
            async for session in carrier:
                session.close("you may not be here")

        async with Carrier(uuid4()) as carrier, Carrier(uuid4()) as other:
            port = await carrier.listen("127.0.0.1")
            task = asyncio.create_task(refuse(carrier))
            for _ in range(30):  # before the dialler has looked at its session, or just behind
                try:
                    error: Exception = await (await other.connect("127.0.0.1", port)).closed()
                except SessionError as refused:
                    error = refused
                assert str(error).endswith("the peer ended the session: you may not be here (CLOSED)")
            task.cancel()
            await asyncio.wait([task])

    asyncio.run(run())


def test_a_node_that_reaches_itself_is_told() -> None:
    async def run() -> None:
        async with serving() as (carrier, port):
            with pytest.raises(SessionError, match="reached itself"):
                await carrier.connect("127.0.0.1", port)

    asyncio.run(run())


def test_a_certificate_that_expires_ends_a_live_connection(site: Site) -> None:
    async def run() -> None:
        identity = site.node("rtmw://plant/short", days=4 / 86400)
        async with (
            serving(site.node("rtmw://plant/lasting"), Terms(lease=2.0)) as (_, port),
            Carrier(uuid4(), identity=identity) as carrier,
        ):
            session = await carrier.connect("127.0.0.1", port)
            assert (await session.closed()).code == Code.LEASE

    asyncio.run(run())


def test_who_dials_with_a_certificate_that_has_expired_meanwhile_is_told(site: Site) -> None:
    async def run() -> None:
        expired = site.node("rtmw://plant/old", now=CLOCK.wall() - 20 * c.DAY_S, days=10)
        async with serving(site.node("rtmw://plant/open")) as (_, port), Carrier(uuid4(), identity=expired) as carrier:
            with pytest.raises(SessionError, match=r"certificate .* expired.*rtmw node keys renew"):
                await carrier.connect("127.0.0.1", port)

    asyncio.run(run())


def test_a_peer_that_is_revoked_is_cut_at_the_next_reload(site: Site) -> None:
    async def run() -> None:
        keys = site.keys("rtmw://plant/judge")
        revoked = site.node("rtmw://plant/revoked")
        async with serving(Identity.load(keys)) as (host, port), Carrier(uuid4(), identity=revoked) as carrier:
            session = await carrier.connect("127.0.0.1", port)
            assert await echoed(session, b"x") == b"x"
            host.recheck(Identity.load(keys, revoked=[int(revoked.own.serial, 16)]))
            while session.is_connected:
                await asyncio.sleep(0.01)
            with pytest.raises(SessionError, match="revoked"):
                await carrier.connect("127.0.0.1", port)

    asyncio.run(run())


def test_plain_text_is_refused_off_loopback_unless_it_is_asked_for_in_words() -> None:
    async def run() -> None:
        async with Carrier(uuid4()) as carrier:
            with pytest.raises(SessionError, match=r"192\.0\.2\.1 is not loopback.*insecure = true"):
                await carrier.connect("192.0.2.1", 7447)
            with pytest.raises(SessionError, match="not loopback"):
                await carrier.listen("0.0.0.0")
        async with Carrier(uuid4(), insecure=True) as carrier:
            assert await carrier.listen("0.0.0.0") > 0

    asyncio.run(run())


def test_over_a_unix_socket_the_peer_is_named_by_its_user(tmp_path: Path) -> None:
    async def run() -> None:
        async with serving() as (host, _), Carrier(UUID(int=1)) as carrier:
            await host.listen_unix(tmp_path / "socket")
            session = await carrier.connect_unix(tmp_path / "socket")
            assert session.name == f"uid:{os.getuid()}"
            assert await echoed(session, DATA) == DATA
            assert stat.filemode((tmp_path / "socket").stat().st_mode) == "srw-rw-rw-"  # other users, too

    asyncio.run(run())


def test_the_same_in_uvloop(identities: tuple[Identity, Identity]) -> None:
    import uvloop

    async def run() -> None:
        async with serving(identities[0]) as (_, port), Carrier(uuid4(), identity=identities[1]) as carrier:
            assert await echoed(await carrier.connect("127.0.0.1", port), DATA) == DATA

    uvloop.run(run())


def test_little_lies_unsent_in_the_kernel_at_either_end_so_that_what_is_urgent_waits_for_little(
    identities: tuple[Identity, Identity],
) -> None:
    import uvloop

    async def run() -> None:
        async with serving(identities[0]) as (host, port), Carrier(uuid4(), identity=identities[1]) as carrier:
            assert await echoed(await carrier.connect("127.0.0.1", port), DATA) == DATA
            for end in (host, carrier):
                (pipe,) = end._pipes.values()
                sock = pipe.transport.get_extra_info("socket")
                assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT) == UNSENT
                assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == end.terms.lease * 500

    asyncio.run(run())
    uvloop.run(run())


def test_misuse_is_said_in_words() -> None:
    async def run() -> None:
        async with serving() as (_, port), Carrier(uuid4()) as carrier:
            session = await carrier.connect("127.0.0.1", port)
            for wrong in ({"priority": 8}, {"position": -1}, {"position": 1 << 64}):
                with pytest.raises(ValueError, match=next(iter(wrong))):
                    session.open("x", **wrong)
            with pytest.raises(ValueError, match="a purpose of 300 bytes"):
                session.open("x" * 300)
            stream = session.open("x")
            stream.end()
            with pytest.raises(StreamError, match="writes no more"):
                await stream.write(b"x")
            for _ in range(Terms().streams - 1):
                session.open("x")
            with pytest.raises(SessionError, match="as many as the peer allows"):
                session.open("x")

    asyncio.run(run())


def test_bytes_that_are_put_wait_for_credit_and_come_in_order_and_the_stream_says_when_there_is_room() -> None:
    small = Terms(stream_credit=1 << 16, send_buffer=1 << 16)

    async def run() -> None:
        async with serving(terms=small) as (_, port), Carrier(uuid4(), terms=small) as carrier:
            session = await carrier.connect("127.0.0.1", port)
            stream, caught_up = session.open("put"), asyncio.Event()
            stream.on_room = caught_up.set
            stream.put(DATA[:1000])
            assert not stream.is_behind
            stream.put(DATA[1000:500_000])
            stream.put(DATA[500_000:900_000])
            assert stream.is_behind
            assert not caught_up.is_set()
            came = b""
            while len(came) < 900_000:
                came += await stream.read()
            assert came == DATA[:900_000]
            assert caught_up.is_set()
            assert not stream.is_behind
            stream.put(DATA)
            stream.reset()
            assert not stream.is_behind
            with pytest.raises(StreamError):
                stream.put(b"more")

    asyncio.run(run())


def test_the_end_of_a_stream_comes_behind_bytes_that_were_put_and_wait_and_nothing_is_put_behind_it() -> None:
    small = Terms(stream_credit=1 << 16, send_buffer=1 << 16)

    async def run() -> None:
        async with serving(terms=small) as (_, port), Carrier(uuid4(), terms=small) as carrier:
            session = await carrier.connect("127.0.0.1", port)
            stream = session.open("put")
            stream.put(DATA[:500_000])
            stream.end()
            assert stream.is_behind
            for _ in range(2):
                with pytest.raises(StreamError, match="has ended stream"):
                    stream.put(b"more")
            assert await read_all(stream) == DATA[:500_000]
            await stream.finish()

    asyncio.run(run())


def test_a_stream_that_is_waited_for_in_vain_again_and_again_keeps_nothing_of_that() -> None:
    async def run() -> None:
        async with serving() as (_, port), Carrier(uuid4()) as carrier:
            stream = (await carrier.connect("127.0.0.1", port)).open("echo")
            for _ in range(20):
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(stream.read(), 0.001)
            assert not stream._waiting
            await stream.write(b"echo")
            assert await stream.read() == b"echo"

    asyncio.run(run())
