"""Which topics cross by a link: two controls in a world of chance (world.py), and what each rule of them prevents."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any, cast
from uuid import UUID

import pytest
from cyclonedds.idl import make_idl_struct
from hypothesis import given
from hypothesis import strategies as st

from rtmw.net.link import lanes as do
from rtmw.net.link.control import Control
from rtmw.net.link.lanes import wanted_of
from rtmw.net.link.messages import (
    CHANGED,
    VERBS,
    WANTED_MOST,
    Advertise,
    Allowed,
    Answer,
    Close,
    Denied,
    Hello,
    Interest,
    Leaving,
    Message,
    Open,
    pack,
    read,
)
from rtmw.net.link.routes import ENDLESS, Account, Refusal
from rtmw.net.neighbours import LocalTopic, Publishing, Subscribing
from rtmw.net.security.rules import Rights, Rule, RuleTable
from rtmw.qos import Reliability
from rtmw.types import ANY, resolve
from tests.net.link.chance import run
from tests.net.link.mutants import MUTANTS, harm


# Proves G216, G217.
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
        "Advertise",
        "Allowed",
        "Denial",
    ):
        assert seen[what] > 0, what


@pytest.mark.parametrize("rule", MUTANTS)
# Proves G216.
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
    told = list[Message | None]()
    for effect in effects:
        if isinstance(effect, do.Say):
            told.append(read(effect.data))
        elif isinstance(effect, do.OpenOut | do.OpenIn):
            told.append(effect.asks(0) if isinstance(effect, do.OpenOut) else effect.agrees())
    return told


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
    assert [type(effect) for effect in control.heard(an_open(2, "press-7/a"))] == [do.OpenIn]
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
    closed, opened = control.drained(1)
    assert isinstance(closed, do.CloseIn)
    assert said([opened]) == [Answer(3, "", "")]


def test_a_peer_may_not_want_more_topics_than_there_is_room_for() -> None:
    control = Control(PEER, allowing(subscribe=("*",)), All(), account=Account("", ENDLESS._replace(topics=3)))
    wanted = wanted_of([SUBSCRIBER])
    answers = [said(control.heard(pack(Interest(f"t{n}", wanted)))) for n in range(4)]
    assert answers[:3] == [[Allowed(f"t{n}", "subscribe")] for n in range(3)]
    assert answers[3] == [Denied("t3", "crowd", "a peer may want 3 topics (max_topics of [link])")]


def test_a_publishing_end_is_told_whether_its_peer_lets_a_topic_in_and_when_that_changes() -> None:
    rights = allowing(publish=("plan/*",))
    control = Control(PEER, rights, All())
    denied = Denied("a", "subject", "no rule allows this peer to publish it", "publish")
    assert said(control.heard(pack(Advertise("plan/b", True)))) == [Allowed("plan/b", "publish")]
    assert said(control.heard(pack(Advertise("a", True)))) == [denied]
    rights.swap(RuleTable((Rule(("*",), {"publish": ("a",)}),)))
    assert said(control.obey(All())) == [Allowed("a", "publish"), replace(denied, topic="plan/b")]
    assert control.obey(All()) == []
    assert control.heard(pack(Advertise("plan/b", False))) == []
    rights.swap(RuleTable((Rule(("*",), {"publish": ("plan/*",)}),)))
    assert said(control.obey(All())) == [denied]
    assert rights.causes() == {"subject": 3}


# Proves G217.
def test_the_answer_to_who_publishes_is_the_same_whether_anybody_subscribes_here_or_not() -> None:
    answers = list[list[Message | None]]()
    for subscribers in ((), (SUBSCRIBER,)):
        control = Control(PEER, allowing(publish=("b",)), All())
        begun = said(control.see({"a": LocalTopic((), subscribers)}, {"a"}))
        answers.append(begun + said(control.heard(pack(Advertise("a", True)))))
    assert answers[0] == answers[1] == [Denied("a", "subject", "no rule allows this peer to publish it", "publish")]


def test_a_peer_hears_just_of_those_topics_that_it_may_have_and_what_it_says_of_others_means_nothing() -> None:
    control = Control(PEER, allowing(subscribe=("a",)), All())
    topics = {name: LocalTopic((PUBLISHER,), ()) for name in ("a", "b", "rtmw/node")}
    assert said(control.see(topics, [*topics])) == [Advertise("a", True)]
    assert control.heard(pack(Denied("b", "deny", "a rule denies it", "publish"))) == []
    assert control.heard(pack(Denied("a", "deny", "a rule denies it", "publish"))) == [
        do.Denial("a", "deny", "a rule denies it")
    ]
    assert [control.outgoing.why_not(name) for name in topics] == [
        Refusal("deny", "the peer denies it: a rule denies it"), None, None
    ]  # fmt: skip
    assert said(control.see({}, {"a"})) == [Advertise("a", False)]
    assert control.outgoing.why_not("a") is None


def test_a_denial_of_what_is_published_is_no_denial_of_what_is_wanted() -> None:
    control = Control(PEER, allowing(publish=("a",), subscribe=("a",)), All())
    control.see({"a": LocalTopic((PUBLISHER,), (SUBSCRIBER,))}, {"a"})
    control.heard(pack(Denied("a", "deny", "a rule denies it", "publish")))
    assert control.outgoing.why_not("a") is not None
    assert control.incoming.why_not("a") is None
    control.heard(pack(Denied("a", "deny", "a rule denies it")))
    control.heard(pack(Allowed("a", "publish")))
    assert control.outgoing.why_not("a") is None
    assert control.incoming.why_not("a") is not None
    control.heard(pack(Allowed("a", "subscribe")))
    assert control.incoming.why_not("a") is None


def test_a_subscribing_end_hears_that_rules_let_it_have_what_nobody_publishes() -> None:
    rights = allowing(subscribe=("plan/*",))
    control = Control(PEER, rights, All())
    control.heard(pack(Interest("a", wanted_of([SUBSCRIBER]))))
    rights.swap(RuleTable((Rule(("*",), {"subscribe": ("a",)}),)))
    assert said(control.obey(All())) == [Allowed("a", "subscribe")]


def test_topics_that_a_peer_publishes_have_limits_as_those_that_it_wants() -> None:
    account = Account("", ENDLESS._replace(topics=3, names=1000))
    control = Control(PEER, allowing(publish=("*",)), All(), account=account)

    def cause(topic: str) -> str:
        (answer,) = said(control.heard(pack(Advertise(topic, True))))
        return answer.cause if isinstance(answer, Denied) else ""

    assert [cause(f"t{n}") for n in range(4)] == ["", "", "", "crowd"]
    assert cause("t0") == "", "it is known already"
    for n in range(3):
        assert control.heard(pack(Advertise(f"t{n}", False))) == []
    assert [cause(f"{n}" * 400) for n in (1, 2, 3)] == ["", "", "crowd"]


_NAMES = st.sampled_from(["a", "b", "rtmw/node", "x" * 300])
_CAUSES = st.sampled_from(["", "deny", CHANGED, "\x1b[2J"])
_ROUTES = st.integers(1, 4)
_SAID: st.SearchStrategy[Message] = st.one_of(
    st.builds(Interest, _NAMES, st.sampled_from([(), wanted_of([SUBSCRIBER])])),
    st.builds(an_open, _ROUTES, _NAMES, history=st.integers(0, 1)).map(lambda data: cast("Message", read(data))),
    st.builds(Answer, _ROUTES, _CAUSES, _CAUSES),
    st.builds(Close, _ROUTES, st.integers(0, 9)),
    st.builds(Advertise, _NAMES, st.booleans()),
    st.builds(Denied, _NAMES, _CAUSES, _CAUSES, st.sampled_from(VERBS)),
    st.builds(Allowed, _NAMES, st.sampled_from(VERBS)),
    st.builds(Leaving, st.integers(0, 9)),
)


@given(st.lists(_SAID, max_size=12), st.data())
def test_whatever_a_peer_says_in_whatever_order_is_answered_or_ends_the_line(
    messages: list[Message], data: st.DataObject
) -> None:
    rights = allowing(publish=("a",), subscribe=("a", "b"))
    control = Control(PEER, rights, All())
    for message in messages:
        if data.draw(st.booleans()):
            publishers, subscribers = data.draw(st.sampled_from([((), (SUBSCRIBER,)), ((PUBLISHER,), ()), ((), ())]))
            control.see({"a": LocalTopic(publishers, subscribers)}, {"a", "b"})
        effects = control.heard(pack(message))
        if any(isinstance(effect, do.Over) for effect in effects):
            return
        for topic in ("a", "b"):
            control.outgoing.why_not(topic)
            control.incoming.why_not(topic)
        assert {*control.outgoing.denied(), *control.incoming.denied()} <= {"deny", "other"}


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
    _, opened = control.drained(1)
    assert isinstance(opened, do.OpenIn)
    assert opened.asked.history == 2


def test_many_types_of_one_topic_are_wanted_as_any() -> None:
    types = [resolve(make_idl_struct(f"T{n}", f"test.T{n}", {"x": int})) for n in range(WANTED_MOST + 1)]
    few = wanted_of([replace(SUBSCRIBER, type=type) for type in types[:WANTED_MOST]])
    assert len(few) == WANTED_MOST
    (any_,) = wanted_of([replace(SUBSCRIBER, type=type, history=n) for n, type in enumerate(types)])
    assert (any_.type, any_.history) == (None, WANTED_MOST)
