"""An event loop whose time a test sets forward: what is due after seconds is due at once."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

FAILED_S = 30.0
"""So long waits a test, by the same clock, for what it has made due: then that is not going to come."""


class SkippingLoop(asyncio.SelectorEventLoop):
    """`skipped`: seconds by which its time is ahead."""

    skipped = 0.0

    def time(self) -> float:
        return super().time() + self.skipped


def skip(seconds: float) -> None:
    """Set the time of the running loop forward."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, SkippingLoop)
    loop.skipped += seconds


def run_skipping(what: Coroutine[Any, Any, None]) -> None:
    """As asyncio.run does, in such a loop."""
    with asyncio.Runner(loop_factory=SkippingLoop) as runner:
        runner.run(what)


async def ended(task: asyncio.Task[Any]) -> bool:
    """Is the task over, now that its time is up?"""
    await asyncio.wait([task], timeout=FAILED_S)
    return task.done()
