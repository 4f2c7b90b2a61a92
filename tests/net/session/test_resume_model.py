"""The rules of resume hold in every order of steps and cuts, and each is needed: resume_model.py."""

from __future__ import annotations

import pytest

from tests.net.session.resume_model import RULES, search


def test_no_order_of_steps_and_cuts_doubles_loses_or_stops_anything() -> None:
    states, wrong = search(frozenset(RULES))
    assert wrong is None
    assert states > 500


@pytest.mark.parametrize("rule", RULES)
# Proves G209.
def test_without_a_rule_something_goes_wrong(rule: str) -> None:
    assert search(frozenset(RULES) - {rule})[1] is not None
