"""How far a recording has been added to a table: a digest of its first chunks.

A table keeps such marks with its rows, in one commit. A recording that has grown, was renamed, copied or recovered
since has the same first chunks, and so the same marks. Each mark is the digest of all chunks before it, so recordings
that only begin alike are not taken for each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from hashlib import blake2b
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rtmw.recording.contents import Chunk


def marks_of(chunks: Iterable[Chunk]) -> list[str]:
    """The mark after each chunk."""
    digest, marks = blake2b(digest_size=16), list[str]()
    for chunk in chunks:
        counts = sorted(chunk.counts.items())
        digest.update(repr((chunk.position, chunk.start_ns, chunk.end_ns, chunk.uncompressed_size, counts)).encode())
        marks.append(digest.hexdigest())
    return marks


def done(marks: list[str], is_known: Callable[[str], bool]) -> int:
    """How many chunks a table has, which knows some of these marks."""
    return next((count for count in range(len(marks), 0, -1) if is_known(marks[count - 1])), 0)
