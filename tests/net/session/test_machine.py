"""The core of a session keeps its rules whatever programs and wire do: machine.py has the model."""

from __future__ import annotations

import pytest
from hypothesis import Phase, settings

from tests.net.session.machine import STORIES, tell
from tests.net.session.mutants import MUTANTS, OF_ORDER
from tests.whole import sample

UNTIL_HARM = settings(STORIES, max_examples=3000, phases=[Phase.generate], database=None, derandomize=True)
"""The same stories each time: whether a mutant is found is no matter of luck."""
LONGER = ("a reset gives credit back", "credit is said again after a cut")
"""Rules without which a session stands still, at the end of longer stories: wire.py has those."""
RULES = {rule: mutant for rule, mutant in (MUTANTS | OF_ORDER).items() if rule not in LONGER}


# Proves G208.
def test_whatever_programs_and_wire_do_each_byte_goes_when_it_is_due_within_its_credit_the_most_urgent_first() -> None:
    tell(STORIES)


@pytest.mark.parametrize("rule", sample(RULES, 2))
def test_the_machine_sees_a_rule_that_is_missing(rule: str) -> None:
    with RULES[rule](), pytest.raises(Exception, match=r"(?s)."):
        tell(UNTIL_HARM)
