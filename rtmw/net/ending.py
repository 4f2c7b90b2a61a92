"""How a node ends: it hands over what it has, within bounds, and names what it could not."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from rtmw.clock import CLOCK
from rtmw.net.dds.bridge import Bridge
from rtmw.net.dds.leaving import Keeper
from rtmw.net.dds.library import Engine
from rtmw.net.link.service import LinkService
from rtmw.net.refusals import Refusals
from rtmw.net.route.undelivered import Undelivered, words

log = logging.getLogger("rtmw.node")

END_S: Final = 3.0
TAKE_S: Final = 1.0
"""Of that, for taking what was published before the end: then the rest is left to the next node."""
_EMPTIED_LOOK_S: Final = 0.01


class Ending:
    """Of a node that takes no more steps."""

    def __init__(self, engine: Engine, bridge: Bridge, keeper: Keeper, links: LinkService) -> None:
        self._engine, self._bridge, self._keeper, self._links = engine, bridge, keeper, links

    async def hand_over(self, handover: float, refusals: Refusals) -> None:
        """Messages published before the end are still delivered, if they can be within END_S; those of RELIABLE topics,
        if they can be within TAKE_S, and the rest is left to the next node. Messages of RELIABLE topics that others
        sent are received to their end."""
        begun = CLOCK.monotonic()
        self._engine.finish()  # a publisher that goes on would keep it for ever
        self._keeper.leave(handover)
        self._links.leave(handover)
        while not self._is_delivered():
            with refusals.barrier("step"):
                self._keeper.step()
            elapsed = CLOCK.monotonic() - begun
            if elapsed >= END_S:
                return
            if elapsed >= TAKE_S and handover:
                self._engine.leave()
                self._links.finish()
            await asyncio.sleep(_EMPTIED_LOOK_S)

    def _is_delivered(self) -> bool:
        return self._bridge.is_delivered() and self._keeper.is_over and self._links.is_delivered()

    def left(self) -> list[Undelivered]:
        """Messages that the node has not delivered; the log names them."""
        found = [*self._bridge.undelivered(), *self._links.undelivered()]
        if found:
            log.warning("ended with messages that are not delivered: %s", words(found))
        return found
