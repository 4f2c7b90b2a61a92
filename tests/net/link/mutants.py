"""Rules of the control, each taken out: the world of chance has to see harm."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from unittest.mock import patch

from rtmw.net.link import lanes as do
from rtmw.net.link import routes
from rtmw.net.link.control import Control
from rtmw.net.link.lanes import Lane
from rtmw.net.link.messages import Allowed, Answer, Close, Interest, Leaving, Open, Wanted
from rtmw.net.link.routes import Incoming, IncomingRoutes, Outgoing, OutgoingRoutes, Patterns, Refusal
from rtmw.net.security.rules import Rule, RuleTable, Verdict
from rtmw.net.topics import ByTopic
from rtmw.types import MessageType
from tests.harm import first_harm
from tests.net.link.chance import run

Mutant = Callable[[], AbstractContextManager[object]]
_ALL = RuleTable((Rule(("*",), {"publish": ("*",), "subscribe": ("*",)}),))


def _sender_asks_nobody(self: OutgoingRoutes, topic: str) -> Verdict:
    return _ALL.judge("rtmw://a/b", "subscribe", topic)


def _taker_asks_nobody(self: IncomingRoutes, topic: str) -> tuple[Refusal | None, Verdict]:
    return None, _ALL.judge("rtmw://a/b", "publish", topic)


def _obeys_for_what_comes(self: Control, patterns: Patterns) -> list[do.Effect]:
    self._side.patterns = patterns
    return []


class _Sticky(ByTopic[Lane, Refusal]):
    """Nothing leaves it."""

    def pop(self, key: Lane) -> Refusal | None:
        return None


def _stays_refused(self: OutgoingRoutes, interest: Interest) -> None:
    if not isinstance(self._refused, _Sticky):
        self._refused = _Sticky()
    _hear_interest(self, interest)


def _forgets_what_left(self: OutgoingRoutes, number: int, sent: int) -> None:
    self._side.say(Close(number, sent))
    route = self.routes.pop(number)
    if route is not None:
        del self._numbers[route.lane.base]


def _one_lane_a_topic(wanted: tuple[Wanted, ...], type_: int) -> Wanted | None:
    found = _asked_of(wanted, type_)
    return found if found is not None and wanted[0].type in (None, type_) else None


def _only_named_types(wanted: tuple[Wanted, ...], type_: int) -> Wanted | None:
    return _asked_of([row for row in wanted if row.type is not None], type_)


def _asking(asked_of: Callable[..., Wanted | None], method: Callable[..., None]) -> Callable[..., None]:
    """The method with another `asked_of`, which no other method has."""

    def mutant(*args: object) -> None:
        with patch.object(routes, "asked_of", asked_of):
            method(*args)

    return mutant


def _drops_what_is_not_wanted(self: OutgoingRoutes, number: int, route: Outgoing) -> None:
    self._drop(number, route)


def _never_closes(self: IncomingRoutes, close: Close) -> None:
    """The end of a route means nothing."""


def _closes_at_once(self: IncomingRoutes, close: Close) -> None:
    _hear_close(self, Close(close.route, 0))


def _waits_for_nobody(self: IncomingRoutes, asked: Open, type: MessageType, verdict: Verdict) -> None:
    wanted = _asked_of(self._told.get(asked.topic, ()), type.identity)
    if wanted is None:
        self._refuse(asked.route, asked.topic, Refusal("unwanted", ""), verdict)
        return
    lane = Lane(asked.topic, type.identity, asked.reliability, asked.history > 0)
    self.routes.put(asked.topic, asked.route, Incoming(asked, lane, type, verdict, wanted.history > 0))
    self._side.act(do.OpenIn(asked.route, asked, type, wanted, verdict))
    self._side.say(Answer(asked.route, "", ""))


def _opens_twice(self: OutgoingRoutes, route: Outgoing) -> None:
    _open(self, route)
    del self._numbers[route.lane.base]


def _stays(self: OutgoingRoutes, leaving: Leaving) -> None:
    """It goes on to send."""


def _keeps_its_ceilings(self: IncomingRoutes, number: int, route: Incoming, verdict: Verdict) -> None:
    _change(self, number, route, route.verdict)


def _advertises_all(self: OutgoingRoutes, topic: str, _is_published: bool) -> None:
    _advertise(self, topic, bool(self._side.topic(topic).publishers))


def _advertises_for_ever(self: OutgoingRoutes, topic: str, is_published: bool) -> None:
    _advertise(self, topic, is_published or topic in self._advertised)


def _tells_once(self: IncomingRoutes, topic: str, refusal: Refusal | None, verdict: Verdict) -> None:
    if topic not in self._advertised:
        _tell(self, topic, refusal, verdict)


def _tells_where_it_is_wanted(self: IncomingRoutes, topic: str, refusal: Refusal | None, verdict: Verdict) -> None:
    if self._side.topic(topic).subscribers:
        _tell(self, topic, refusal, verdict)


def _stays_denied(self: OutgoingRoutes | IncomingRoutes, allowed: Allowed) -> None:
    """It was told once."""


_advertise, _tell = OutgoingRoutes._advertise, IncomingRoutes._tell
_change = IncomingRoutes._change
_hear_interest, _open = OutgoingRoutes.hear_interest, OutgoingRoutes._open
_hear_close, _see, _asked_of = IncomingRoutes.hear_close, OutgoingRoutes.see, do.asked_of
MUTANTS: dict[str, Mutant] = {
    "the side that sends asks the rules": lambda: patch.object(OutgoingRoutes, "_judge", _sender_asks_nobody),
    "the side that receives asks the rules": lambda: patch.object(IncomingRoutes, "_judge", _taker_asks_nobody),
    "open routes obey new rules": lambda: patch.object(Control, "obey", _obeys_for_what_comes),
    "an interest ends a refusal": lambda: patch.object(OutgoingRoutes, "hear_interest", _stays_refused),
    "what has left is opened again": lambda: patch.object(OutgoingRoutes, "left", _forgets_what_left),
    "each type has its route": lambda: patch.object(OutgoingRoutes, "see", _asking(_one_lane_a_topic, _see)),
    "who wants any gets all": lambda: patch.object(OutgoingRoutes, "see", _asking(_only_named_types, _see)),
    "both sides mean the same types": lambda: patch.multiple(
        IncomingRoutes,
        _open=_asking(_only_named_types, IncomingRoutes._open),
        _change=_asking(_only_named_types, IncomingRoutes._change),
    ),
    "what was published is still sent": lambda: patch.object(OutgoingRoutes, "_leave", _drops_what_is_not_wanted),
    "a route ends": lambda: patch.object(IncomingRoutes, "hear_close", _never_closes),
    "a route is drained before it is closed": lambda: patch.object(IncomingRoutes, "hear_close", _closes_at_once),
    "a route waits for the one before it": lambda: patch.object(IncomingRoutes, "_open", _waits_for_nobody),
    "nothing reliable is sent to a node that has left": lambda: patch.object(OutgoingRoutes, "hear_leaving", _stays),
    "open routes take new ceilings": lambda: patch.object(IncomingRoutes, "_change", _keeps_its_ceilings),
    "a peer hears of no topic that it may not have": lambda: patch.object(
        OutgoingRoutes, "_advertise", _advertises_all
    ),
    "what ends is not denied": lambda: patch.object(OutgoingRoutes, "_advertise", _advertises_for_ever),
    "what is published is judged again": lambda: patch.object(IncomingRoutes, "_tell", _tells_once),
    "a denial does not say who subscribes": lambda: patch.object(IncomingRoutes, "_tell", _tells_where_it_is_wanted),
    "the publishing end hears that it may": lambda: patch.object(OutgoingRoutes, "hear_allowed", _stays_denied),
    "the subscribing end hears that it may": lambda: patch.object(IncomingRoutes, "hear_allowed", _stays_denied),
    "a lane has one route": lambda: patch.object(OutgoingRoutes, "_open", _opens_twice),
}
"""Name of the rule, and what takes it out."""


def harm(name: str, seeds: range) -> str | None:
    """What the first seed saw that saw anything, without this rule."""
    return first_harm(MUTANTS[name](), run, seeds)
