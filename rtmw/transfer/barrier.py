"""The barrier where frames come in from the bus, at a core and at programs: what no process may send there is counted
and passed over, so that one message of any program ends nothing for others.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from rtmw.transfer.errors import TransfersDamaged
from rtmw.transfer.frames import Frame, unpack_frame

__all__ = ["Barrier"]

log = logging.getLogger("rtmw.transfer")


class Barrier:
    """Guards one topic. `fault`: why a frame of the process with this pid may not come in; empty: it may."""

    def __init__(self, topic: str, fault: Callable[[Frame, int], str]) -> None:
        self._topic, self._fault = topic, fault
        self.refused = 0
        """Messages that were passed over. The first one is logged."""

    def frame_of(self, data: bytes | memoryview, pid: int) -> Frame | None:
        """The frame in a message of this process; None: the message is passed over."""
        try:
            frame = unpack_frame(data)
            fault = self._fault(frame, pid)
        except TransfersDamaged as error:
            frame, fault = None, str(error)
        if not fault:
            return frame
        self.refused += 1
        if self.refused == 1:
            log.warning(
                "a message of process %d on %s is passed over: %s; more are counted only", pid, self._topic, fault
            )
        return None
