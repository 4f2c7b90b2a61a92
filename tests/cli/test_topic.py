"""`rtmw topic info`: what it makes of the views."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest

import rtmw
from rtmw.cli.terminal import as_text
from rtmw.cli.topic import dropped, mismatches, publishers_table, subscribers_table
from rtmw.qos import Reliability
from tests.cli.command import Run
from tests.cli.views import PUBLISHER, SUBSCRIBER, topic


def test_a_pair_of_the_same_type_and_reliability_matches() -> None:
    assert mismatches(topic()) == []


def test_a_subscriber_of_any_type_matches_every_publisher() -> None:
    assert mismatches(topic(subscribers=(replace(SUBSCRIBER, type_name="*"),))) == []


def test_different_types_do_not_match_and_both_are_named() -> None:
    (line,) = mismatches(topic(subscribers=(replace(SUBSCRIBER, type_name="telemetry::Cpu"),)))
    assert "publisher pump (11) and subscriber panel (22)" in line
    assert "bytes is published" in line
    assert "telemetry::Cpu is wanted" in line


def test_a_reliable_subscriber_does_not_match_a_publisher_that_offers_less() -> None:
    view = topic(
        publishers=(PUBLISHER, replace(PUBLISHER, pid=12, reliability=Reliability.RELIABLE)),
        subscribers=(replace(SUBSCRIBER, reliability=Reliability.RELIABLE),),
    )
    assert mismatches(view) == [
        "publisher pump (11) and subscriber panel (22): RELIABLE is wanted and only ADAPTIVE is offered."
    ]


def test_drops_are_the_sum_of_all_causes_but_for_what_the_subscriber_asked_to_be_spared() -> None:
    view = replace(SUBSCRIBER, missed=1, expired=20, unmatched=300, thinned=4000)
    assert dropped(view) == 321


def test_the_tables_of_endpoints_show_every_quality_of_service_with_its_unit() -> None:
    publisher = replace(PUBLISHER, history=5, lifetime_ns=2_000_000_000, max_blocking=0.25)
    subscriber = replace(
        SUBSCRIBER, history=6, min_interval_ns=20_000_000, deadline_ns=1_500_000_000, lease_ns=3_000_000_000
    )
    view = topic(publishers=(publisher,), subscribers=(subscriber,))
    for table, shown in (
        (publishers_table(view), {"history": 5, "lifetime": "2 s", "max blocking": "250 ms"}),
        (
            subscribers_table(view),
            {"history": 6, "min interval": "20 ms", "deadline": "1.5 s", "lease": "3 s"},
        ),
    ):
        assert shown.items() <= dict(zip(table.columns, table.rows[0], strict=True)).items()


@pytest.mark.parametrize(("seconds", "shown"), [(0.0, "0 s"), (math.inf, "no limit"), (None, None)])
def test_a_publisher_that_never_waits_or_waits_without_limit_or_may_do_either_is_told_apart(
    seconds: float | None, shown: str | None
) -> None:
    table = publishers_table(topic(publishers=(replace(PUBLISHER, max_blocking=seconds),)))
    assert table.rows[0][list(table.columns).index("max blocking")] == shown


def test_the_tables_of_endpoints_have_a_column_for_every_cause_of_loss() -> None:
    publishers, subscribers = as_text(publishers_table(topic())), as_text(subscribers_table(topic()))
    assert "timed out" in publishers
    assert "exhausted" in publishers
    for cause in ("missed", "expired", "thinned", "unmatched"):
        assert cause in subscribers


def test_clear_forgets_what_a_topic_keeps_and_says_how_much(run: Run, domain: rtmw.Domain) -> None:
    with rtmw.Publisher("map", domain=domain, history=2) as publisher:
        assert publisher.publish_many([b"1", b"2"]) == 2
    told = "map: late subscribers get none of the 2 messages that were kept.\n"
    assert run("topic", "clear", "map") == (0, told, "")
    with rtmw.Subscriber("map", domain=domain, history=2) as subscriber:
        assert subscriber.take() is None
    assert json.loads(run("topic", "clear", "map", "--json")[1]) == {"topic": "map", "cleared": 0}
    status, out, err = run("topic", "clear", "mop")
    assert (status, out, "did you mean map?" in err) == (1, "", True)
