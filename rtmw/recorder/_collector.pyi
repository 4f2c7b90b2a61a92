"""The part of the recorder that touches messages (collector.h)."""

from typing import final

@final
class Collector:
    """Attached to a domain, with a thread that takes messages into chunks. Chunks go by their address."""

    def __new__(cls, domain: int, chunk_age_ns: int, budget: int) -> Collector: ...
    def add(self, topic: str, reliability: int, depth: int, history: int, is_new: bool, /) -> int:
        """Record a topic from now on; the number of its source."""

    def adapt(self, source: int, depth: int, /) -> None:
        """A source goes on as ADAPTIVE with this depth, without a gap, for other publishers have come."""

    def leave(self, source: int, /) -> None:
        """A source gives its subscriber back once all that is there was taken; its counters and channels stay."""

    def resume(self, source: int, reliability: int, depth: int, is_other: bool, /) -> None:
        """A source that was left goes on behind its last message, with all that the topic has kept since. `is_other`:
        the topic was given up meanwhile and made again, so that all of it is new."""

    def lend(self, chunk: int, /) -> None:
        """One more chunk to fill, which has to exist until the collector is closed."""

    def give(self, chunk: int, /) -> None:
        """One that came from `next`, empty again."""

    def next(self, timeout_ns: int, /) -> int | None:
        """The next full chunk; None: the time is up, or there will be no more."""

    def channel(self, number: int, /) -> tuple[int, int, bytes | None]:
        """Source, type and its description of a channel; None: raw bytes. The type is a key of `Region.types`."""

    def missing(self) -> list[tuple[int, int, int, int]]:
        """The messages not recorded since the last call: source, its last channel or 0, cause, count."""

    def counters(self) -> list[tuple[int, int, int, int, int, int, int, int]]:
        """Returns for each source: messages and bytes taken, and those missing by cause from 1 on."""

    def state(self) -> tuple[int, int, int, int, bool]:
        """Full chunks, free ones, demands seen to, times that the wall clock went back, and whether all is over."""

    def pause(self, paused: bool, /) -> None: ...
    def cut(self) -> int:
        """Close the open chunk soon, however full; the number of this demand, as `state` tells."""

    def stop(self) -> None:
        """Take what is there, close the last chunk, and end."""

    def close(self) -> None: ...
