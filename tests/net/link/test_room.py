"""How much a node takes from its bus for a link, in a world of chance (room_world.py), and what each rule prevents."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from unittest.mock import patch

import pytest

from tests.harm import first_harm
from tests.net.link.room_world import HELD_MOST, WINDOW, Receiving, Sending, World, run


def _takes_what_the_look_ahead_holds(self: World, one: Sending) -> bool:
    return one.room > 0


def _takes_for_each_route_alone(_: World, one: Sending) -> bool:
    return one.in_flight + sum(one.taken) < one.room


def _sends_within_the_room_of_now(self: World, one: Sending) -> bool:
    return bool(one.taken) and one.in_flight < one.room


def _shares_nothing(self: World, one: Receiving) -> int:
    return WINDOW - sum(one.waits)


MUTANTS: dict[str, Callable[[], AbstractContextManager[object]]] = {
    "a message is taken where the peer has room": lambda: patch.object(
        World, "may_take", _takes_what_the_look_ahead_holds
    ),
    "what was taken is sent": lambda: patch.object(World, "may_send", _sends_within_the_room_of_now),
    "all routes share one look-ahead": lambda: patch.object(World, "may_take", _takes_for_each_route_alone),
    "all routes share what the receiver holds": lambda: patch.object(World, "room", _shares_nothing),
}


# Proves G239.
def test_a_sender_that_ends_delivers_all_that_it_has_taken_and_nothing_is_dropped() -> None:
    worlds = [run(seed) for seed in range(20)]
    assert max(world.most for world in worlds) > HELD_MOST, "the limit is reached"


@pytest.mark.parametrize("rule", MUTANTS)
# Proves G239.
def test_the_world_sees_a_rule_of_room_that_is_missing(rule: str) -> None:
    assert first_harm(MUTANTS[rule](), run, range(200)) is not None
