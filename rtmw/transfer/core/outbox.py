"""Frames of a core to its programs: in order, when they are durable, and without ever waiting for a program."""

from __future__ import annotations

from collections import deque
from contextlib import suppress

import rtmw
from rtmw.publisher import OwnPublisher
from rtmw.transfer.frames import Frame, pack_frame, queue_of
from rtmw.transfer.messages import Advanced

__all__ = ["Outbox"]


class Outbox:
    """Of one process. A frame waits for the position up to which the log has to be durable, and for room in the queue
    of a program that does not read; there are as many as the program has asked for, and one a transfer of its own.
    How far transfers are on their way is not among them: such a program reads the next one that says so."""

    def __init__(self, domain: rtmw.Domain, slot: int) -> None:
        reliable = rtmw.Reliability.RELIABLE
        self._publisher = OwnPublisher(queue_of(slot), domain=domain, reliability=reliable, max_blocking=0)
        self._frames: deque[tuple[int, bytes]] = deque()
        self._is_behind = False
        """The program has not read for so long that its queue is full."""

    def put(self, frame: Frame, position: int) -> None:
        """`position`: of the last record that has to be durable; 0: none."""
        if self._is_behind and isinstance(frame.message, Advanced) and not frame.number:
            return  # the next one says more
        self._frames.append((position, pack_frame(frame)))

    @property
    def is_needed(self) -> bool:
        """There is something in it for somebody."""
        return bool(self._frames) and self._publisher.subscribers > 0

    def send(self, durable: int) -> bool:
        """Sends the frames that may go. False: the program's queue is full, so look again."""
        frames, self._is_behind = self._frames, False
        while frames and frames[0][0] <= durable:
            with suppress(rtmw.MessageTooLarge):
                self._is_behind = not self._publisher.publish(frames[0][1])
            if self._is_behind:
                return False
            frames.popleft()
        return True

    def close(self) -> None:
        self._publisher.close()
