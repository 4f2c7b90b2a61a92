"""`rtmw top`: what it makes of the activity."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

import rtmw
from rtmw import observe
from rtmw.cli.terminal import as_text
from rtmw.cli.top import SORT, drops, pool_words, record, top_table
from rtmw.observe import TopicActivity
from tests.cli.command import Run
from tests.cli.views import SUBSCRIBER, topic


def activity(*views: observe.TopicView) -> list[TopicActivity]:
    meter = observe.Meter()
    meter.read([], 0.0)
    return meter.read(views, 1.0)


BUSY = topic("busy", 100, subscribers=(replace(SUBSCRIBER, behind=9),))


def test_a_row_tells_rates_drops_latency_and_who_is_behind() -> None:
    lines = as_text(top_table(7, activity(BUSY, topic("calm", 2)))).splitlines()
    assert lines[0] == "Domain 7: 2 topics, 102 messages/s, 1020 B/s"
    row = lines[2]
    for part in ("busy", "100", "1000 B/s", "999 ns", "2.1 µs", "3 missed, 2 expired", "panel (22): 9"):
        assert part in row
    assert "panel" not in lines[3]


def test_a_terminal_that_is_too_low_gets_the_first_rows_and_how_many_more_there_are() -> None:
    found = activity(*(topic(f"t{number}") for number in range(20)))
    assert len(top_table(0, found, most=20).rows) == 20
    cut = top_table(0, found, most=5)
    assert [row[0] for row in cut.rows] == ["t0", "t1", "t2", "t3", "... 16 more"]
    assert cut.title.startswith("Domain 0: 20 topics")


@pytest.mark.parametrize("key", [key for key in SORT if key != "topic"])
def test_every_key_sorts_the_largest_first(key: str) -> None:
    calm = topic("a calm one", 1, subscribers=(), publishers=())
    found = sorted(activity(calm, replace(BUSY, queued=(5,) * 8)), key=SORT[key])
    assert found[0].topic == "busy"
    assert sorted(found, key=SORT["topic"])[0].topic == "a calm one"


def test_a_topic_that_is_thinned_as_asked_comes_behind_one_that_loses_messages() -> None:
    thinned = topic("thinned", subscribers=(replace(SUBSCRIBER, missed=0, thinned=1000),), publishers=())
    losing = topic("losing", subscribers=(replace(SUBSCRIBER, missed=9, thinned=0),), publishers=())
    found = sorted(activity(thinned, losing), key=SORT["drops"])
    assert [one.topic for one in found] == ["losing", "thinned"]


def test_drops_are_shown_the_most_frequent_cause_first() -> None:
    assert drops({}) is None
    assert drops({"missed": 1, "timed_out": 30}) == "30 timed out, 1 missed"


def test_the_record_for_programs_has_the_percentiles_in_seconds() -> None:
    (busy,) = activity(BUSY)
    found = record(busy)
    assert found["behind"] == {"pid": 22, "messages": 9}
    assert found["latency"]["p50"] == pytest.approx(999e-9)
    assert found["dropped"]["missed"] == 3
    assert found["subscribers"][0]["latency"]["count"] == 4


def test_the_title_tells_what_of_the_pool_is_used_and_what_is_only_kept(domain: rtmw.Domain) -> None:
    assert pool_words(observe.examine(domain)) == "; pool 0 B of 8.0 MiB used"
    with rtmw.Publisher("t", domain=domain, depth=1) as publisher, rtmw.Subscriber("t", domain=domain) as subscriber:
        publisher.publish_many([bytes(1 << 20)] * 4)
        assert pool_words(observe.examine(domain)) == "; pool 4.0 MiB of 8.0 MiB used"
        subscriber.take_many(4)
        publisher.publish(bytes(1 << 20))
        subscriber.take()
        assert pool_words(observe.examine(domain)).endswith(" kept for reuse")


def test_events_are_printed_as_lines_or_as_json(run: Run, domain: rtmw.Domain) -> None:
    def come() -> None:
        while not done.wait(0.12):
            with rtmw.Publisher("pump/1", domain=domain):
                done.wait(0.12)  # what comes and goes between two looks is not told

    for more, told in ((), "came pump/1"), (("--json",), '"kind": "CAME"'):
        done = threading.Event()
        thread = threading.Thread(target=come)
        thread.start()
        status, out, err = run("top", "--events", "--count", "8", *more)
        done.set()
        thread.join()
        assert (status, err) == (0, "")
        assert len(out.splitlines()) == 8
        assert told in out
