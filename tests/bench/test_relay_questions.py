"""The questions of the relay: each has its figure, and a message queue that is not installed has a reason."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from bench import quorum_queue
from bench.cases import RTMW, CannotMeasure, Case
from bench.log_peers.server import answers
from bench.questions import relay_rate, relay_start, relay_urgent, relay_verdict
from bench.relay_targets import RELAY_TARGETS
from bench.relays import SIZE, Line
from bench.stage import Stage

SECONDS = {"seconds": 0.2}


def test_deliveries_with_both_receipts_are_counted() -> None:
    case = Case("", (RTMW,), {"seconds": 1.0})
    assert relay_rate.measure(Stage(), RTMW, case)[RTMW].value > 0


def test_an_order_of_the_bench_has_the_size_that_it_says() -> None:
    assert len(Line("S0").order("R0")) == SIZE


def test_a_verdict_is_beside_a_lookup_in_one_process() -> None:
    found = relay_verdict.measure(Stage(), RTMW, Case("", (RTMW,), {"batches": 2}))
    assert found[RTMW].value > found[relay_verdict.LOOKUP].value > 0


# Proves R2.
def test_an_urgent_order_is_slower_in_a_flood_without_control_than_with_it() -> None:
    short = SECONDS | {"warm": 0.3, "rest": 0.3}
    cases = {case.name: case for case in relay_urgent.cases(quick=True)}
    with_control, without = (
        relay_urgent.measure(Stage(), RTMW, Case(name, (RTMW,), cases[name].options | short))[RTMW].value
        for name in (relay_urgent.CONTROLLED, relay_urgent.UNCONTROLLED)
    )
    assert 0 < with_control < without


def test_a_relay_starts_with_all_orders_that_wait() -> None:
    assert relay_start.measure(Stage(), RTMW, Case("", (RTMW,), {"orders": 1000}))[RTMW].value > 0


def test_a_message_queue_that_is_not_installed_has_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quorum_queue, "PROGRAMS", "/none")
    monkeypatch.setenv("PATH", "/none")
    with pytest.raises(CannotMeasure, match="apt-get install"):
        relay_rate.measure(Stage(), relay_rate.RABBITMQ, relay_rate.cases(quick=True)[0])


def test_a_message_queue_ends_with_its_block_and_so_does_what_it_started(tmp_path: Path) -> None:
    pytest.importorskip("aio_pika", reason="the environment of the bench has it")
    if not Path(quorum_queue.PROGRAMS).exists():
        pytest.skip("rabbitmq-server is not installed")
    with quorum_queue.serving(tmp_path) as (node,):
        assert answers(socket.AF_INET, ("127.0.0.1", node.port))()
        case: Any = Case("", (relay_rate.RABBITMQ,), SECONDS)
    assert not answers(socket.AF_INET, ("127.0.0.1", node.port))()
    for system in (relay_rate.RABBITMQ, relay_rate.RECEIPTS):
        assert relay_rate.measure(Stage(), system, case)[system].value > 0
    mine = [path for path in Path("/proc").glob("[0-9]*/cmdline") if str(tmp_path).encode() in path.read_bytes()]
    assert mine == []


def test_wishes_are_told_apart_from_what_is_held() -> None:
    wishes = [target.what for target in RELAY_TARGETS if target.what.startswith("a wish: ")]
    assert len(wishes) == 2
