"""The times of a session: keep-alive, round trip, silence, lease, delayed acknowledgement. All in seconds."""

from __future__ import annotations

from typing import Final

PINGS: Final = 8
"""PINGs in one lease."""


class Timing:
    """The lease runs from the last byte that was heard of the peer, over whichever connection."""

    def __init__(self, lease: float, ack_delay: float, now: float) -> None:
        self.lease = lease
        self._ack_delay = ack_delay
        self._heard = now
        self._ping_at: float | None = None
        self._ack_at: float | None = None
        self._set: float | None = None
        self._pings: dict[int, float] = {}
        self._number = 0
        self.round_trip: float | None = None
        self.least_round_trip: float | None = None

    def attached(self, now: float) -> None:
        """The hello was heard."""
        self._heard = self._ping_at = now
        self._set = None

    def detached(self) -> None:
        self._ping_at = self._ack_at = None
        self._pings.clear()

    def heard(self, now: float) -> None:
        self._heard = now

    def acknowledge_soon(self, now: float) -> None:
        if self._ack_at is None and self._ping_at is not None:
            self._ack_at = now + self._ack_delay

    def fired(self, now: float) -> None:
        """The timer came. If it came late this process stood still, and what the peer said meanwhile may lie unread."""
        if self._set is not None and now - self._set > self.lease / PINGS:
            self._heard += now - self._set
        self._set = None

    def is_lost(self, now: float) -> bool:
        return now - self._heard >= self.lease

    def is_silent(self, now: float) -> bool:
        return now - self._heard >= self.lease / 2

    def ping(self, now: float) -> int | None:
        """The number of the PING that is due, if one is."""
        if self._ping_at is None or now < self._ping_at:
            return None
        self._ping_at = now + self.lease / PINGS
        self._number += 1
        self._pings[self._number] = now
        if len(self._pings) > PINGS:
            del self._pings[next(iter(self._pings))]
        return self._number

    def pong(self, number: int, now: float) -> None:
        """The answer to a PING; one to none is passed over."""
        sent = self._pings.pop(number, None)
        if sent is not None:
            self.round_trip = now - sent
            least = self.least_round_trip
            self.least_round_trip = self.round_trip if least is None else min(least, self.round_trip)

    def may_acknowledge(self, now: float) -> bool:
        if self._ack_at is None or now < self._ack_at:
            return False
        self._ack_at = None
        return True

    def timer(self, now: float) -> float | None:
        """When to give Timer, if that is earlier than was said last."""
        due = self._heard + self.lease
        if self._ping_at is not None:
            due = min(due, self._ping_at, self._heard + self.lease / 2)
        if self._ack_at is not None:
            due = min(due, self._ack_at)
        if self._set is not None and self._set <= due:
            return None
        self._set = due
        return due
