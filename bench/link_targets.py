"""What links mean to reach, beside the node over DDS and beside zenoh without its shared memory."""

from __future__ import annotations

from bench.cases import RTMW
from bench.peers import LINK_TCP, LINK_TLS, LINK_TLS_NEWER, ZENOH_TCP, ZENOH_TLS
from bench.questions.links import CARRYING, LARGEST, SIZES, WHOLE, one_way, trip
from bench.target import Target

QUESTIONS = {"links": "", "links_cable": " over a cable"}
"""Name → what is said of it."""
OVER_DDS = (
    (LINK_TCP, trip(LARGEST), 0.75),
    (LINK_TCP, CARRYING, 0.7),
    (LINK_TLS, CARRYING, 2.0),
    (LINK_TLS_NEWER, CARRYING, 2.0),
)
BESIDE = ((LINK_TCP, ZENOH_TCP), (LINK_TLS, ZENOH_TLS), (LINK_TLS_NEWER, ZENOH_TLS))
ROWS = (*map(trip, SIZES), *map(one_way, SIZES), WHOLE)

LIMITS: dict[tuple[str, str], str] = {
    (LINK_TCP, trip(LARGEST)): "the kernel, with its two copies, takes two thirds of the nodes' time",
    (LINK_TCP, CARRYING): "two copies of the kernel 33 %, changes from one thread to another 18 %",
    (LINK_TLS, CARRYING): "AES-GCM of OpenSSL 3.0 at both ends 60 %, the kernel 31 %; see a newer one",
}
"""System and row → what stands in the way where it is missed, from a profile."""

LINK_TARGETS = (
    *(
        Target(
            f"{system}, {row}: at most {limit} × the node over DDS",
            ("links", system, row),
            limit,
            over=(("links", RTMW, row),),
            limited_by=LIMITS.get((system, row), ""),
        )
        for system, row, limit in OVER_DDS
    ),
    *(
        Target(
            f"{system}{where}, {row}: at most 1 × {other}",
            (question, system, row),
            1.0,
            over=((question, other, row),),
            limited_by=LIMITS.get((system, row), ""),
        )
        for question, where in QUESTIONS.items()
        for system, other in BESIDE
        for row in ROWS
    ),
)
