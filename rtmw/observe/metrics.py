"""Prometheus metrics of a domain: how full its pool and tables are, what its topics carry, and who drops or is behind.

`rtmw metrics` and the metrics server of a node show these. Not imported by `rtmw.observe`: prometheus_client is only
needed here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from rtmw.domain import Domain
from rtmw.errors import RtmwError
from rtmw.observe.activity import MISSES, REFUSALS
from rtmw.observe.books import TableUse, examine, tables
from rtmw.observe.services import RelayActivity, RelayAgent, TransferActivity, logs, relay, transfers
from rtmw.observe.views import PublisherView, SubscriberView, TopicView, program, topics
from rtmw.qos import PRIORITIES

View = PublisherView | SubscriberView
Ends = tuple[list[str], list[View]]
"""Labels, and the endpoints that have them."""
Family = type[CounterMetricFamily] | type[GaugeMetricFamily]
COUNTER: Final = CounterMetricFamily
GAUGE: Final = GaugeMetricFamily

_TOPIC: Final = ("domain", "topic")
_QUEUE: Final = ("domain", "service", "node")
_ENDPOINT: Final = (*_TOPIC, "program", "pid")

_OF_TOPICS: Final[tuple[tuple[Family, str, str, Callable[[TopicView], int]], ...]] = (
    (COUNTER, "rtmw_topic_messages", "Messages that were published", lambda view: view.published),
    (COUNTER, "rtmw_topic_bytes", "Payload bytes that were published", lambda view: view.bytes),
    (GAUGE, "rtmw_topic_queued_messages", "Messages that lie in its queues", lambda view: sum(view.queued)),
    (GAUGE, "rtmw_topic_pool_bytes", "What these take of the pool", lambda view: view.pool_bytes),
    (GAUGE, "rtmw_topic_publishers", "Publishers of this host", lambda view: len(view.publishers)),
    (GAUGE, "rtmw_topic_subscribers", "Subscribers of this host", lambda view: len(view.subscribers)),
)
_Row = tuple[Family, str, str, str]
"""A metric of an endpoint: its family, its name, its help text, and the field of the view that it shows."""
_OF_PUBLISHERS: Final[tuple[_Row, ...]] = (
    (COUNTER, "rtmw_publisher_messages", "Messages that a program published", "published"),
)
_OF_SUBSCRIBERS: Final[tuple[_Row, ...]] = (
    (COUNTER, "rtmw_subscriber_messages", "Messages that a program took", "received"),
    (GAUGE, "rtmw_subscriber_behind_messages", "Messages in the queues that it gets and has not taken", "behind"),
    (COUNTER, "rtmw_subscriber_missed_deadlines", "Times that no message came by the deadline", "deadlines_missed"),
    (COUNTER, "rtmw_subscriber_lapses", "Times that the lease of a RELIABLE subscriber ran out", "lapses"),
)

_OF_TRANSFERS: Final[tuple[_Row, ...]] = (
    (GAUGE, "rtmw_transfers_parked", "Transfers that have not ended", "parked"),
    (GAUGE, "rtmw_transfers_parked_bytes", "Bytes of their bodies", "body_bytes"),
    (GAUGE, "rtmw_transfers_dead_letters", "Transfers that were delivered too often, or whose receiver ended", "dead"),
    (GAUGE, "rtmw_transfers_open_transactions", "Transactions that are open", "transactions"),
    (COUNTER, "rtmw_transfers_accepted", "Transfers that the core has accepted", "accepted"),
    (COUNTER, "rtmw_transfers_consumed", "Transfers that were consumed", "consumed"),
    (COUNTER, "rtmw_transfers_failed", "Transfers that expired, or were refused or cancelled", "failed"),
    (COUNTER, "rtmw_transfers_redelivered", "Letters that were handed over once more", "redelivered"),
)

_OF_AGENTS: Final[tuple[tuple[str, str, Callable[[RelayAgent], float | None]], ...]] = (
    ("connected", "1: the agent has a connection, else 0", lambda one: one.connected),
    ("waiting_orders", "Orders for an agent that have not ended", lambda one: one.waiting),
    ("sent_orders", "Of them, sent and not confirmed", lambda one: one.in_flight),
    ("oldest_seconds", "Age of the oldest of them", lambda one: one.oldest),
    ("stamp_skew_seconds", "How far its stamps are ahead of the relay's clock", lambda one: one.skew),
)

_LOG: Final = ("log", "node")
_MEMBER: Final = (*_LOG, "member")
_LAGS: Final = ("bytes", "seconds")
_OF_LOGS: Final[tuple[tuple[Family, str, str, Callable[[Mapping[str, Any]], float]], ...]] = (
    (GAUGE, "is_master", "1: this node is the master of the log, else 0", lambda row: row["role"] == "master"),
    (GAUGE, "has_master", "1: this node knows a master of the log, else 0", lambda row: row["master"] != ""),
    (GAUGE, "epoch", "Of its master; 0: this node follows none", lambda row: row["epoch"]),
    (COUNTER, "switches", "Times that this node became the master", lambda row: row["switches"]),
    (GAUGE, "members", "Nodes that keep it", lambda row: len(row["members"])),
    (GAUGE, "in_sync", "Of them, those that have all that was answered", lambda row: len(row["in_sync"])),
    (GAUGE, "min_insync", "So many have to be in sync, at least", lambda row: row["min_insync"]),
    (GAUGE, "earliest_position", "Of the first record of this copy", lambda row: row["earliest"]),
    (GAUGE, "checkpoint_position", "Up to where all in sync have it", lambda row: row["checkpoint"]),
    (GAUGE, "committed_position", "Up to where it may be read here", lambda row: row["committed"]),
    (GAUGE, "end_position", "Behind the last record of this copy", lambda row: row["end"]),
    (GAUGE, "checkpoint_age_seconds", "For which the checkpoint has not risen", lambda row: row["checkpoint_age"]),
    (GAUGE, "queued_appends", "Appends that wait at the master", lambda row: row["queue"]),
    (GAUGE, "oldest_append_seconds", "Age of the oldest of them", lambda row: row["oldest"]),
    (GAUGE, "cached_bytes", "Bytes of it in the control store", lambda row: row["cached"]),
    (COUNTER, "pending", "Appends that this node has answered PENDING", lambda row: row["pending"]),
    (GAUGE, "disk_full", "1: the disk of this copy is full, else 0", lambda row: row["is_full"]),
    (GAUGE, "risks", "Sentences of `rtmw log status` on what is at risk", lambda row: len(row["words"])),
)


def collect(number: int) -> Iterator[Metric]:
    """Every metric of a domain, read from the region without taking part in it.

    Of a domain that does not exist, or cannot be read, there is only `rtmw_up` with the value 0. For any thread.
    """
    up = GaugeMetricFamily("rtmw_up", "1: the domain exists and can be read, else 0", labels=("domain",))
    try:
        with Domain(number, observe=True) as domain:
            views, used, core = topics(domain), tables(domain, examine(domain)), transfers(domain)
            orders, kept = relay(domain), logs(domain)
    except RtmwError:
        up.add_metric([str(number)], 0)
        yield up
        return
    up.add_metric([str(number)], 1)
    yield up
    yield from _of_tables(str(number), used)
    yield _queued(str(number), views)
    yield from _of_topics(str(number), views)
    yield from _of_endpoints(str(number), views)
    if core is not None:
        yield from _of_core(str(number), core)
    if orders is not None:
        yield from _of_relay(str(number), orders)
    if kept is not None:
        yield from of_logs(kept.told, kept.silent)


def of_logs(told: Mapping[str, Any], silent: float = 0.0) -> Iterator[Metric]:
    """The replicated logs of a node. `told`: as of LogsActivity."""
    node, rows = told["node"], told["logs"]
    quiet = GAUGE("rtmw_log_silent_seconds", "Since the service of logs has told this", labels=("node",))
    quiet.add_metric([node], silent)
    served = GAUGE("rtmw_log_served", "1: this node serves the log; 0: it cannot", labels=_LOG)
    for name, value in {**dict.fromkeys(told["troubles"], 0), **{row["name"]: 1 for row in rows}}.items():
        served.add_metric([name, node], value)
    yield from (quiet, served)
    for family, name, what, value_of in _OF_LOGS:
        found = family(f"rtmw_log_{name}", what, labels=_LOG)
        for row in rows:
            found.add_metric([row["name"], node], value_of(row))
        yield found
    in_sync = GAUGE("rtmw_log_member_in_sync", "1: the member is in sync, else 0", labels=_MEMBER)
    lags = {unit: GAUGE(f"rtmw_log_lag_{unit}", "What a member has not acknowledged", labels=_MEMBER) for unit in _LAGS}
    for row in rows:
        for member in row["members"]:
            in_sync.add_metric([row["name"], node, member], member in row["in_sync"])
        for member, lag in row["lag"].items():
            for unit, gauge in lags.items():
                gauge.add_metric([row["name"], node, member], lag[unit])
    yield from (in_sync, *lags.values())


def _of_relay(domain: str, told: RelayActivity) -> Iterator[Metric]:
    rows = COUNTER("rtmw_relay_rows", "Rows of its record since its process began", labels=("domain", "kind"))
    for kind, number in told.rows.items():
        rows.add_metric([domain, kind], number)
    yield rows
    silent = GAUGE("rtmw_relay_silent_seconds", "Since the relay has told this", labels=("domain",))
    silent.add_metric([domain], told.silent)
    full = GAUGE("rtmw_relay_disk_full", "1: the relay has no room for more orders, else 0", labels=("domain",))
    full.add_metric([domain], 1 if told.full else 0)
    yield from (silent, full)
    for name, what, value in _OF_AGENTS:
        found = GAUGE(f"rtmw_relay_{name}", what, labels=("domain", "agent"))
        for one in told.agents:
            if (seen := value(one)) is not None:
                found.add_metric([domain, one.name], seen)
        yield found


def _of_core(domain: str, core: TransferActivity) -> Iterator[Metric]:
    for family, name, what, field in _OF_TRANSFERS:
        found = family(name, what, labels=("domain",))
        found.add_metric([domain], getattr(core.counters, field))
        yield found
    silent = GAUGE("rtmw_transfers_silent_seconds", "Since the core of transfers has told this", labels=("domain",))
    silent.add_metric([domain], core.silent)
    full = GAUGE("rtmw_transfers_disk_full", "1: the disk of the core has no room for more, else 0", labels=("domain",))
    full.add_metric([domain], 1 if core.full else 0)
    depth = GAUGE("rtmw_transfers_queue_letters", "Transfers of a service that have not ended", labels=_QUEUE)
    oldest = GAUGE("rtmw_transfers_queue_oldest_seconds", "Age of the oldest of them", labels=_QUEUE)
    for queue in core.queues:
        depth.add_metric([domain, queue.service, queue.node], queue.transfers)
        oldest.add_metric([domain, queue.service, queue.node], queue.oldest)
    yield from (silent, full, depth, oldest)


def _of_tables(domain: str, used: Sequence[TableUse]) -> Iterator[Metric]:
    for name, what in (("size", "Size"), ("used", "Taken"), ("reserved", "Of it, for priorities above 3 alone")):
        entries = GaugeMetricFamily(f"rtmw_table_{name}", f"{what}, entries of a table", labels=("domain", "table"))
        pool = GaugeMetricFamily(f"rtmw_pool_{name}_bytes", f"{what}, bytes of the pool", labels=("domain",))
        for table in used:
            if table.name == "pool":
                pool.add_metric([domain], getattr(table, name))
            else:
                entries.add_metric([domain, table.name], getattr(table, name))
        yield from (entries, pool)
    kept = GaugeMetricFamily(
        "rtmw_pool_kept_bytes",
        "Beside those used: blocks that are kept for reuse",
        labels=("domain",),
    )
    kept.add_metric([domain], sum(table.kept for table in used))
    yield kept


def _queued(domain: str, views: Sequence[TopicView]) -> Metric:
    found = GaugeMetricFamily("rtmw_queued_messages", "Messages in the queues", labels=("domain", "priority"))
    for priority in range(PRIORITIES):
        found.add_metric([domain, str(priority)], sum(view.queued[priority] for view in views))
    return found


def _of_topics(domain: str, views: Sequence[TopicView]) -> Iterator[Metric]:
    for family, name, what, value in _OF_TOPICS:
        found = family(name, what, labels=_TOPIC)
        for view in views:
            found.add_metric([domain, view.name], value(view))
        yield found


def _of_endpoints(domain: str, views: Sequence[TopicView]) -> Iterator[Metric]:
    """Endpoints of one topic in one process are added up: a series has labels of its own."""
    publishers = [one for view in views for one in _by_process(domain, view.name, view.publishers)]
    subscribers = [one for view in views for one in _by_process(domain, view.name, view.subscribers)]
    for family, name, what, counter in _OF_PUBLISHERS:
        yield _summed(family(name, what, labels=_ENDPOINT), publishers, counter)
    yield _by_cause("rtmw_publisher_refusals", "Messages that could not be published", publishers, REFUSALS)
    for family, name, what, counter in _OF_SUBSCRIBERS:
        yield _summed(family(name, what, labels=_ENDPOINT), subscribers, counter)
    yield _by_cause("rtmw_subscriber_drops", "Messages that a program did not get", subscribers, MISSES)


def _by_process(domain: str, topic: str, views: Iterable[View]) -> Iterator[Ends]:
    for named, ends in groupby(sorted(views, key=_names), key=_names):
        yield [domain, topic, *named], [*ends]


def _names(view: View) -> tuple[str, str]:
    return program(view.process), str(view.pid)


def _summed(family: CounterMetricFamily | GaugeMetricFamily, ends: Iterable[Ends], counter: str) -> Metric:
    for labels, views in ends:
        family.add_metric(labels, sum(getattr(view, counter) for view in views))
    return family


def _by_cause(name: str, what: str, ends: Sequence[Ends], causes: Sequence[str]) -> Metric:
    family = CounterMetricFamily(name, what, labels=(*_ENDPOINT, "cause"))
    for cause in causes:
        _summed(family, [([*labels, cause], views) for labels, views in ends], cause)
    return family
