"""A body that is larger than a block goes out as a chain, under a window (T5): so it may be larger than the pool.

The sender drives the chain, and begins it anew when another core is there. The next step is decided here, without
waiting; `send_chain` and `send_chain_async` wait, asleep or in an event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Final

from rtmw.transfer.client.deadline import Deadline
from rtmw.transfer.client.line import Line
from rtmw.transfer.client.pending import Pending
from rtmw.transfer.frames import BLOCK, WINDOW
from rtmw.transfer.messages import Message, More, Send

__all__ = ["first_block", "send_chain", "send_chain_async"]

AGAIN_S: Final = 0.001
"""A task looks again so soon whether there is room."""


def first_block(send: Send) -> Send:
    return Send(send.txn, send.header, send.once, send.data[:BLOCK])


def _steps(line: Line, pending: Pending, send: Send) -> Generator[Message | None, bool, None]:
    """A message is to be sent: the answer says whether it could be. None: wait until the line has changed."""
    start, offset = line.start, BLOCK
    while not pending.is_done:
        if line.core is not None and line.start != start:
            start, offset, pending.got = line.start, 0, 0
        has_room = offset - pending.got < WINDOW * BLOCK and offset < len(send.data)
        if line.core is None or not has_room:
            yield None
            continue
        data = send.data[offset : offset + BLOCK]
        sent = yield (More(data) if offset else first_block(send))
        if sent:
            offset += len(data)


@contextmanager
def _giving_up(line: Line, pending: Pending) -> Generator[None]:
    """Whoever leaves it by an error sends no more, which the core is told: it keeps what has come of a body."""
    try:
        yield
    except BaseException:
        line.requests.give_up(pending)
        raise


def send_chain(line: Line, pending: Pending, send: Send, deadline: Deadline) -> None:
    """Until it is answered. TimeoutError, CoreNotRunning."""
    with _giving_up(line, pending):
        _send(line, pending, send, deadline)


def _send(line: Line, pending: Pending, send: Send, deadline: Deadline) -> None:
    steps = _steps(line, pending, send)
    message = next(steps, None)
    while not pending.is_done:
        if message is None:
            if not line.wait_until(_has_changed(line, pending), deadline.left):
                raise _late(pending, send, deadline)
            message = next(steps, None)
        else:
            sent = line.requests.put(pending, message, waits=True)
            if not sent and deadline.is_over:
                raise _late(pending, send, deadline)
            message = _next(steps, sent)


async def send_chain_async(line: Line, pending: Pending, send: Send, deadline: Deadline) -> None:
    """The same for a task."""
    with _giving_up(line, pending):
        await _send_async(line, pending, send, deadline)


async def _send_async(line: Line, pending: Pending, send: Send, deadline: Deadline) -> None:
    steps = _steps(line, pending, send)
    message = next(steps, None)
    while not pending.is_done:
        if message is None:
            if not await line.until(_has_changed(line, pending), deadline.left):
                raise _late(pending, send, deadline)
            message = next(steps, None)
        else:
            sent = line.requests.put(pending, message, waits=False)
            if not sent and deadline.is_over:
                raise _late(pending, send, deadline)
            if not sent:
                await asyncio.sleep(AGAIN_S)
            message = _next(steps, sent)


def _has_changed(line: Line, pending: Pending) -> Callable[[], bool]:
    """Since now: more was taken, it is answered, or another core is there."""
    got, start = pending.got, line.start
    return lambda: pending.is_done or pending.got != got or line.start != start


def _late(pending: Pending, send: Send, deadline: Deadline) -> TimeoutError:
    return TimeoutError(f"{pending.got} of {len(send.data)} bytes were taken within {deadline.timeout} s")


def _next(steps: Generator[Message | None, bool, None], sent: bool) -> Message | None:
    try:
        return steps.send(sent)
    except StopIteration:
        return None
