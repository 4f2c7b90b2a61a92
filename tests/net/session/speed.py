"""Bytes a second of one stream beside asyncio's own streams, with TLS and without, in turn within one run; and the
round trip of 64 B. `python -m tests.net.session.speed [ROUNDS]`"""

from __future__ import annotations

import asyncio
import ssl
import statistics
import sys
import tempfile
import time
from pathlib import Path
from uuid import uuid4

from rtmw.net.security.identity import Identity
from rtmw.net.session import Carrier, Session
from tests.net.security.site import Site

SIZE = 32 << 20
PIECE = bytes(1 << 18)
TRIPS = 300
Result = tuple[float, float]
"""MiB/s, seconds of a round trip."""


async def _serve(session: Session) -> None:
    async for stream in session:
        while data := await stream.read():
            if stream.purpose == "trips":
                await stream.write(data)


async def sessions(first: Identity | None, second: Identity | None) -> Result:
    async with Carrier(uuid4(), identity=first) as one, Carrier(uuid4(), identity=second) as other:
        session = await other.connect("127.0.0.1", await one.listen("127.0.0.1"))
        serving = asyncio.create_task(_serve(await anext(one)))
        bulk, trips = session.open("bulk"), session.open("trips")
        began = time.perf_counter()
        for _ in range(SIZE // len(PIECE)):
            await bulk.write(PIECE)
        await bulk.reached(SIZE)
        bulk.end()
        rate = SIZE / (time.perf_counter() - began)
        began = time.perf_counter()
        for _ in range(TRIPS):
            await trips.write(PIECE[:64])
            await trips.read()
        trip = (time.perf_counter() - began) / TRIPS
        serving.cancel()
        return rate / (1 << 20), trip


async def plain(server: ssl.SSLContext | None, client: ssl.SSLContext | None) -> Result:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        left = SIZE
        while left:
            left -= len(await reader.read(1 << 18))
        writer.write(b"whole")
        while data := await reader.read(64):
            writer.write(data)
        writer.close()
        served.set()

    served = asyncio.Event()
    listening = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=server, limit=1 << 20)
    port = listening.sockets[0].getsockname()[1]
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", port, ssl=client, server_hostname="" if client else None
    )
    began = time.perf_counter()
    for _ in range(SIZE // len(PIECE)):
        writer.write(PIECE)
        await writer.drain()
    await reader.readexactly(5)
    rate = SIZE / (time.perf_counter() - began)
    began = time.perf_counter()
    for _ in range(TRIPS):
        writer.write(PIECE[:64])
        await reader.readexactly(64)
    trip = (time.perf_counter() - began) / TRIPS
    writer.close()
    await served.wait()
    listening.close()
    return rate / (1 << 20), trip


def main(rounds: int) -> None:
    found: dict[str, list[Result]] = {}
    with tempfile.TemporaryDirectory() as folder:
        site = Site(Path(folder))
        one, other = site.node("rtmw://plant/one"), site.node("rtmw://plant/other")
        for _ in range(rounds):
            tls = one.server_context(), other.client_context()
            found.setdefault("asyncio, TCP", []).append(asyncio.run(plain(None, None)))
            found.setdefault("session, TCP", []).append(asyncio.run(sessions(None, None)))
            found.setdefault("asyncio, TLS", []).append(asyncio.run(plain(*tls)))
            found.setdefault("session, TLS", []).append(asyncio.run(sessions(one, other)))
    for name, results in found.items():
        rate, trip = (statistics.median(result[i] for result in results) for i in (0, 1))
        print(f"{name:<14}{rate:>8.0f} MiB/s {trip * 1e6:>8.0f} µs")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
