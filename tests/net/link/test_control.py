"""Which topics cross by a link: two controls in a world of chance (world.py), and what each rule of them prevents."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from cyclonedds.idl import make_idl_struct

from rtmw.net.link import effects as do
from rtmw.net.link import outgoing
from rtmw.net.link.control import Control
from rtmw.net.link.matching import wanted_of
from rtmw.net.link.messages import (
    CHANGED,
    WANTED_MOST,
    Answer,
    Close,
    Denied,
    Hello,
    Interest,
    Message,
    Open,
    pack,
    read,
)
from rtmw.net.neighbours import LocalTopic, Publishing, Subscribing
from rtmw.net.security.rights import Rights
from rtmw.net.security.rules import Rule, RuleTable
from rtmw.qos import Reliability
from rtmw.types import ANY, resolve
from tests.net.link.chance import run
from tests.net.link.mutants import MUTANTS, harm


def test_just_what_is_published_wanted_and_allowed_crosses_and_each_message_once() -> None:
    seen = sum((run(seed) for seed in range(60)), start=Counter[str]())
    for what in (
        "OpenOut",
        "AdjustOut",
        "LeaveOut",
        "StayOut",
        "DropOut",
        "OpenIn",
        "DrainIn",
        "CloseIn",
        "steady",
        "PartOut",
        "parted",
    ):
        assert seen[what] > 0, what


@pytest.mark.parametrize("rule", MUTANTS)
def test_the_world_sees_a_rule_that_is_missing(rule: str) -> None:
    assert harm(rule, range(3000)) is not None


PEER, OTHER = "rtmw://plant/press-7", "rtmw://plant/hub"
PUBLISHER = Publishing(resolve(bytes), Reliability.RELIABLE, 3, 8, 0, 0)
SUBSCRIBER = Subscribing(ANY, Reliability.RELIABLE, 8, 0, 0, 0)


class All:
    """Settings that let every topic pass."""

    def leaves(self, topic: str) -> bool:
        return True

    enters = leaves


def said(effects: list[do.Effect]) -> list[Message | None]:
    return [read(effect.data) for effect in effects if isinstance(effect, do.Say)]


def allowing(**verbs: tuple[str, ...]) -> Rights:
    return Rights(RuleTable((Rule(("rtmw://plant/press-*",), verbs),)))


def an_open(route: int = 1, topic: str = "a", **changes: Any) -> bytes:
    made = Open(route, topic, Reliability.RELIABLE, 3, 8, 0, 0, resolve(bytes).description)
    return pack(replace(made, **changes))


def test_a_peer_that_asks_for_what_it_may_not_have_is_told_why_and_counted_once() -> None:
    rights = allowing(subscribe=("plan/*",))
    control = Control(PEER, rights, All())
    control.see({"a": LocalTopic((PUBLISHER,), ())}, {"a"})
    interest = pack(Interest("a", wanted_of([SUBSCRIBER])))
    assert said(control.heard(interest)) == [Denied("a", "subject", "no rule allows this peer to subscribe it")]
    assert control.heard(pack(Interest("a", ()))) == []
    assert said(control.see({"a": LocalTopic((PUBLISHER, PUBLISHER), ())}, {"a"})) == []
    assert rights.causes() == {"subject": 1}


def test_a_peer_that_does_not_check_itself_is_refused_what_it_may_not_bring() -> None:
    """Its own `{node}` only: another's is denied, though it has subscribers here."""
    rights = allowing(publish=("{node}/*",))
    control = Control(PEER, rights, All())
    local = {name: LocalTopic((), (SUBSCRIBER,)) for name in ("press-7/a", "press-8/a")}
    assert said(control.see(local, [*local])) == [Interest("press-7/a", wanted_of([SUBSCRIBER]))]
    (answer,) = said(control.heard(an_open(1, "press-8/a")))
    assert answer == Answer(1, "subject", "no rule allows this peer to publish it")
    assert [type(effect) for effect in control.heard(an_open(2, "press-7/a"))] == [do.OpenIn, do.Say]
    assert rights.causes() == {"subject": 1}


def test_topics_of_rtmw_itself_never_cross() -> None:
    control = Control(PEER, allowing(publish=("*",), subscribe=("*",)), All())
    assert said(control.see({"rtmw/node": LocalTopic((PUBLISHER,), (SUBSCRIBER,))}, {"rtmw/node"})) == []
    (answer,) = said(control.heard(an_open(1, "rtmw/node")))
    assert isinstance(answer, Answer)
    assert answer.cause == "own"


