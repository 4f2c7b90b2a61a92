"""Programs are called by their files."""

from __future__ import annotations

import pytest

from rtmw.observe import program
from rtmw.observe.views import PARKED


@pytest.mark.parametrize(
    ("process", "named"),
    [
        ("python3 -u panel.py --wide", "panel.py"),
        ("pump -v", "pump"),
        ("python -m fleet.boat --key secret", "fleet.boat"),
        ("python -X dev -W error panel.py secret", "panel.py"),
        ("python -c import os; password = 'secret'", "python -c"),
        ("python", "python"),
        (PARKED, PARKED),
        ("", ""),
    ],
)
def test_a_program_is_named_without_its_interpreter_and_arguments(process: str, named: str) -> None:
    assert program(process) == named


@pytest.mark.parametrize(
    ("process", "named"),
    [
        ("python rtmw topic echo camera --json", "rtmw topic echo"),
        ("rtmw record camera -o monday", "rtmw record"),
        ("rtmw", "rtmw"),
    ],
)
def test_of_rtmw_itself_it_is_said_which_command_it_is(process: str, named: str) -> None:
    assert program(process) == named
