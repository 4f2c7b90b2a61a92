"""What a publisher and a subscriber here have to be called with for a case, or why rtmw has no such policy."""

from __future__ import annotations

from typing import Any

from rtmw import Reliability
from tests.torture.dds_rtps.cases import Case, Policies

KEPT = 1000
"""Messages that are kept for late readers: DDS' KEEP_ALL."""
LACKING = {
    "exclusive": "rtmw has no ownership",
    "partition": "rtmw has no partitions of its own: it writes and reads for DDS programs in the default one",
    "filter": "rtmw has no content filters",
    "ordered": "rtmw has no presentation; of one publisher all is in order",
    "coherent": "rtmw has no presentation; of one publisher all is in order",
    "scope": "rtmw has no presentation; of one publisher all is in order",
    "ends": "rtmw has no instances",
}


class NotApplicable(Exception):
    """rtmw has no such policy; the words say which."""


def publisher_qos(case: Case) -> dict[str, Any]:
    """Keywords of rtmw.Publisher. Raises NotApplicable."""
    given = case.writer
    _require_none(given)
    if given.get("durable", 0) > 1:
        raise NotApplicable("rtmw keeps messages in memory alone: TRANSIENT_LOCAL")
    if given.get("xcdr") and case.outcome == "incompatible":
        raise NotApplicable("rtmw offers both encodings of XTypes")
    if "deadline" in given and case.outcome == "incompatible":
        raise NotApplicable("a publisher here promises no deadline; its node offers what a reader asks for")
    qos = _common(given)
    if given.get("lifespan"):
        qos["lifetime"] = given["lifespan"]
    return qos


def subscriber_qos(case: Case) -> dict[str, Any]:
    """Keywords of rtmw.Subscriber. Raises NotApplicable."""
    given = case.reader
    _require_none({**given, **({"ends": 1} if "ends" in case.writer else {})})
    if given.get("durable", 0) > 1:
        raise NotApplicable("rtmw asks for TRANSIENT_LOCAL at most")
    if given.get("xcdr") and case.outcome == "incompatible":
        raise NotApplicable("rtmw takes both encodings of XTypes")
    qos = _common(given)
    qos["depth"] = given.get("depth", 2 * case.count * case.colors)
    for policy, keyword in (("interval", "min_interval"), ("deadline", "deadline")):
        if policy in given:
            qos[keyword] = given[policy]
    return qos


def _require_none(given: Policies) -> None:
    for policy, words in LACKING.items():
        if policy in given:
            raise NotApplicable(words)


def _common(given: Policies) -> dict[str, Any]:
    reliability = Reliability.TIMELY if given.get("best_effort") else Reliability.RELIABLE
    qos: dict[str, Any] = {"reliability": reliability}
    if given.get("durable"):
        qos["history"] = KEPT
    if given.get("depth"):
        qos["depth"] = given["depth"]
    return qos