@pytest.mark.parametrize(
    ("topic", "changes", "cause"),
    [("b", {}, "unwanted"), ("a", {"description": b"no type"}, "type"), ("a", {"description": b""}, "type")],
)
def test_what_nobody_wants_and_what_cannot_be_read_is_refused(topic: str, changes: Any, cause: str) -> None:
    control = Control(PEER, allowing(publish=("*",)), All())
    control.see({"a": LocalTopic((), (SUBSCRIBER,))}, {"a"})
    (answer,) = said(control.heard(an_open(1, topic, **changes)))
    assert isinstance(answer, Answer)
    assert (answer.cause, bool(answer.why)) == (cause, True)


@pytest.mark.parametrize(
    ("messages", "words"),
    [
        ([an_open(5), an_open(5)], "route 5 is opened after route 5"),
        ([an_open(5), an_open(4)], "route 4 is opened after route 5"),
        ([an_open(1), an_open(2), an_open(3)], "route 3 is opened beside others"),
        ([an_open(1), pack(Close(2, 0))], "route 2 is closed, and was not opened"),
        ([pack(Answer(1, "", ""))], "an answer to route 1, which was not opened"),
        ([b"GET / HTTP/1.1"], "not JSON"),
        ([pack(Hello(UUID(int=1), 1, 1, 1, "", 0, 0, "", 0, 1))], "hello in the middle of a line"),
    ],
)
def test_a_peer_that_breaks_the_protocol_ends_its_line_and_is_not_answered_again(
    messages: list[bytes], words: str
) -> None:
    control = Control(PEER, allowing(publish=("*",)), All())
    control.see({"a": LocalTopic((), (SUBSCRIBER,))}, {"a"})
    effects = [effect for message in messages for effect in control.heard(message)]
    assert isinstance(effects[-1], do.Over)
    assert words in effects[-1].words
    assert control.heard(an_open(9)) == []


def test_of_routes_of_one_lane_the_last_one_is_opened_when_the_first_has_ended() -> None:
    control = Control(PEER, allowing(publish=("*",)), All())
    control.see({"a": LocalTopic((), (SUBSCRIBER,))}, {"a"})
    assert said(control.heard(an_open(1))) == [Answer(1, "", "")]
    assert control.heard(pack(Close(1, 7))) == [do.DrainIn(1, 7)]
    assert control.heard(an_open(2)) == []
    assert control.heard(pack(Close(2, 0))) == []
    assert control.heard(an_open(3)) == []
    closed, opened, told = control.drained(1)
    assert isinstance(closed, do.CloseIn)
    assert isinstance(opened, do.OpenIn)
    assert said([told]) == [Answer(3, "", "")]


def test_a_peer_may_not_want_more_topics_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outgoing, "TOPICS_MOST", 3)
    control = Control(PEER, allowing(subscribe=("*",)), All())
    wanted = wanted_of([SUBSCRIBER])
    answers = [said(control.heard(pack(Interest(f"t{n}", wanted)))) for n in range(4)]
    assert answers[:3] == [[], [], []]
    assert answers[3] == [Denied("t3", "crowd", "a peer may want 3 topics")]


def test_new_ceilings_hold_at_once_for_a_route_that_is_open_whatever_the_peer_does() -> None:
    rights = allowing(publish=("*",))
    control = Control(PEER, rights, All())
    control.see({"a": LocalTopic((), (SUBSCRIBER,))}, {"a"})
    control.heard(an_open(1))
    rights.swap(RuleTable((Rule(("*",), {"publish": ("*",)}, max_size=100),)))
    (adjusted,) = control.obey(All())
    assert isinstance(adjusted, do.AdjustIn)
    assert (adjusted.route, adjusted.verdict.ceilings) == (1, (7, 100, 0))
    assert control.obey(All()) == []


def test_a_route_is_opened_again_when_somebody_wants_kept_messages_too() -> None:
    control = Control(PEER, allowing(publish=("*",)), All())
    control.see({"a": LocalTopic((), (SUBSCRIBER,))}, {"a"})
    control.heard(an_open(1, history=3))
    more = LocalTopic((), (SUBSCRIBER, replace(SUBSCRIBER, history=2)))
    _, answer = said(control.see({"a": more}, {"a"}))
    assert isinstance(answer, Answer)
    assert (answer.route, answer.cause) == (1, CHANGED)
    assert said(control.see({"a": more}, {"a"})) == []
    control.heard(pack(Close(1, 0)))
    control.heard(an_open(2, history=3))
    _, opened, _ = control.drained(1)
    assert isinstance(opened, do.OpenIn)
    assert opened.asked.history == 2


def test_many_types_of_one_topic_are_wanted_as_any() -> None:
    types = [resolve(make_idl_struct(f"T{n}", f"test.T{n}", {"x": int})) for n in range(WANTED_MOST + 1)]
    few = wanted_of([replace(SUBSCRIBER, type=type) for type in types[:WANTED_MOST]])
    assert len(few) == WANTED_MOST
    (any_,) = wanted_of([replace(SUBSCRIBER, type=type, history=n) for n, type in enumerate(types)])
    assert (any_.type, any_.history) == (None, WANTED_MOST)
