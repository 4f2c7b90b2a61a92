"""Programs at the other end of a link are told to people there, as far as its rules let them know."""

from __future__ import annotations

import pytest

from rtmw.net.link.control import Control
from rtmw.net.link.messages import MOST, PROGRAMS_MOST, Programs, Using, pack
from rtmw.net.link.routes import ENDLESS, Account
from rtmw.net.security.rules import Rights, Rule, RuleTable
from rtmw.qos import Reliability
from tests.net.link.test_control import PEER, All, said

OUT = Using(7, "pump.py", True, "bytes", Reliability.RELIABLE)
INTO = Using(8, "shown.py", False, "*", Reliability.TIMELY)


class Closed(All):
    """Settings that let no topic pass."""

    def leaves(self, topic: str) -> bool:
        return False

    enters = leaves


def control(account: Account | None = None, **allows: str) -> Control:
    rule = Rule(("*",), {verb: (topic,) for verb, topic in allows.items()})
    return Control(PEER, Rights(RuleTable((rule,))), All(), account=account)


@pytest.mark.parametrize(
    ("allows", "told"),
    [({"subscribe": "a"}, (OUT,)), ({"publish": "a"}, (INTO,)), ({"subscribe": "b", "publish": "b"}, None)],
)
# Proves G230.
def test_a_peer_hears_of_the_programs_that_its_rights_concern_and_of_no_other(
    allows: dict[str, str], told: tuple[Using, ...] | None
) -> None:
    effects = control(**allows).see_programs("a", (OUT, INTO))
    assert said(effects) == ([] if told is None else [Programs("a", told)])


def test_programs_are_told_when_they_change_and_taken_back_when_settings_keep_the_topic_here() -> None:
    one = control(subscribe="*", publish="*")
    assert said(one.see_programs("a", (OUT, INTO))) == [Programs("a", (OUT, INTO))]
    assert one.see_programs("a", (OUT, INTO)) == []
    assert said(one.see_programs("a", (INTO,))) == [Programs("a", (INTO,))]
    assert [*one.programs.told()] == ["a"]
    one.obey(Closed())
    assert said(one.see_programs("a", (INTO,))) == [Programs("a", ())]
    assert [*one.programs.told()] == []


def test_more_programs_than_a_control_has_room_for_are_left_out() -> None:
    long = Using(7, "\u20ac" * 1000, True, "\u20ac" * 1000, Reliability.RELIABLE)
    for here, most in (((OUT,) * 1000, PROGRAMS_MOST), ((long,) * 10, 9)):
        (effect,) = control(subscribe="*").see_programs("a", here)
        (message,) = said([effect])
        assert isinstance(message, Programs)
        assert 0 < len(message.programs) <= most
        assert len(pack(message)) <= MOST


def test_what_a_peer_tells_is_kept_within_its_budget() -> None:
    one = control(Account(budget=ENDLESS._replace(topics=1)))
    before = one.changes
    assert one.heard(pack(Programs("a", (OUT,)))) == []
    assert (one.programs.there, one.changes) == ({"a": (OUT,)}, before + 1)
    one.heard(pack(Programs("b", (OUT,))))
    assert [*one.programs.there] == ["a"]
    one = control(Account(budget=ENDLESS._replace(names=len(pack(Programs("b", (OUT,)))))))
    one.heard(pack(Programs("b", (OUT,))))
    assert one.programs.there == {"b": (OUT,)}
    one.heard(pack(Programs("b", (OUT, INTO))))
    assert one.programs.there == {}, "there is no room for both, and what was told before is over"
