"""The streams of a session: what is open, and whose turn it is to send."""

from __future__ import annotations

from collections import deque
from typing import Final

from rtmw.net.session.halves import Receiving, Sending

PRIORITIES: Final = 8


class Stream:
    """Both halves of one stream."""

    def __init__(self, number: int, priority: int, sending: Sending | None, receiving: Receiving) -> None:
        self.number = number
        self.priority = priority
        self.sending = sending
        """None until this side has accepted the peer's stream."""
        self.receiving = receiving
        self.was_reset = False
        """This side has sent RESET, and waits for the peer's: what comes meanwhile is passed over."""
        self.opened_as: int | None = None
        """Number of the control frame OPEN, if this side sent it."""
        self.queued: int | None = None
        """The priority in whose turns it stands."""

    @property
    def is_over(self) -> bool:
        """Each side has said END and DONE."""
        return self.sending is not None and self.sending.is_done and self.receiving.sent_done


class Turns:
    """Streams that may have something to send: the highest priority first, within one in turn."""

    def __init__(self) -> None:
        self._queues: list[deque[Stream]] = [deque() for _ in range(PRIORITIES)]

    def add(self, stream: Stream) -> None:
        """The stream stands in the turns of its priority, behind the others; once at most in those of all."""
        if stream.queued == stream.priority:
            return
        if stream.queued is not None:
            self._queues[stream.queued].remove(stream)
        stream.queued = stream.priority
        self._queues[stream.priority].append(stream)

    def next(self) -> Stream | None:
        """The stream whose turn it is, taken out."""
        for queue in reversed(self._queues):
            if queue:
                stream = queue.popleft()
                stream.queued = None
                return stream
        return None

    def put_back(self, stream: Stream) -> None:
        """It could not send now, and has its turn first when it can."""
        stream.queued = stream.priority
        self._queues[stream.priority].appendleft(stream)

    def discard(self, stream: Stream) -> None:
        if stream.queued is not None:
            self._queues[stream.queued].remove(stream)
            stream.queued = None
