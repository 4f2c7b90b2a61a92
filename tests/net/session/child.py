"""A node in a process of its own that serves streams: what comes is made durable, and said back. Prints its port."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from uuid import UUID

from rtmw.net.security.identity import Identity
from rtmw.net.session import Carrier, Session, Stream, Terms


async def echo(stream: Stream) -> None:
    async with stream:
        while data := await stream.read():
            stream.acknowledge(stream.position)
            await stream.write(data)


async def serve(session: Session) -> None:
    async with asyncio.TaskGroup() as tasks:
        async for stream in session:
            tasks.create_task(echo(stream))


async def main(keys: str, node: str, port: str) -> None:
    identity = Identity.load(Path(keys))
    async with Carrier(UUID(node), identity=identity, terms=Terms(lease=5.0)) as carrier:
        print(await carrier.listen("127.0.0.1", int(port)), flush=True)
        async with asyncio.TaskGroup() as tasks:
            async for session in carrier:
                tasks.create_task(serve(session))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
