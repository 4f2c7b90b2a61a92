"""Prometheus metrics of a node: those of its domain, what it says of itself (status.py), and those of its links."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from rtmw.clock import CLOCK
from rtmw.net.http_server import MetricsServer
from rtmw.net.known_nodes import nodes_met
from rtmw.observe.metrics import collect as collect_of_domain
from rtmw.observe.node_status import CARRIED, INSTANCES, WAITS, Crossing, DdsPeer, Keys, Links, NodeStatus
from rtmw.text.units import duration

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


def of_links(links: Links | None) -> Iterator[Metric]:
    """Metrics of a node's links; none if the node has no links."""
    if links is None:
        return
    peers = [([peer.peer or "", peer.host, str(peer.domain or "")], peer) for peer in links.peers]
    for name, what, field, unit in _GAUGES:
        gauge = GaugeMetricFamily(f"rtmw_node_link_{name}", what, labels=_PEER)
        for labels, peer in peers:
            value = getattr(peer, field)
            if value is not None:
                gauge.add_metric(labels, value * unit)
        yield gauge
    for name, what, field in _COUNTERS:
        counter = CounterMetricFamily(f"rtmw_node_link_{name}", what, labels=_PEER)
        for labels, peer in peers:
            counter.add_metric(labels, getattr(peer, field))
        yield counter
    topics = GaugeMetricFamily(
        "rtmw_node_link_denied_topics", "Topics that the peer denies to this node", labels=(*_PEER, "verb", "cause")
    )
    for labels, peer in peers:
        for row in peer.denied:
            topics.add_metric([*labels, row.verb, row.cause], row.topics)
    yield topics
    labels_of_budget = (*_PEER, "what")
    taken = GaugeMetricFamily(
        "rtmw_node_link_budget_taken", "What the nodes of the peer have taken of this host", labels=labels_of_budget
    )
    beyond = CounterMetricFamily(
        "rtmw_node_link_budget_refused", "What the peer asked for beyond its budget", labels=labels_of_budget
    )
    for labels, peer in peers:
        for use in peer.budget:
            taken.add_metric([*labels, use.what], use.taken)
            beyond.add_metric([*labels, use.what], use.refused)
    yield taken
    yield beyond
    refused = CounterMetricFamily("rtmw_node_link_refused", "Connections that came to no link", labels=("cause",))
    for cause, number in links.refused.items():
        refused.add_metric([cause], number)
    yield refused
    denied = CounterMetricFamily(
        "rtmw_node_denials", "What the rules denied to peers", labels=("peer", "verb", "cause")
    )
    for denial in links.denials:
        denied.add_metric([denial.peer, denial.verb, denial.cause], denial.number)
    yield denied


_TOPIC = ("topic", "direction")
_STALE_S = 5.0
"""A node says once a second how it is; one that has not for so long is not well."""


class Metrics(Collector):
    """Serves what it was last told, in a thread of its own."""

    def __init__(self, domain: int, address: str, port: int) -> None:
        """`port` 0: any that is free. Raises RtmwError when it cannot be had."""
        self._domain, self._told = domain, 0.0
        self._latest: NodeStatus | None = None
        self._server = MetricsServer(address, port, self, self._fault)
        self.port = self._server.port

    def tell(self, status: NodeStatus) -> None:
        """Takes the newest document of the node."""
        self._latest, self._told = status, CLOCK.monotonic()

    def close(self) -> None:
        self._server.close()

    def _fault(self) -> str:
        """Why the node is not well; empty: it is."""
        silent = CLOCK.monotonic() - self._told
        return "" if silent < _STALE_S else f"the node has said nothing for {duration(round(silent))}"

    def collect(self) -> Iterator[Metric]:
        """Yields all metrics. It runs in a thread of the server."""
        yield from collect_of_domain(self._domain)
        if self._latest:
            yield from of_node(self._latest)


