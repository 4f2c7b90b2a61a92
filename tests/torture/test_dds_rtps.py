"""The OMG's cases: a sample of the run, and the page that it writes."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.net.foreign.build import python_modules
from tests.torture.dds_rtps.__main__ import SHAPES, place
from tests.torture.dds_rtps.cases import cases
from tests.torture.dds_rtps.ends import Place
from tests.torture.dds_rtps.page import PAGE, Row, write_page
from tests.torture.dds_rtps.runs import PUBLISHES, SUBSCRIBES, run

SAMPLE = {
    "Test_Reliability_4": ("pass", "pass"),
    "Test_Ownership_1": ("pass", "n/a: rtmw has no ownership"),
    "Test_Durability_17": ("pass", "pass"),
}
"""What has to come of them, where rtmw publishes, and where it subscribes."""


@pytest.fixture(scope="module")
def beside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("rtps")
    python_modules(folder, SHAPES)
    sys.path.insert(0, str(folder))
    with place("cyclonedds", folder) as here:
        yield here
    sys.path.remove(str(folder))


@pytest.mark.parametrize("name", SAMPLE)
def test_a_case_is_run_on_both_sides(beside: Place, name: str) -> None:
    case = next(case for case in cases() if case.name == name)
    assert tuple(run(case, beside, role) for role in (PUBLISHES, SUBSCRIBES)) == SAMPLE[name]


def test_the_page_has_each_case_once_and_says_what_came_of_it() -> None:
    rows = re.findall(
        r"^\| (Test_\w+_)(\d+)(?: to (\d+))? \|.*?((?: \| (?:pass|fail|n/a)(?: \(\d+\))?)+) \|$", PAGE.read_text(), re.M
    )
    named = [f"{kind}{n}" for kind, first, last, _ in rows for n in range(int(first), int(last or first) + 1)]
    assert named == [case.name for case in cases()]
    assert {said.count("|") for *_, said in rows} == {4}


def test_the_page_is_written_from_what_was_seen(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    ends = [("a", PUBLISHES), ("b", SUBSCRIBES)]
    write_page([Row("Test_1", "much", dict(zip(ends, ("pass", "fail: nothing came"), strict=True)))], page)
    text = page.read_text()
    assert "| Test_1 | much | pass | fail (1) |" in text
    assert "1. nothing came" in text
