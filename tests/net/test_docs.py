"""docs/node.md keeps its word: its program runs as it stands there, and tables are whole; node-metrics.md, too."""

from __future__ import annotations

import re
from pathlib import Path

from rtmw.net.settings import NODE
from tests.child import Spawn
from tests.net.hosts import PATIENCE, Host
from tests.net.metrics_page import PAGE, every_metric, written
from tests.page import programs

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "node.md").read_text()
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
    assert PAGE.read_text() == written(), "python -m tests.net.metrics_page writes it again"
    assert len(list(every_metric())) > 20
