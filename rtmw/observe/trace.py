"""The trace: what is published, taken and dropped on some topics, by whom and when (requirement P10).

Publishers and subscribers write it into a ring in the region for as long as somebody traces their topic. Whoever traces
too slowly, or meets a writer that is stopped, gets the rest and is told how many events it did not get.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rtmw import shm
from rtmw.clock import CLOCK
from rtmw.closing import Closing
from rtmw.domain import Domain


@dataclass(frozen=True)
class TraceEvent:
    """Something that happened to a message."""

    what: str
    """published · taken · a cause of a drop at its subscriber: missed, expired, thinned, unmatched, other_types · a
    cause of a refusal at its publisher: timed_out, exhausted."""
    topic: str
    at_ns: int
    """Wall clock."""
    pid: int
    """Process id of the publisher or subscriber at which it happened."""
    process: str
    """Name of that program."""
    identity: int
    """Identity of the publisher or subscriber at which it happened."""
    priority: int
    sequence: int | None
    """Within topic and priority; None: refused, so it never had one."""
    count: int
    """Messages: more than one where they were missed together; `sequence` is that of the last."""
    size: int | None
    """Payload bytes; None: not known."""
    publisher: int | None
    """Process id of the message's publisher; None: not known."""
    latency: float | None
    """Seconds since it was published; None: it was just now, or is not known."""


_OF_PUBLISHER = ("published", "timed_out", "exhausted")
_Row = tuple[str, int, int, int, int, int, int, int, int, int]


class Trace(Closing):
    """Trace topics that exist, until it is closed, or its process ends in whatever way.

    Errors: KeyError for a topic that does not exist, and those of Domain.
    """

    def __init__(self, domain: Domain, topics: Sequence[str]) -> None:
        self._region = domain.region
        lives = {row.name: row.life for row in shm.topics(self._region)}
        self._names = {lives[name]: name for name in topics}
        self._processes = self._region.names()
        self._at = self._known = self._region.trace_next()
        self._open: list[int] = []
        self.lost = 0
        """Events so far that were overwritten or left half written before they were read."""
        for life, name in self._names.items():
            if not self._region.trace(life, True):
                self.close()
                raise KeyError(name)
            self._open.append(life)

    def read(self) -> list[TraceEvent]:
        """The events since the last call, in the order of time. Call it some twenty times a second."""
        rows, self._at, self._known, lost = self._region.events(self._at, self._known)
        self.lost += lost
        wall_ns = CLOCK.wall_ns() - CLOCK.monotonic_ns()
        events = [self._event(row, wall_ns) for row in rows if row[1] in self._names]
        return sorted(events, key=lambda event: event.at_ns)

    def _event(self, row: _Row, wall_ns: int) -> TraceEvent:
        what, life, band, count, at_ns, who, publisher, sequence, size, published_ns = row
        known = published_ns != 0
        return TraceEvent(
            what=what,
            topic=self._names[life],
            at_ns=at_ns + wall_ns,
            pid=shm.pid_of(who),
            process=self._process(shm.pid_of(who)),
            identity=self._region.identity(who) if what in _OF_PUBLISHER else who,
            priority=band,
            sequence=sequence or None,
            count=count,
            size=size if known else None,
            publisher=shm.pid_of(publisher) if publisher else None,
            latency=max(0, at_ns - published_ns) / 1e9 if known and what != "published" else None,
        )

    def _process(self, pid: int) -> str:
        if pid not in self._processes:
            self._processes = {**self._processes, **self._region.names()}
            self._processes.setdefault(pid, "?")
        return self._processes[pid]

    def close(self) -> None:
        """Trace no more."""
        while self._open:
            self._region.trace(self._open.pop(), False)
