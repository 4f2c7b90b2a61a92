"""docs/node-metrics.md from the metrics that a node serves: `python -m tests.net.metrics_page` writes it again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from prometheus_client.core import CounterMetricFamily, InfoMetricFamily
from prometheus_client.metrics_core import Metric

from rtmw.net.metrics import of_node
from rtmw.net.settings import Settings
from rtmw.net.status import make_waiting
from rtmw.observe.node_status import Keys, Links

PAGE: Final = Path(__file__).parents[2] / "docs" / "node-metrics.md"
HEAD: Final = """# Metrics of a node

A node with `metrics_port` serves these beside [those of its domain](metrics.md). `python -m tests.net.metrics_page`
writes this page from the help texts of the metrics. `peer`, `host`, `pid` and `domain` name the other node, which "its"
means; those of `rtmw_node_info` name this one. `direction` is `in` or `out`, seen from this host. `change` is what a
DDS program did with an instance. `what` is a part of the [budget of a peer](links.md#settings), of which `max_topics`
bounds *wanted*, *published* and *programs*. [node.md](node.md#looking-into-it) and
[links.md](links.md#what-may-a-peer-and-why) have the causes.

| name | labels | |
|---|---|---|
"""
NAMES: Final[dict[type[Metric], str]] = {CounterMetricFamily: "{}_total", InfoMetricFamily: "{}_info"}
"""How a scrape has the name of a metric."""


def every_metric() -> Iterator[Metric]:
    """Yields the metrics of a node that has keys and links."""
    return of_node(replace(make_waiting(Settings(), "", 0.0), keys=Keys(expires=0.0), links=Links()))


def labels(metric: Metric) -> str:
    names = getattr(metric, "_labelnames", ()) or sorted({name for sample in metric.samples for name in sample.labels})
    return " ".join(f"`{name}`" for name in names)


def written() -> str:
    """Returns the page as it should be."""
    rows = sorted(
        (NAMES.get(type(one), "{}").format(one.name), labels(one), one.documentation) for one in every_metric()
    )
    return HEAD + "".join(f"| `{name}` | {labels} | {what} |\n" for name, labels, what in rows)


if __name__ == "__main__":
    PAGE.write_text(written())
