"""Documents that real nodes told, and what the commands show of each: `--json` to the byte, and text but for widths.

`node_documents/NAME.json` is the document, as it went over the topic. `NAME.shown` is all that is shown of it; with
RTMW_SHOWN_ANEW=1 in the environment this test writes it again.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector, CollectorRegistry

import rtmw
from rtmw.clock import CLOCK, Clock
from rtmw.net.metrics import of_node
from rtmw.net.settings import STATUS_TOPIC
from rtmw.observe.node_status import NodeStatus
from rtmw.publisher import OwnPublisher
from rtmw.text.strict_json import packed
from tests.cli.command import Run

FOLDER = Path(__file__).with_name("node_documents")
NAMES = ("waiting", "idle", "services", "dds", "deaf", "links", "dialled", "cut")
NOW = 1796040600.0
"""When they are shown: seconds since the epoch."""
OF_THIS_HOST = {"node", "interface", "datagrams", "receive buffer", "UDP ports", "links are accepted at"}
"""Checks of the doctor that look at the machine."""


class _Told(Collector):
    def __init__(self, document: str) -> None:
        self._document = document

    def collect(self) -> Iterator[Metric]:
        return of_node(NodeStatus.of(json.loads(self._document)))


def metrics(document: str) -> str:
    registry = CollectorRegistry()
    registry.register(_Told(document))
    return generate_latest(registry).decode()


def shown(document: str, run: Run, domain: rtmw.Domain) -> str:
    """All that commands show of a document, with the ages and process ids of the document in place of the test's."""
    pid = str(json.loads(document)["pid"])
    living = document.replace(f'{{"pid": {pid}', f'{{"pid": {os.getpid()}', 1)
    living = re.sub(r'"told_ns": \d+', f'"told_ns": {CLOCK.monotonic_ns()}', living)
    parts = list[str]()
    with OwnPublisher(STATUS_TOPIC, domain=domain, history=1) as node:
        node.publish(living.encode())
        asked = "--domain", str(domain.id)
        for words in (("node", "info"), ("node", "list"), ("graph",), ("node", "doctor")):
            for more in ((), ("--json",)):
                if words != ("node", "doctor") or more:
                    parts.append(f"---- {' '.join([*words, *more])}\n{run(*words, *asked, *more)[1]}")
    told = json.loads(parts.pop().partition("\n")[2])
    checks = [one for one in told["checks"] if one["name"] not in OF_THIS_HOST]
    parts += ["---- node doctor --json\n", *(f"{json.dumps(one)}\n" for one in checks)]
    parts.append(f"---- metrics\n{metrics(document)}")
    text = "".join(parts).replace(f'"domain": {domain.id}, "t', '"domain": 0, "t')
    text = re.sub(" {2,}", "  ", re.sub(rf"\b{os.getpid()}\b", pid, text))  # columns are as wide as process ids
    text = re.sub(r'"told_ns": \d+', re.search(r'"told_ns": \d+', document)[0], text)  # type: ignore[index]
    return re.sub(r'"silent_s": [-0-9.e]+\}\n', '"silent_s": 0}\n', text).replace(f"Domain {domain.id}:", "Domain 0:")


@pytest.mark.parametrize("name", NAMES)
def test_what_is_shown_of_a_recorded_document_stays_as_it_is(
    name: str, run: Run, domain: rtmw.Domain, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Clock, "wall", lambda _: NOW)
    document = (FOLDER / f"{name}.json").read_text().rstrip("\n")
    found = shown(document, run, domain)
    file = FOLDER / f"{name}.shown"
    if os.environ.get("RTMW_SHOWN_ANEW"):
        file.write_text(found)
    assert found == file.read_text()


@pytest.mark.parametrize("name", NAMES)
def test_a_document_that_is_read_and_written_again_is_the_same_to_the_byte(name: str) -> None:
    document = (FOLDER / f"{name}.json").read_text().rstrip("\n")
    assert packed(NodeStatus.of(json.loads(document))) == document
