"""What is kept of topics that no longer cross: what was counted of them, and nothing else."""

from __future__ import annotations

from rtmw.net.topics import MOST, OTHERS, Ended
from rtmw.observe.node_status import Crossing


def test_a_topic_of_which_something_was_counted_has_a_row_with_all_counters() -> None:
    ended = Ended()
    ended.add("pump", {"sent": 3, "bytes": 40, "missed": 0})
    ended.add("pump", {"sent": 2, "bytes": 10, "missed": 1})
    ended.add("valve", {"sent": 0, "bytes": 0, "missed": 1})
    assert ended.rows() == [
        Crossing("pump", counters={"sent": 5, "bytes": 50, "missed": 1}),
        Crossing("valve", counters={"sent": 0, "bytes": 0, "missed": 1}),
    ]


def test_silent_topics_leave_nothing_and_push_no_other_out() -> None:
    ended = Ended()
    ended.add("pump", {"sent": 3})
    for number in range(2 * MOST):
        ended.add(f"silent/{number}", {"sent": 0})
    assert ended.rows() == [Crossing("pump", counters={"sent": 3})]
    assert ended.changes == 2 * MOST + 1


def test_topics_that_ended_before_the_last_ones_are_summed_up() -> None:
    ended = Ended()
    for number in range(MOST + 2):
        ended.add(f"topic/{number}", {"sent": 1, "missed": 0})
    rows = ended.rows()
    assert (len(rows), rows[0].topic, rows[-1]) == (
        MOST + 1,
        "topic/2",
        Crossing(OTHERS, counters={"sent": 2, "missed": 0}),
    )
