"""Connections that came to no link, as the doctor hears of them."""

from __future__ import annotations

from rtmw.net.link.links import ADDRESSES_MOST, RECENT_S, SHOWN_MOST, TurnedAway
from tests.clocks import Moved


def addresses(turned_away: TurnedAway) -> list[str]:
    return [row.address for row in turned_away.recent()]


def test_each_address_is_told_with_its_last_cause_and_how_often_it_came_for_which() -> None:
    turned_away = TurnedAway()
    for cause in ("expired", "revoked", "expired", "revoked"):
        turned_away.note("10.0.0.7", cause, f"it is {cause}")
    (row,) = turned_away.recent()
    assert (row.cause, row.why, row.count) == ("revoked", "it is revoked", 4)
    assert row.causes == {"expired": 2, "revoked": 2}


def test_the_newest_are_told_first_and_no_more_than_a_few() -> None:
    turned_away = TurnedAway()
    for number in range(SHOWN_MOST + 2):
        turned_away.note(f"10.0.0.{number}", "refused", "no rule")
    turned_away.note("10.0.0.3", "refused", "no rule")
    assert addresses(turned_away) == ["10.0.0.3", "10.0.0.6", "10.0.0.5", "10.0.0.4", "10.0.0.2"]


def test_strangers_of_many_addresses_make_it_no_larger() -> None:
    turned_away = TurnedAway()
    turned_away.note("first", "refused", "no rule")
    for number in range(ADDRESSES_MOST):
        turned_away.note(str(number), "refused", "no rule")
    turned_away.note("first", "refused", "no rule")
    assert turned_away.recent()[0].count == 1, "it had been forgotten"


def test_whoever_has_a_link_now_or_came_long_ago_is_told_no_more() -> None:
    clock = Moved()
    turned_away = TurnedAway(clock)
    for address in ("10.0.0.7", "10.0.0.8"):
        turned_away.note(address, "refused", "no rule")
        clock.pass_by(RECENT_S / 2)
    turned_away.forget("10.0.0.8")
    assert addresses(turned_away) == ["10.0.0.7"]
    clock.pass_by(1)
    assert addresses(turned_away) == []
