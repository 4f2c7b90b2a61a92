"""Trying again and again: how long to wait before the next try."""

from __future__ import annotations

import asyncio
import random
from typing import Final, Self

SHORTEST: Final = 0.05
LONGEST: Final = 2.0
"""Seconds between two tries; they double, and each is drawn from half of it to all of it."""


class Backoff:
    """`async for _ in Backoff()` is a loop of tries: the first comes at once, each later one after its wait.

    Many that lose their peer at the same moment do not come back at the same moment.
    """

    def __init__(self, shortest: float = SHORTEST, longest: float = LONGEST) -> None:
        self._wait = self._shortest = shortest
        self._longest = longest
        self._has_tried = False

    def seconds(self) -> float:
        """Seconds to wait before the next try; they are about twice as long each time."""
        drawn = self._wait * random.uniform(0.5, 1.0)
        self._wait = min(2 * self._wait, self._longest)
        return drawn

    def reset(self) -> None:
        """A try has succeeded."""
        self._wait = self._shortest

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> None:
        if self._has_tried:
            await asyncio.sleep(self.seconds())
        self._has_tried = True