def of_node(status: NodeStatus) -> Iterator[Metric]:
    """Metrics of what a node says of itself."""
    dds_domain, interface = str(status.dds_domain), status.interface or ""
    about = {"host": status.host, "domain": str(status.domain), "dds_domain": dds_domain, "interface": interface}
    yield InfoMetricFamily("rtmw_node", "The node", value=about)
    for name, what, value in (
        ("start_time_seconds", "When the node was started, since the epoch", status.since),
        ("peers", "Other nodes that are heard, or met over a link", len(nodes_met(status))),
        ("participants", "DDS participants that are known", status.participants),
    ):
        yield GaugeMetricFamily(f"rtmw_node_{name}", what, value=value)
    yield CounterMetricFamily("rtmw_node_swept", "Things that dead programs held, given back", value=status.swept)
    refused = CounterMetricFamily("rtmw_node_refusals", "What came and could not be used", labels=("cause",))
    for cause, number in status.refusals.items():
        refused.add_metric([cause], number)
    yield refused
    stood = CounterMetricFamily(
        "rtmw_node_standstills", "Lanes and participants that stood still, and were made anew", labels=("direction",)
    )
    if status.standstills is not None:
        stood.add_metric(["out"], status.standstills.out)
        stood.add_metric(["in"], status.standstills.in_)
    yield stood
    left = CounterMetricFamily(
        "rtmw_node_undelivered", "Messages that nodes took with them as they ended", labels=_TOPIC
    )
    unacknowledged = GaugeMetricFamily(
        "rtmw_node_undelivered_unacknowledged",
        "1: readers had not acknowledged what a node had sent when it ended, so more may be lost than "
        "rtmw_node_undelivered_total says; else 0",
        labels=_TOPIC,
    )
    for row in status.undelivered:
        left.add_metric([row.topic, row.direction], row.messages)
        unacknowledged.add_metric([row.topic, row.direction], bool(row.unacknowledged_by))
    yield left
    yield unacknowledged
    yield from _of_keys(status.keys)
    yield from of_links(status.links)
    yield from _of_peers(status.peers)
    yield from _of_topics({"out": status.out + status.ended.out, "in": status.in_ + status.ended.in_})


def _of_keys(keys: Keys | None) -> Iterator[Metric]:
    """Metrics of a node's keys; none if the node has no keys."""
    if keys is None:
        return
    warning = "1 if the keys cannot be used, or less than a third of the certificate's lifetime is left; else 0"
    yield GaugeMetricFamily("rtmw_node_keys_warning", warning, value=1 if keys.warning else 0)
    if keys.expires is not None:
        expires = "When the certificate of the node expires, since the epoch"
        yield GaugeMetricFamily("rtmw_node_certificate_expiry_time_seconds", expires, value=keys.expires)


def _of_peers(peers: Iterable[DdsPeer]) -> Iterator[Metric]:
    labels = ("host", "pid", "domain")
    offset = GaugeMetricFamily(
        "rtmw_node_peer_clock_offset_seconds", "How far its clock is ahead of ours", labels=labels
    )
    way = GaugeMetricFamily("rtmw_node_peer_round_trip_seconds", "The shortest way there and back", labels=labels)
    rate = GaugeMetricFamily("rtmw_node_peer_max_rate_bytes", "Bytes a second that may leave towards it", labels=labels)
    for peer in peers:
        values = [peer.host, str(peer.pid), str(peer.domain)]
        if peer.max_rate:
            rate.add_metric(values, peer.max_rate)
        if peer.offset_ns is not None and peer.round_trip_ns is not None:
            offset.add_metric(values, peer.offset_ns / 1e9)
            way.add_metric(values, peer.round_trip_ns / 1e9)
    yield from (offset, way, rate)


def _of_topics(ways: dict[str, tuple[Crossing, ...]]) -> Iterator[Metric]:
    """Types of one topic, and what has ended, are added up: a series needs labels of its own, and only grows."""
    messages = CounterMetricFamily("rtmw_node_messages", "Messages that crossed", labels=_TOPIC)
    size = CounterMetricFamily("rtmw_node_bytes", "Payload bytes that crossed", labels=_TOPIC)
    matched = GaugeMetricFamily("rtmw_node_matched_endpoints", "DDS readers or writers elsewhere", labels=_TOPIC)
    dropped = CounterMetricFamily("rtmw_node_drops", "Messages that were dropped", labels=(*_TOPIC, "cause"))
    waited = CounterMetricFamily("rtmw_node_waits", "Times that something had to wait", labels=(*_TOPIC, "cause"))
    instances = CounterMetricFamily(
        "rtmw_node_instances", "Instances that plain writers let go", labels=(*_TOPIC, "change")
    )
    for way, rows in ways.items():
        for topic, row in _added(rows).items():
            messages.add_metric([topic, way], row.counters.get(CARRIED[way], 0))
            size.add_metric([topic, way], row.counters.get("bytes", 0))
            matched.add_metric([topic, way], row.ends)
            for cause, number in row.drops().items():
                dropped.add_metric([topic, way, cause], number)
            for cause in WAITS:
                if cause in row.counters:
                    waited.add_metric([topic, way, cause], row.counters[cause])
            for change in INSTANCES:
                if change in row.counters:
                    instances.add_metric([topic, way, change], row.counters[change])
    yield from (messages, size, matched, dropped, waited, instances)


def _added(rows: Iterable[Crossing]) -> dict[str, Crossing]:
    found: dict[str, Crossing] = {}
    for row in rows:
        was = found.get(row.topic, Crossing(row.topic))
        counters = {name: was.counters.get(name, 0) + value for name, value in row.counters.items()}
        found[row.topic] = Crossing(row.topic, readers=was.ends + row.ends, counters={**was.counters, **counters})
    return found
