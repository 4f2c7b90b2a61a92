"""`rtmw topic info`: what it makes of the views."""

from __future__ import annotations

from dataclasses import replace

from rtmw.cli.show import as_text
from rtmw.cli.topic import dropped, mismatches, publishers_table, subscribers_table
from rtmw.qos import Reliability
from tests.cli.views import PUBLISHER, SUBSCRIBER, topic


def test_a_pair_of_the_same_type_and_reliability_matches() -> None:
    assert mismatches(topic()) == []


def test_a_subscriber_of_any_type_matches_every_publisher() -> None:
    assert mismatches(topic(subscribers=(replace(SUBSCRIBER, type_name="*"),))) == []


def test_different_types_do_not_match_and_both_are_named() -> None:
    (line,) = mismatches(topic(subscribers=(replace(SUBSCRIBER, type_name="telemetry::Cpu"),)))
    assert "publisher 11 and subscriber 22" in line
    assert "bytes is published" in line
    assert "telemetry::Cpu is wanted" in line


def test_a_reliable_subscriber_does_not_match_a_publisher_that_offers_less() -> None:
    view = topic(
        publishers=(PUBLISHER, replace(PUBLISHER, pid=12, reliability=Reliability.RELIABLE)),
        subscribers=(replace(SUBSCRIBER, reliability=Reliability.RELIABLE),),
    )
    assert mismatches(view) == ["publisher 11 and subscriber 22: RELIABLE is wanted and only ADAPTIVE is offered."]


def test_drops_are_the_sum_of_all_causes_but_for_what_the_subscriber_asked_to_be_spared() -> None:
    view = replace(SUBSCRIBER, missed=1, expired=20, unmatched=300, thinned=4000)
    assert dropped(view) == 321


def test_the_tables_of_endpoints_have_a_column_for_every_cause_of_loss() -> None:
    publishers, subscribers = as_text(publishers_table(topic())), as_text(subscribers_table(topic()))
    assert "timed out" in publishers
    assert "exhausted" in publishers
    for cause in ("missed", "expired", "thinned", "unmatched"):
        assert cause in subscribers
