"""What a target is: a limit for one figure, alone or over others of the same round."""

from __future__ import annotations

from dataclasses import dataclass

from bench.cases import RTMW
from bench.results import Key


@dataclass(frozen=True)
class Target:
    what: str
    figure: Key
    limit: float
    over: tuple[Key, ...] = ()
    """The figure is divided by the best of these; without any the limit is in the question's own unit."""
    summed: bool = False
    """It is divided by the sum of `over` instead."""
    percentile: str = ""
    """What is limited is this percentile of single messages, over the figure of the same round."""
    at_least: bool = False
    """The limit is a lower one, as for rates: then the best is the highest."""
    yardstick: tuple[Key, float] | None = None
    """The limit is meant for a machine on which that figure is this much; on a slower one it is as much larger."""
    limited_by: str = ""
    """What stands in the way where it is missed, from a profile."""


def ours(question: str, case: str) -> Key:
    return (question, case, RTMW)
