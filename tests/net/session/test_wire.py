"""Two nodes on a wire that delays, splits, cuts, turns bits and loses: wire.py has the wire and the oracle."""

from __future__ import annotations

import pytest

from tests.net.session.mutants import MUTANTS, harm
from tests.net.session.wire import run
from tests.whole import sample

SEEDS = range(30)


# Proves G207.
def test_each_byte_comes_once_and_in_order_within_its_credit_whatever_the_wire_does() -> None:
    met = sum((run(seed) for seed in SEEDS), start=type(run(0))())
    for what in ("cut", "asymmetric cut", "outage", "restart", "turned bit", "Gone", "WasReset", "closed 6", "drop 5"):
        assert met[what] > 0, what


@pytest.mark.parametrize("rule", sample(MUTANTS, 2))
# Proves G209.
def test_the_wire_sees_a_rule_that_is_missing(rule: str) -> None:
    assert harm(rule, range(300)) is not None
