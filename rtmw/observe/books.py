"""The books: every descriptor and page is in exactly one place, and the holders are known."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from rtmw import shm
from rtmw.domain import Domain

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
    """Pages whose messages nobody needs any more. They are kept for reuse; a message that needs room gets them."""
    participants: tuple[ParticipantView, ...]
    problems: tuple[str, ...] = field(default=())
    """The imbalances, in plain words; empty when the books balance."""
    repaired: tuple[str, ...] = field(default=())
    """The repairs, in plain words; empty where nothing was wrong."""
    reclaimed: int = 0
    """Descriptors given back that no queue and nobody held. That is no fault: whoever runs short takes them anyway."""


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
