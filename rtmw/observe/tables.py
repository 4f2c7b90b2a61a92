"""How full the tables of a domain are, and which topics hold most of its memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rtmw import shm
from rtmw.domain import Domain
from rtmw.observe.books import PAGE_BYTES, Books
from rtmw.observe.views import SubscriberView, TopicView


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
    """Beside those used, of the pool alone: bytes of blocks that nobody needs any more, and that are kept for reuse."""

    @property
    def share(self) -> float:
        """0: empty, 1: full."""
        return self.used / self.size

    @property
    def share_of_all(self) -> float:
        """The share of what every priority may use. It exceeds 1 when urgent messages are in the reserve."""
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
