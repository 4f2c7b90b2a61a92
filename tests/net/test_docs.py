"""docs/node.md keeps its word: its program runs as it stands there, and its tables are whole."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from prometheus_client.core import CounterMetricFamily, InfoMetricFamily
from prometheus_client.metrics_core import Metric

from rtmw.net.metrics import of_node
from rtmw.net.settings import NODE, Settings
from rtmw.net.status import make_waiting
from rtmw.observe.node_status import Keys, Links
from tests.child import Spawn
from tests.net.hosts import PATIENCE, Host
from tests.page import programs

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "node.md").read_text()
NAMES: Final[dict[type[Metric], str]] = {CounterMetricFamily: "{}_total", InfoMetricFamily: "{}_info"}
"""How a scrape has the name of a metric."""
ON_LOOPBACK = re.compile(r"`CYCLONEDDS_URI='(.*)'`")


def test_its_program_reads_what_the_publisher_of_the_readme_publishes(
    hosts: tuple[Host, Host], domain_id: int, spawn: Spawn
) -> None:
    host = hosts[0]
    host.start()
    (reading,), environment = programs(ROOT / "docs" / "node.md"), ON_LOOPBACK.search(TEXT)
    assert environment
    assert reading.count("DomainParticipant(0)") == 1
    assert reading.count("10_000_000_000") == 1
    reading = reading.replace("DomainParticipant(0)", f"DomainParticipant({host.dds_domain})")
    reading = reading.replace("10_000_000_000", "60_000_000_000")
    child = spawn(f"import os\nos.environ['CYCLONEDDS_URI'] = {environment[1]!r}\n{reading}")
    publishing = next(block for block in programs(ROOT / "README.md") if "Publisher(" in block)
    assert publishing.count("timeout=10)") == 1
    publisher = spawn(
        f"import os\nos.environ['RTMW_DOMAIN'] = '{host.number}'\n"
        + publishing.replace("timeout=10)", f"timeout={PATIENCE})")
        + "    publisher.publish(Speed(2, 0.0))\n    input()\n"
    )
    assert child.line(PATIENCE) == "1 1000.0", publisher.stderr


def test_every_setting_is_explained() -> None:
    assert NODE.documented() in TEXT, "python -m tests.settings_tables writes it again"


def test_every_metric_is_explained() -> None:
    named = {NAMES.get(type(one), "{}").format(one.name) for one in every_metric()}
    assert len(named) > 20
    assert {name for name in named if f"`{name}`" not in TEXT} == set()


def every_metric() -> Iterator[Metric]:
    """Of a node that has keys and links."""
    return of_node(replace(make_waiting(Settings(), "", 0.0), keys=Keys(expires=0.0), links=Links()))
