"""Shared memory: the C core and the regions it works in. The only importer of `_core`."""

from rtmw.shm._core import (
    GRANULES_A_PAGE,
    TYPE_ANY,
    TYPE_RAW,
    Loan,
    Publisher,
    Region,
    Sample,
    Subscriber,
    is_topic_name,
    wait_any,
)
from rtmw.shm.linking import make_linkable
from rtmw.shm.region import (
    create,
    domain_bytes,
    domains,
    largest_pool,
    leftovers,
    parse_size,
    region_of,
    remove_leftovers,
    unlink,
    unlink_quietly,
)

__all__ = [
    "GRANULES_A_PAGE",
    "TYPE_ANY",
    "TYPE_RAW",
    "Loan",
    "Publisher",
    "Region",
    "Sample",
    "Subscriber",
    "create",
    "domain_bytes",
    "domains",
    "is_topic_name",
    "largest_pool",
    "leftovers",
    "make_linkable",
    "parse_size",
    "region_of",
    "remove_leftovers",
    "unlink",
    "unlink_quietly",
    "wait_any",
]
