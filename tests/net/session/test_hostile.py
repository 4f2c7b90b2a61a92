"""What comes before authentication: garbage, slow peers, a recorded session, cuts and lies within the hello."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import os
import random
import socket
from uuid import uuid4

import psutil
import pytest

from rtmw.net.security.identity import Identity
from rtmw.net.session import Carrier, Hello
from rtmw.net.session.errors import Violation
from rtmw.net.session.frames import FrameReader, Kind, frame
from rtmw.net.session.hello import length_of, read
from rtmw.net.session.sockets import FIRST, is_plausible
from tests.net.security.site import Site
from tests.net.session.relay import Relay
from tests.net.session.test_carrier import echoed, serving

GARBAGE = 10_000
AT_ONCE = 50
MOST_MEMORY = 16 << 20
"""For the second half of them: the first fills what is kept for the next connection."""


@pytest.fixture(scope="module")
def identities(tmp_path_factory: pytest.TempPathFactory) -> tuple[Identity, Identity]:
    site = Site(tmp_path_factory.mktemp("keys"))
    return site.node("rtmw://plant/a"), site.node("rtmw://plant/b")


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def resident() -> int:
    """Bytes, without what is free: this process has run other tests."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return int(psutil.Process().memory_info().rss)


async def garbage(port: int, rng: random.Random, count: int) -> None:
    for _ in range(count // AT_ONCE):
        await asyncio.gather(*(hostile(port, rng) for _ in range(AT_ONCE)))


async def hostile(port: int, rng: random.Random) -> None:
    """A connection that says garbage, or begins as TLS does and goes on with garbage, and then closes or is cut."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = rng.choice((b"", b"\x16\x03\x01\x02\x00\x01", b"RTMWSES\0", b"\x16\x03"))
    writer.write(head + rng.randbytes(rng.randrange(300)))
    if rng.random() < 0.5:
        writer.transport.abort()
    else:
        writer.close()
    try:
        await reader.read()
        await writer.wait_closed()
    except OSError:
        pass


@pytest.mark.timeout(600)
# Proves G211.
def test_ten_thousand_garbage_connections_leave_memory_and_descriptors_as_before(
    identities: tuple[Identity, Identity],
) -> None:
    async def run() -> None:
        rng = random.Random(3)
        async with serving(identities[0]) as (host, port), Carrier(uuid4(), identity=identities[1]) as carrier:
            session = await carrier.connect("127.0.0.1", port)
            await garbage(port, rng, GARBAGE // 2)
            before, memory = descriptors(), resident()
            await garbage(port, rng, GARBAGE // 2)
            assert await echoed(session, b"still here") == b"still here"
            while descriptors() > before:
                await asyncio.sleep(0.01)
            assert resident() - memory < MOST_MEMORY
            assert sum(host.refused.values()) > 0

    asyncio.run(run())


# Proves G211.
def test_a_good_peer_connects_while_slow_ones_say_nothing(identities: tuple[Identity, Identity]) -> None:
    async def run() -> None:
        async with serving(identities[0]) as (host, port):
            slow = [socket.create_connection(("127.0.0.1", port)) for _ in range(100)]
            for number, one in enumerate(slow):
                one.send(b"\x16\x03\x01\x02\x00\x01"[: number % 7])
            try:
                async with Carrier(uuid4(), identity=identities[1]) as carrier:
                    assert await echoed(await carrier.connect("127.0.0.1", port), b"x") == b"x"
                assert host.refused["too many of one address"] > 0
            finally:
                for one in slow:
                    one.close()

    asyncio.run(run())


# Proves G211.
def test_a_recorded_session_replayed_does_nothing(identities: tuple[Identity, Identity]) -> None:
    async def run() -> None:
        async with serving(identities[0]) as (host, port), Relay(port) as relay:
            async with Carrier(uuid4(), identity=identities[1]) as carrier:
                assert await echoed(await carrier.connect("127.0.0.1", relay.port), b"once") == b"once"
            recorded = bytes(relay.forth)
            sessions = host.begun
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(recorded)
            try:
                while await reader.read(65536):
                    pass
            except OSError:
                pass
            writer.close()
            assert host.begun == sessions

    asyncio.run(run())


def test_a_hello_cut_at_any_byte_harms_nobody() -> None:
    async def run() -> None:
        hello = Hello(uuid4(), 1, crc=True).packed()
        async with serving() as (host, port):
            for cut in range(len(hello)):
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(hello[:cut])
                writer.close()
            async with Carrier(uuid4()) as carrier:
                assert await echoed(await carrier.connect("127.0.0.1", port), b"x") == b"x"
            assert host.begun == 1

    asyncio.run(run())


def test_a_hello_with_any_bit_turned_is_refused() -> None:
    hello = Hello(uuid4(), 7, crc=True, capabilities=frozenset({"a", "b"})).packed()
    for bit in range(8 * len(hello)):
        turned = bytearray(hello)
        turned[bit // 8] ^= 1 << bit % 8
        try:
            length = length_of(turned)
            assert length is not None
            if length > len(turned):
                continue  # it waits for more, and its time ends
            read(bytes(turned[:length]))
        except Violation:
            continue
        raise AssertionError(f"bit {bit} was not seen")


def test_a_frame_with_any_bit_turned_is_damage_and_never_kept_beyond_its_size() -> None:
    good = frame(Kind.DATA, 5, bytes(40), crc=True)
    for bit in range(8 * len(good)):
        turned = bytearray(good)
        turned[bit // 8] ^= 1 << bit % 8
        reader = FrameReader(crc=True)
        try:
            assert list(reader.feed(bytes(turned))) == [], bit
            assert len(reader) <= len(good)
        except Violation:
            continue


def test_random_frames_of_a_peer_end_its_session_and_no_other() -> None:
    async def run() -> None:
        rng = random.Random(5)
        async with serving() as (_, port), Relay(port) as relay, Carrier(uuid4()) as good:
            session = await good.connect("127.0.0.1", port)
            for _ in range(100):
                async with Carrier(uuid4()) as bad:
                    relay.change = bytes
                    worse = await bad.connect("127.0.0.1", relay.port)
                    body = frame(Kind(rng.randrange(1, 15)), rng.randrange(8), rng.randbytes(rng.choice((8, 16, 24))))
                    relay.change = lambda data, body=body: data + frame_with_crc(body)  # type: ignore[misc]
                    worse.open("x")
                    worse.close()
            assert await echoed(session, b"unharmed") == b"unharmed"

    asyncio.run(run())


def frame_with_crc(plain: bytes) -> bytes:
    """The same frame as connections without TLS have it."""
    kind, stream = plain[2], int.from_bytes(plain[4:8], "little")
    return frame(Kind(kind), stream, plain[8:], crc=True)


@pytest.mark.parametrize(
    ("first", "tls", "plausible"),
    [
        (b"\x16\x03\x01\x02\x00\x01", True, True),
        (b"\x16\x03\x01\xff\xff\x01", True, False),
        (b"\x16\x03\x01\x02\x00\x02", True, False),
        (b"GET / ", True, False),
        (b"RTMWSE", True, False),
        (b"RTMWSE", False, True),
        (b"GET / ", False, False),
    ],
)
def test_state_is_made_only_for_what_begins_as_a_node_does(first: bytes, tls: bool, plausible: bool) -> None:
    assert len(first) == FIRST
    assert is_plausible(first, tls=tls) is plausible
