"""The part of a replay that touches messages (player.h)."""

from typing import Any, final

CUE: Any
"""One message to be played, for `numpy.dtype`: see struct cue."""

@final
class Player:
    """Attached to a domain, with a thread that publishes. Paused at first."""

    def __new__(cls, domain: int, max_blocking_ns: int, spin_ns: int) -> Player:
        """`spin_ns`: so much before a cue is due the thread wakes up, to spin the rest; below 0: learned."""

    def track(
        self,
        topic: str,
        type: tuple[str, int, bytes] | None,
        reliability: int,
        priority: int,
        depth: int,
        history: int,
        lifetime_ns: int,
    ) -> int:
        """Open a publisher for a topic; its number. All tracks come before the first feed."""

    def feed(self, take: int, cues: Any, buffers: list[Any], begin_ns: int | None = None) -> bool:
        """Hand over cues in the order of their times, and the buffers in which their payloads lie.

        Waits until it is their turn. False: that take is no more. `begin_ns`: the clock begins anew there with them.
        """

    def end(self, take: int, /) -> None:
        """Nothing follows what has been fed."""

    def clear(self, log_ns: int, /) -> int:
        """Drop what is queued, stand there, and give the number of the next take."""

    def pause(self, paused: bool, /) -> None:
        """Nothing is published any more when this returns; or go on."""

    def step(self) -> None:
        """While paused: play the next message."""

    def rate(self, rate: float, /) -> None:
        """How many seconds of the recording are played in one; 0: as fast as readers take it."""

    def position(self) -> int:
        """Where it is now, on the recording's clock, in nanoseconds."""

    def wait(self, seconds: float, /) -> bool:
        """Has all been played? Also looked at when a signal comes. RtmwError if it had to stop."""

    def counters(self) -> list[tuple[int, int, int, int, int, int, int, int]]:
        """For each track: published, bytes, expired, timed out, exhausted, too large, unheard, subscribers matched."""

    def timing(self) -> tuple[list[tuple[int, int, int]], list[tuple[int, int, int]], int]:
        """How long after they were due messages were published; how much too late sleeps ended; nanoseconds spun.

        The first two as (shortest, longest, count), in nanoseconds.
        """

    def close(self) -> None:
        """Stop at once, and detach."""
