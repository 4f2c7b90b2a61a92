"""NATS between two hosts: each program is a client of the server of its host, and one server is a leaf of the other.

The client is nats-py, which is asyncio: a process has one event loop, which runs while one of our calls does. To run it
costs some 25 µs (with uvloop 70), so what is sent waits for the next call that receives, or until it is many. Servers
drop what a client takes too slowly, and close its connection. So that nothing is lost, a receiver says how much it has
taken, and its sender is never more than CREDIT bytes ahead, as a program on NATS would have to do it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from bench.leaves import place_of
from bench.peers import STAMP, Channel, Receiver, Sender

CREDIT = 8 << 20
COST = 64
"""Bytes that a message counts besides its body."""
MANY = 1 << 14


@dataclass
class Client:
    """A connection, and what is to be sent by it the next time that its event loop runs."""

    loop: asyncio.AbstractEventLoop
    connection: Any
    waiting: list[tuple[str, bytes]] = field(default_factory=list[tuple[str, bytes]])
    waiting_bytes: int = 0

    def send(self, subject: str, body: bytes) -> None:
        self.waiting.append((subject, body))
        self.waiting_bytes += len(body) + COST
        if self.waiting_bytes >= MANY:
            self.run(asyncio.sleep(0))

    def run(self, until: Awaitable[Any]) -> None:
        """Send what waits, and let the event loop run until then."""
        self.loop.run_until_complete(self._run(until))

    async def _run(self, until: Awaitable[Any]) -> None:
        waiting, self.waiting, self.waiting_bytes = self.waiting, [], 0
        for subject, body in waiting:
            await self.connection.publish(subject, body)
        await until


@cache
def client(place: str, listens: bool) -> Client:
    """One a process."""
    from nats import connect

    loop = asyncio.new_event_loop()
    address = f"nats://127.0.0.1:{place_of(place, listens).read_text()}"
    return Client(loop, loop.run_until_complete(connect(address, allow_reconnect=False)))


class Inbox:
    """Messages of a subject that have come."""

    def __init__(self, mine: Client, subject: str) -> None:
        self.came, self._mine, self._wake = deque[bytes](), mine, asyncio.Event()
        mine.run(mine.connection.subscribe(subject, cb=self._put))
        mine.run(mine.connection.flush())

    async def _put(self, message: Any) -> None:
        self.came.append(message.data)
        self._wake.set()

    def take(self) -> bytes | None:
        if not self.came:
            self._mine.run(asyncio.sleep(0))
        return self.came.popleft() if self.came else None

    def receive(self) -> bytes:
        while not self.came:
            self._wake.clear()
            self._mine.run(self._wake.wait())
        return self.came.popleft()


def credit_of(channel: Channel) -> str:
    return f"{channel.name}.credit"


def sender(channel: Channel) -> Sender:
    mine, name, ahead = client(channel.place, channel.listens), channel.name, 0
    credit = Inbox(mine, credit_of(channel))

    def send(body: bytes) -> None:
        nonlocal ahead
        while ahead > CREDIT or credit.came:
            ahead -= STAMP.unpack(credit.receive())[0]
        ahead += len(body) + COST
        mine.send(name, body)

    return Sender(send, kept=mine)


def receiver(channel: Channel) -> Receiver:
    mine, owed = client(channel.place, channel.listens), 0
    inbox = Inbox(mine, channel.name)

    def told(message: bytes) -> bytes:
        nonlocal owed
        owed += len(message) + COST
        if owed > CREDIT // 4:
            mine.send(credit_of(channel), STAMP.pack(owed))
            owed = 0
        return message

    def take() -> bytes | None:
        message = inbox.take()
        return message if message is None else told(message)

    return Receiver(take, lambda: told(inbox.receive()), kept=mine)
