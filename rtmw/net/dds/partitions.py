"""Nodes write and read in a DDS partition of their own, plain programs are served in the default one.

So a sample for nodes may have what no plain program knows (trailer.h, pack.h), while a plain program reads the same
topic; and a sample for plain programs is just what its type says. A topic that nobody but nodes reads has no writer for
plain programs. A node of a version that knew no partitions is a plain program to this one, which reads what that node
sends with trailers all the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase

NODES = "rtmw nodes"
"""Where nodes write and read what crosses between them."""
DEFAULT = ""


def meet(some: Iterable[str], others: Iterable[str]) -> bool:
    """Do two endpoints have a partition in common? None at all is the default one. A name with * or ? is a pattern for
    names of the other side that have neither (DDS 1.4, 2.2.3.13)."""
    ours, theirs = tuple(some) or (DEFAULT,), tuple(others) or (DEFAULT,)
    return any(_fits(one, other) or _fits(other, one) for one in ours for other in theirs)


def _fits(pattern: str, name: str) -> bool:
    if not _is_pattern(pattern):
        return pattern == name
    return not _is_pattern(name) and fnmatchcase(name, pattern)


def _is_pattern(name: str) -> bool:
    return "*" in name or "?" in name
