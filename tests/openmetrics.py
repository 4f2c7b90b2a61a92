"""What a scrape of metrics says, read by the strict parser of OpenMetrics: of anything amiss it raises ValueError."""

from __future__ import annotations

from urllib.request import Request, urlopen

from prometheus_client.openmetrics.parser import text_string_to_metric_families

Labels = frozenset[tuple[str, str]]
Samples = dict[tuple[str, Labels], float]

_ACCEPT = {"Accept": "application/openmetrics-text; version=1.0.0"}
_PATIENCE_S = 60.0


def scraped(url: str) -> Samples:
    """Every sample by name and labels."""
    with urlopen(Request(url, headers=_ACCEPT), timeout=_PATIENCE_S) as answer:
        assert answer.headers["Content-Type"].startswith("application/openmetrics-text"), answer.headers
        families = [*text_string_to_metric_families(answer.read().decode())]
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in families
        for sample in family.samples
    }


def labelled(**labels: str) -> Labels:
    return frozenset(labels.items())
