"""The books: every descriptor and page is in exactly one place, and the holders are known; how full the tables of a
domain are, and which topics hold most of its memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from rtmw import shm
from rtmw.domain import Domain
from rtmw.observe.views import SubscriberView, TopicView

PAGE_BYTES: Final = 4096


@dataclass(frozen=True)
class ParticipantView:
    """An attached process."""

    pid: int
    process: str
    alive: bool
    publishers: int
    subscribers: int
    loaned: int
    """Descriptors it has loaned and not published."""
    held: int
    """Descriptors it holds as cursor or as sample."""


@dataclass(frozen=True)
class Books:
    """The proof of `rtmw doctor`: every descriptor and page is in exactly one place, and the holders are known."""

    version: str
    descriptors: int
    """All descriptors of the domain."""
    descriptors_free: int
    descriptors_loaned: int
    descriptors_queued: int
    descriptors_held: int
    """Passed by their queue, and kept only by a holder."""
    pages: int
    """Pages of 4096 bytes in the pool."""
    pages_used: int
    """Pages with payloads that somebody may still read, or writes."""
    pages_kept: int
    """Pages whose messages nobody needs any more, kept for reuse."""
    participants: tuple[ParticipantView, ...]
    problems: tuple[str, ...] = field(default=())
    """The imbalances, in plain words; empty when the books balance."""
    repaired: tuple[str, ...] = field(default=())
    """The repairs, in plain words; empty where nothing was wrong."""
    reclaimed: int = 0
    """Descriptors given back that no queue and nobody held, which is no fault."""


def _pages(granules: int) -> int:
    return -(-granules // shm.GRANULES_A_PAGE)


def examine(domain: Domain, fix: bool = False) -> Books:
    """Balance the books; with `fix`, sweep after the dead and reclaim what nobody uses first."""
    region = domain.region
    version, descriptors, free, loaned, queued, held, pages, owned, kept, swept, freed, problems = region.examine(fix)
    dead = f"{swept} process that had died" if swept == 1 else f"{swept} processes that had died"
    owners = (
        Counter(row.pid for row in shm.publishers(region)),
        Counter(row.pid for row in shm.subscribers(region)),
    )
    return Books(
        version=str(version),
        descriptors=descriptors,
        descriptors_free=free,
        descriptors_loaned=loaned,
        descriptors_queued=queued,
        descriptors_held=held,
        pages=pages,
        pages_used=_pages(owned - kept),
        pages_kept=_pages(kept),
        participants=tuple(
            ParticipantView(pid, name, alive, owners[0][pid], owners[1][pid], loaned_by, held_by)
            for _, pid, name, alive, loaned_by, held_by in region.participants()
        ),
        problems=tuple(problems),
        repaired=(f"swept after {dead}",) if swept else (),
        reclaimed=freed,
    )


@dataclass(frozen=True)
class TableUse:
    """A table of the region; its size is fixed when the domain is made."""

    name: str
    """topics, types, publishers, subscribers, participants, descriptors, or pool."""
    used: int
    """Entries; of the pool: bytes."""
    size: int
    reserved: int = 0
    """Entries, or bytes of the pool, that only priorities above 3 may use."""
    kept: int = 0
    """Bytes of blocks of the pool that nobody needs any more, and that are kept for reuse."""

    @property
    def share(self) -> float:
        """0: empty, 1: full."""
        return self.used / self.size

    @property
    def share_of_all(self) -> float:
        """The share of what every priority may use; above 1 when urgent messages are in the reserve."""
        return self.used / (self.size - self.reserved)


@dataclass(frozen=True)
class Holding:
    """The memory of a domain that the messages of a topic take."""

    topic: str
    messages: int
    bytes: int
    """Bytes that they take of the pool. Small messages lie in their descriptors and take none."""
    share: float
    """Its share of the descriptors or of the pool, whichever is larger."""
    slowest: SubscriberView | None
    """The subscriber that is furthest behind; None if none is."""
    is_history: bool = False
    """`history` keeps all of it; without publishers it is the first to give way to the same or a higher priority."""
    publishers: int = 0


def tables(domain: Domain, books: Books) -> tuple[TableUse, ...]:
    """Every table that can become full."""
    region = domain.region
    used = {
        "topics": len(shm.topics(region)),
        "types": len(region.types()),
        "publishers": len(shm.publishers(region)),
        "subscribers": len(shm.subscribers(region)),
        "participants": min(
            len(books.participants), region.capacity["participants"]
        ),  # without a tool in the last place
    }
    return (
        *(TableUse(name, used[name], size) for name, size in region.capacity.items()),
        TableUse(
            "descriptors",
            books.descriptors - books.descriptors_free,
            books.descriptors,
            int(domain.reserve * books.descriptors),
        ),
        TableUse(
            "pool",
            books.pages_used * PAGE_BYTES,
            books.pages * PAGE_BYTES,
            int(domain.reserve * books.pages) * PAGE_BYTES,
            books.pages_kept * PAGE_BYTES,
        ),
    )


def holdings(views: Sequence[TopicView], books: Books) -> list[Holding]:
    """The topics that have messages in their queues, the one that holds the largest share of the memory first."""
    found = [_holding(view, books) for view in views if any(view.queued)]
    return sorted(found, key=lambda holding: (-holding.share, holding.topic))


def _holding(view: TopicView, books: Books) -> Holding:
    messages = sum(view.queued)
    furthest = max(view.subscribers, key=lambda subscriber: subscriber.behind, default=None)
    return Holding(
        topic=view.name,
        messages=messages,
        bytes=view.pool_bytes,
        share=max(messages / books.descriptors, view.pool_bytes / (books.pages * PAGE_BYTES)),
        slowest=furthest if furthest and furthest.behind else None,
        is_history=max(view.queued) <= view.history,
        publishers=len(view.publishers),
    )
