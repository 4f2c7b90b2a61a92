"""Prometheus metrics of links, from the document of a node (service.py)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric

_PEER: Final = ("peer", "host", "domain")
_GAUGES: Final = (
    ("up", "1: the link is up; 0: it is cut, and may come back within the lease", "up", 1.0),
    ("twin_up", "1: copies of urgent messages go over a third connection", "twin", 1.0),
    ("round_trip_seconds", "There and back over the link, measured last", "round_trip_ns", 1e-9),
    ("clock_offset_seconds", "How far its clock is ahead of ours", "clock_offset_ns", 1e-9),
    ("queued_bytes", "Bytes that the kernel has and that have not left", "queued_bytes", 1.0),
    ("unacknowledged_bytes", "Bytes that the peer has not acknowledged yet", "unacknowledged_bytes", 1.0),
    ("certificate_expiry_time_seconds", "When the peer's certificate expires, since the epoch", "expires", 1.0),
)
_COUNTERS: Final = (
    ("sent_bytes", "Bytes that left over the link, with frames", "sent_bytes"),
    ("received_bytes", "Bytes that came over the link, with frames", "received_bytes"),
    ("resumes", "How often the link was cut and went on", "resumes"),
    ("copies", "Copies of urgent messages that left over the twin of the link", "copies"),
    ("copies_left_out", "Copies that were not sent: the twin was behind, or beyond its share", "copies_left_out"),
    ("copies_first", "Copies that came before their message: it was late, or lost on the way", "copies_first"),
    ("copies_passed_over", "Copies that came behind their message, or out of turn", "copies_passed_over"),
)


def of_links(links: dict[str, Any] | None) -> Iterator[Metric]:
    """Metrics of a node's links; none if the node has no links."""
    if links is None:
        return
    peers = [([str(peer[label] or "") for label in _PEER], peer) for peer in links["peers"]]
    for name, what, field, unit in _GAUGES:
        gauge = GaugeMetricFamily(f"rtmw_node_link_{name}", what, labels=_PEER)
        for labels, peer in peers:
            if peer[field] is not None:
                gauge.add_metric(labels, peer[field] * unit)
        yield gauge
    for name, what, field in _COUNTERS:
        counter = CounterMetricFamily(f"rtmw_node_link_{name}", what, labels=_PEER)
        for labels, peer in peers:
            counter.add_metric(labels, peer[field])
        yield counter
    topics = GaugeMetricFamily(
        "rtmw_node_link_denied_topics", "Topics that the peer denies to this node", labels=(*_PEER, "verb", "cause")
    )
    for labels, peer in peers:
        for row in peer["denied"]:
            topics.add_metric([*labels, row["verb"], row["cause"]], row["topics"])
    yield topics
    labels_of_budget = (*_PEER, "what")
    taken = GaugeMetricFamily(
        "rtmw_node_link_budget_taken", "What the nodes of the peer have taken of this host", labels=labels_of_budget
    )
    beyond = CounterMetricFamily(
        "rtmw_node_link_budget_refused", "What the peer asked for beyond its budget", labels=labels_of_budget
    )
    for labels, peer in peers:
        for row in peer["budget"]:
            taken.add_metric([*labels, row["what"]], row["taken"])
            beyond.add_metric([*labels, row["what"]], row["refused"])
    yield taken
    yield beyond
    refused = CounterMetricFamily("rtmw_node_link_refused", "Connections that came to no link", labels=("cause",))
    for cause, number in links["refused"].items():
        refused.add_metric([cause], number)
    yield refused
    denied = CounterMetricFamily(
        "rtmw_node_denials", "What the rules denied to peers", labels=("peer", "verb", "cause")
    )
    for row in links["denials"]:
        denied.add_metric([row["peer"], row["verb"], row["cause"]], row["number"])
    yield denied
