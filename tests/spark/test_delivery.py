"""The options of a write."""

from __future__ import annotations

import pytest

import rtmw
from rtmw.spark.sink import Delivery, delivery_of


def test_options_are_text_and_their_case_does_not_matter() -> None:
    found = delivery_of({"Topic": "a/b", "domain": "7", "RATE": "2.5", "priority": "3", "reliability": "timely"})
    assert found == Delivery(7, "a/b", rate=2.5, priority=3, reliability=rtmw.Reliability.TIMELY)


def test_the_domain_is_that_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RTMW_DOMAIN", "17")
    assert delivery_of({}).domain == 17


def test_what_spark_itself_passes_is_none_of_ours() -> None:
    assert delivery_of({"path": "x", "checkpointLocation": "y", "domain": "0"}) == Delivery()


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("rate", "-1", r"rate=-1\.0 is not possible; it must be a number from 0"),
        ("rate", "nan", "rate=nan is not possible"),
        ("max_blocking", "inf", "max_blocking=inf is not possible"),
        ("domain", "x", "option domain='x' is not possible; it must be a number"),
        ("time", "sequence", "rows are paced by log_time or publish_time"),
        ("reliability", "maybe", "reliability 'maybe' does not exist; there are TIMELY, ADAPTIVE, RELIABLE"),
        ("rat", "1", "option 'rat' is not known; there are domain, topic"),
    ],
)
def test_an_impossible_option_is_named_with_what_is_possible(name: str, text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        delivery_of({name: text})
