"""What a scrape of metrics says, read by the strict parser of OpenMetrics: of anything amiss it raises ValueError."""

from __future__ import annotations

from collections.abc import Iterable
from io import StringIO
from urllib.request import Request, urlopen

from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from prometheus_client.parser import text_fd_to_metric_families

Labels = frozenset[tuple[str, str]]
Samples = dict[tuple[str, Labels], float]

_ACCEPT = {"Accept": "application/openmetrics-text; version=1.0.0"}
_PATIENCE_S = 60.0


def scraped(url: str) -> Samples:
    """Every sample by name and labels."""
    with urlopen(Request(url, headers=_ACCEPT), timeout=_PATIENCE_S) as answer:
        assert answer.headers["Content-Type"].startswith("application/openmetrics-text"), answer.headers
        return _samples(text_string_to_metric_families(answer.read().decode()))


def parsed(text: str) -> Samples:
    """The same of the text of Prometheus, as `rtmw metrics` prints it."""
    return _samples(text_fd_to_metric_families(StringIO(text)))


def _samples(families: Iterable[Metric]) -> Samples:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in families
        for sample in family.samples
    }


def labelled(**labels: str) -> Labels:
    return frozenset(labels.items())
