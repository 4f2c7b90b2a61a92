"""The history checker finds each anomaly that is planted, names it, and finds nothing in a history without one."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.replica.history import check

History = list[dict[str, Any]]


def sound() -> History:
    """Five appends one after the other, of which the fourth is pending and resolved, and three reads."""
    at = [0, 10, 20, None, 30]
    answers = ["written", "cached", "written", "pending", "written"]
    history: History = [
        {"op": "append", "client": "c", "id": str(n), "asked": n, "answered": n + 0.5, "answer": answers[n],
         "position": at[n]} for n in range(5)
    ]  # fmt: skip
    records = [[0, "0"], [10, "1"], [20, "2"], [30, "4"]]
    history.append({"op": "resolve", "client": "c", "id": "3", "asked": 5, "answered": 5.1, "answer": "absent"})
    history += [
        {"op": "read", "client": "r", "asked": 2.6, "answered": 2.7, "from": 0, "to": 20, "records": records[:2],
         "follows": True},
        {"op": "read", "client": "r", "asked": 6, "answered": 6.1, "from": 20, "to": 40, "records": records[2:],
         "follows": True, "is_fresh": True},
        {"op": "read", "client": "z", "asked": 9, "answered": 9.1, "from": 0, "to": 40, "records": records,
         "is_final": True},
    ]  # fmt: skip
    return history


PLANTED: dict[str, Callable[[History], object]] = {
    "lost": lambda h: [h[n]["records"].remove([20, "2"]) for n in (-1, -2)],
    "doubled": lambda h: h[-1].update(to=50, records=[*h[-1]["records"], [40, "2"]]),
    "untrue": lambda h: h[-1].update(to=50, records=[*h[-1]["records"], [40, "3"]]),
    "two values": lambda h: h[-3]["records"].__setitem__(1, [10, "3"]),
    "skipped": lambda h: h[-3]["records"].pop(1),
    "backwards": lambda h: h[-2].update({"from": 10, "records": [[10, "1"], *h[-2]["records"]]}),
    "reordered": lambda h: (h[1].update(position=20), h[2].update(position=10)),
    "invented": lambda h: h[-1].update(to=50, records=[*h[-1]["records"], [40, "9"]]),
    "stale": lambda h: h[-2].update(to=30, records=h[-2]["records"][:1]),
}


def test_a_history_without_an_anomaly_has_none() -> None:
    assert check(sound()) == []


@pytest.mark.parametrize("kind", PLANTED)
# Proves G385, S9.
def test_an_anomaly_that_is_planted_is_found_and_named(kind: str) -> None:
    history = sound()
    PLANTED[kind](history)
    assert kind in {one.kind for one in check(history)}


def test_the_command_line_says_what_is_wrong_in_each_file(tmp_path: Path) -> None:
    good, bad = sound(), sound()
    PLANTED["lost"](bad)
    for name, history in (("good", good), ("bad", bad)):
        (tmp_path / name).write_text("\n".join(map(json.dumps, history)))
    command = [sys.executable, "-m", "tests.replica.history", *(str(tmp_path / name) for name in ("good", "bad"))]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert "good: 9 entries, 0 anomalies" in done.stdout
    assert "  lost: '2' was written" in done.stdout


def test_the_checker_takes_no_more_than_a_constant_number_of_steps_an_entry() -> None:
    history: History = [
        {
            "op": "append",
            "client": "c",
            "id": str(n),
            "asked": n,
            "answered": n + 0.5,
            "answer": "written",
            "position": n,
        }
        for n in range(20_000)
    ]
    history.append({
        "op": "read", "client": "r", "asked": 30_000, "answered": 30_001, "from": 0, "to": 20_000, "is_final": True,
        "records": [[n, str(n)] for n in range(20_000)],
    })  # fmt: skip
    assert check(history) == []
