"""The routes of one link, without I/O, in either direction: each is there while its topic is published, wanted and
allowed.

On outgoing routes this side sends. On incoming ones the peer sends: it is told what is wanted here, and asks for each
route. Both directions share a `Side`: the peer, the settings of this side, and where effects go.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from rtmw.errors import RtmwError
from rtmw.net.link import lanes as do
from rtmw.net.link.lanes import Lane, Offer, asked_of, lanes_of, wanted_of
from rtmw.net.link.messages import (
    CHANGED,
    VERBS,
    Advertise,
    Allowed,
    Answer,
    Close,
    Denied,
    Interest,
    Leaving,
    Message,
    Open,
    Unsent,
    Wanted,
    pack,
)
from rtmw.net.neighbours import LocalTopic
from rtmw.net.security.rules import CAUSES, Rights, Verdict
from rtmw.net.session.errors import Violation
from rtmw.net.topics import ByTopic
from rtmw.observe.node_status import BudgetUse
from rtmw.publisher import wire_type
from rtmw.qos import Reliability
from rtmw.types import MessageType, carried_type

_DENIALS: Final = frozenset({*CAUSES, "topics_in", "crowd", "host"})
"""Causes for which a topic is denied."""
NOBODY: Final = LocalTopic((), ())
"""A topic that no program here uses."""


class Patterns(Protocol):
    """The settings for topics, for any peer."""

    def leaves(self, topic: str) -> bool: ...
    def enters(self, topic: str) -> bool: ...


class Refusal(NamedTuple):
    """Why a topic does not cross."""

    cause: str
    """The cause in one word, which is the label of a counter."""
    why: str

    @property
    def label(self) -> str:
        """The cause, also where a peer has made it up: of a known one."""
        return self.cause if self.cause in _DENIALS else "other"


class Budget(NamedTuple):
    """The most that the nodes of one peer may take of this host together."""

    topics: int
    """Topics that they want, and as many that they publish."""
    types: int
    """Types that they bring and that no subscriber here asks for by name."""
    publishers: int
    subscribers: int
    """Slots of the domain, for what they send and for what they get."""
    names: int
    """Bytes of the controls that are remembered of them."""


log = logging.getLogger("rtmw.node")

ENDLESS: Final = Budget(*[1 << 62] * 5)
_MEANT: Final = {
    "wanted": ("topics", "a peer may want {} topics"),
    "published": ("topics", "a peer may publish {} topics"),
    "programs": ("topics", "a peer may tell of programs of {} topics"),
    "types": ("types", "a peer may bring {} types that nobody else here asks for"),
    "publishers": ("publishers", "what a peer sends may take {} publishers"),
    "subscribers": ("subscribers", "what a peer gets may take {} subscribers"),
    "names": ("names", "all that a peer names may have {} bytes"),
}
"""What is counted: the field of the budget that bounds it, and how the peer is told."""


class Account:
    """What the nodes of one peer, which have one name, have taken of this host. Not for several threads."""

    def __init__(self, name: str = "", budget: Budget = ENDLESS) -> None:
        """`name`: as the log has it."""
        self._name, self.budget = name, budget
        """The budget from the next `take` on. What exceeds a new budget stays taken."""
        self._holders: dict[str, Counter[Hashable]] = {what: Counter() for what in _MEANT}
        self._taken, self._refused = Counter[str](), Counter[str]()

    def take(self, what: str, one: Hashable, size: int) -> str:
        """What has the same name as another that is taken, costs nothing more. Empty: it is taken; else why not."""
        why, holders = self.why_not(what, one, size), self._holders[what]
        if not why:
            self._taken[what] += 0 if one in holders else size
            holders[one] += 1
        return why

    def why_not(self, what: str, one: Hashable, size: int = 1) -> str:
        """Why there is no room for it, which is counted, and logged once; empty: there is."""
        field, words = _MEANT[what]
        most = int(getattr(self.budget, field))
        if one in self._holders[what] or self._taken[what] + size <= most:
            return ""
        why = f"{words.format(most)} (max_{field} of [link])"
        if not self._refused[what]:
            log.warning("%s asks for more than it may take here: %s; more of it is counted only", self._name, why)
        self._refused[what] += 1
        return why

    def drop(self, what: str, one: Hashable, size: int) -> None:
        holders = self._holders[what]
        holders[one] -= 1
        if not holders[one]:
            del holders[one]
            self._taken[what] -= size

    def rows(self) -> tuple[BudgetUse, ...]:
        """How much is taken, how much may be, and how often more was refused."""
        return tuple(
            BudgetUse(what, self._taken[what], int(getattr(self.budget, field)), self._refused[what])
            for what, (field, _) in _MEANT.items()
        )


class Share:
    """The part of an account that one line has taken. Not for several threads."""

    def __init__(self, account: Account) -> None:
        self.account = account
        self._held: dict[tuple[str, Hashable], tuple[Hashable, int]] = {}

    def take(self, what: str, holder: Hashable, size: int = 1, one: Hashable = None) -> str:
        """`holder`: a topic or a route of this line; what it had is dropped. `one`: what several may hold together.
        Empty: it is taken; else why not, in words."""
        self.drop(what, holder)
        named = (id(self), holder) if one is None else one
        refused = self.account.take(what, named, size)
        if not refused:
            self._held[what, holder] = (named, size)
        return refused

    def drop(self, what: str, holder: Hashable) -> None:
        """Idempotent."""
        held = self._held.pop((what, holder), None)
        if held is not None:
            self.account.drop(what, *held)

    def close(self) -> None:
        """The line is over. Idempotent."""
        for what, holder in [*self._held]:
            self.drop(what, holder)


class Side:
    """What both directions of one link share on this side."""

    def __init__(self, peer: str, rights: Rights, patterns: Patterns, account: Account) -> None:
        """`peer`: the name that its certificate has. `account`: of all its nodes."""
        self.peer, self.rights, self.patterns, self.share = peer, rights, patterns, Share(account)
        self.topics: Mapping[str, LocalTopic] = {}
        self.explained: set[str] = set()
        """Topics whose reason for not crossing may have changed. The reader empties it."""
        self.changes = 0
        """Number of changes of what the peer wants or sends."""
        self.failed: dict[str, None] = {}
        """Topics of which a route had no room on this host."""
        self._effects: list[do.Effect] = []

    def topic(self, name: str) -> LocalTopic:
        return self.topics.get(name, NOBODY)

    def act(self, effect: do.Effect) -> None:
        self._effects.append(effect)

    def say(self, message: Message) -> None:
        self._effects.append(do.Say(pack(message)))

    def taken(self) -> list[do.Effect]:
        """The effects since the last call."""
        effects, self._effects = self._effects, []
        return effects


@dataclass
class Incoming:
    """A route that the peer has opened, until all that it sent is on the bus."""

    open: Open
    lane: Lane
    type: MessageType
    verdict: Verdict
    wants_old: bool
    """Messages that the peer's bus keeps are published here, too."""
    is_begun: bool
    """The route has its publisher on the bus."""
    is_changing: bool = False
    """The peer was asked to open it again."""


class IncomingRoutes:
    """The routes of one link on which the peer sends. Not for several threads."""

    def __init__(self, side: Side, is_taken: Callable[[Lane], bool]) -> None:
        self._side, self._is_taken = side, is_taken
        self._told: dict[str, tuple[Wanted, ...]] = {}
        """The requests of this side that the peer knows."""
        self._denied: dict[str, Refusal] = {}
        """Topics that are wanted here, and that the peer does not let this side have."""
        self._advertised: dict[str, Refusal | None] = {}
        """Topics that the peer publishes, and why it was told that it may not bring them."""
        self.last = 0
        """The number of the route that the peer has asked for last."""
        self._waiting = dict[Lane, Open]()
        """Routes whose lane has an earlier one: they are opened at the end of that, for the order of its messages."""
        self._lanes = dict[int, Lane]()
        """The lanes of these, by their number."""
        self._open_lanes = set[Lane]()
        """`Lane.base` of each route that is open."""
        self.routes = ByTopic[int, Incoming]()

    def topics(self) -> Iterator[str]:
        """Topics that the peer was told to be wanted here, or that it publishes."""
        yield from {*self._told, *self._advertised, *self.routes.topics()}

    def why_not(self, topic: str) -> Refusal | None:
        """Why a topic that is wanted here does not come from the peer; None: it does, or nobody publishes it there."""
        verdict = self._side.rights.may(self._side.peer, "publish", topic)
        if not verdict.allowed and self._side.topic(topic).subscribers:
            return Refusal(verdict.cause, f"the rules here: {verdict.why}")
        return self._denied.get(topic)

    def denied(self) -> Iterator[str]:
        """The cause of each denial by the peer of a topic that is wanted here."""
        return (refusal.label for refusal in self._denied.values())

    def see(self, topic: str) -> None:
        """Tell the peer what is wanted, and end what must not go on, by everything that is known now. Idempotent."""
        refusal, verdict = self._judge(topic)
        if topic in self._advertised and refusal != self._advertised[topic]:
            self._tell(topic, refusal, verdict)
        wanted = () if refusal else wanted_of(self._side.topic(topic).subscribers)
        if wanted != self._told.get(topic, ()):
            self._told.pop(topic, None)
            if wanted:
                self._told[topic] = wanted
            self._denied.pop(topic, None)
            self._side.explained.add(topic)
            self._side.say(Interest(topic, wanted))
        for number in self.routes.keys(topic):
            if refusal is not None:
                self._refuse(number, topic, refusal, verdict)
                self._close(number)
            else:
                self._change(number, self.routes.at(number), verdict)

    def hear_open(self, asked: Open, size: int) -> None:
        """`size`: bytes of its control. Raises Violation for a number that was used before."""
        if asked.route <= self.last:
            raise Violation(f"route {asked.route} is opened after route {self.last}")
        self.last = asked.route
        refusal, verdict = self._judge(asked.topic)
        if refusal is None:
            share, number = self._side.share, asked.route
            crowd = share.take("publishers", number) or share.take("names", number, size)
            if crowd:
                refusal = Refusal("crowd", crowd)
                self._side.failed[asked.topic] = None
        found = refusal or _kind(asked)
        if isinstance(found, Refusal):
            self._refuse(asked.route, asked.topic, found, verdict)
        else:
            self._open(asked, found, verdict)

    def _open(self, asked: Open, type: MessageType, verdict: Verdict) -> None:
        lane = Lane(asked.topic, type.identity, asked.reliability, asked.history > 0)
        wanted, known = asked_of(self._told.get(asked.topic, ()), type.identity), self._is_known(asked.topic, type)
        crowd = "" if known else self._side.share.account.why_not("types", type.identity)
        if wanted is None:
            refusal = Refusal("unwanted", "nobody here wants messages of this type")
            self._refuse(asked.route, asked.topic, refusal, verdict)
        elif crowd:
            self._side.failed[asked.topic] = None
            self._refuse(asked.route, asked.topic, Refusal("crowd", crowd), verdict)
        elif lane.base in self._open_lanes or self._is_taken(lane):
            if lane in self._waiting:
                raise Violation(f"route {asked.route} is opened beside others of the same publishers")
            self._waiting[lane], self._lanes[asked.route] = asked, lane
        else:
            self._denied.pop(asked.topic, None)
            self._side.explained.add(asked.topic)
            self.routes.put(asked.topic, asked.route, Incoming(asked, lane, type, verdict, wanted.history > 0, known))
            self._open_lanes.add(lane.base)
            self._side.changes += 1
            self._side.act(do.OpenIn(asked.route, asked, type, wanted, verdict, not known))

    def _is_known(self, topic: str, type: MessageType) -> bool:
        """Does a subscriber here ask for just this type, or has it no slot at all?"""
        return wire_type(type) is None or any(row.type == type.identity for row in self._told.get(topic, ()))

    def begin(self, number: int) -> None:
        """Take a publisher for a route, and the slot of its type: its first message is here, or a subscriber that asks
        for just this type. Idempotent."""
        route = self.routes.get(number)
        if route is not None and self._has_room(number, route) and not route.is_begun:
            route.is_begun = True
            self._side.act(do.BeginIn(number))

    def _has_room(self, number: int, route: Incoming) -> bool:
        """A type for which nobody here asks is the peer's own."""
        identity, share = route.type.identity, self._side.share
        if self._is_known(route.lane.topic, route.type):
            share.drop("types", number)
            return True
        crowd = share.take("types", number, one=identity)
        if crowd:
            self._side.act(do.CloseIn(number))
            self.fail(number, Refusal("crowd", crowd))
        return not crowd

    def hear_advertise(self, advertise: Advertise, size: int) -> None:
        """The peer has publishers of a topic, or no more. `size`: bytes of its control."""
        topic, share = advertise.topic, self._side.share
        self._advertised.pop(topic, None)
        for what in ("published", "names"):
            share.drop(what, (topic,))
        if not advertise.is_published:
            return
        crowd = share.take("published", (topic,)) or share.take("names", (topic,), size)
        if crowd:
            share.drop("published", (topic,))
            self._side.say(Denied(topic, "crowd", crowd, VERBS[1]))
        else:
            self._tell(topic, *self._judge(topic))

    def _tell(self, topic: str, refusal: Refusal | None, verdict: Verdict) -> None:
        """Whether the peer may bring a topic that it publishes. By the rules and settings alone: who may not bring it
        does not learn whether anybody here subscribes it."""
        self._advertised[topic] = refusal
        if refusal is None:
            self._side.say(Allowed(topic, VERBS[1]))
            return
        if not verdict.allowed and not self.routes.has(topic):  # else it is counted where the route is refused
            self._side.rights.verdict(self._side.peer, "publish", topic)
        self._side.say(Denied(topic, *refusal, VERBS[1]))

    def hear_allowed(self, allowed: Allowed) -> None:
        """The peer refuses a topic no more, which is no promise that it has publishers."""
        if self._denied.pop(allowed.topic, None):
            self._side.explained.add(allowed.topic)

    def hear_denied(self, denied: Denied) -> None:
        """The peer refuses a topic. Without effect for a topic that was not asked for."""
        if denied.topic in self._told:
            self._side.explained.add(denied.topic)
            self._denied[denied.topic] = Refusal(denied.cause, f"the rules of the peer: {denied.why}")

    def hear_close(self, close: Close) -> None:
        """Raises Violation for a route that was never opened. One that is closed here already needs nothing."""
        if close.route > self.last:
            raise Violation(f"route {close.route} is closed, and was not opened")
        waiting = self._lanes.pop(close.route, None)
        if waiting is not None:
            del self._waiting[waiting]
            self._give_back(close.route)
        if self.routes.has_key(close.route):
            self._side.act(do.DrainIn(close.route, close.sent))

    def hear_unsent(self, unsent: Unsent) -> None:
        """Raises Violation for a route that was never opened."""
        if unsent.route > self.last:
            raise Violation(f"messages of route {unsent.route}, which was not opened, are not sent")
        if self.routes.has_key(unsent.route):
            self._side.act(do.TellIn(unsent.route, unsent.expired, unsent.thinned))

    def drained(self, number: int) -> None:
        """All that the peer has sent by a route is on the bus, or does not come any more."""
        if self.routes.has_key(number):
            self._close(number)

    def _judge(self, topic: str) -> tuple[Refusal | None, Verdict]:
        verdict = self._side.rights.may(self._side.peer, "publish", topic)
        if not verdict.allowed:
            return Refusal(verdict.cause, verdict.why), verdict
        if not self._side.patterns.enters(topic):
            return Refusal("topics_in", "topics_in of the settings does not let it in"), verdict
        return None, verdict

    def _refuse(self, number: int, topic: str, refusal: Refusal, verdict: Verdict) -> None:
        self._give_back(number)
        if not verdict.allowed:  # counted
            self._side.rights.verdict(self._side.peer, "publish", topic)
        self._side.say(Answer(number, *refusal))

    def _change(self, number: int, route: Incoming, verdict: Verdict) -> None:
        """New ceilings hold at once. That kept messages are wanted, the engine takes from the next route."""
        if verdict.ceilings != route.verdict.ceilings:
            self._side.act(do.AdjustIn(number, verdict))
        route.verdict = verdict
        asked = asked_of(self._told.get(route.open.topic, ()), route.type.identity)
        wants_more = asked is not None and asked.history and route.open.history and not route.wants_old
        if wants_more and not route.is_changing:
            route.is_changing = True
            self._side.say(Answer(number, CHANGED, "somebody wants kept messages, too"))
        if asked is not None and (route.is_begun or self._is_known(route.lane.topic, route.type)):
            self.begin(number)

    def _close(self, number: int) -> None:
        self._side.act(do.CloseIn(number))
        self._forget(number)

    def _forget(self, number: int) -> None:
        route = self.routes.at(number)
        self.routes.pop(number)
        self._open_lanes.remove(route.lane.base)
        self._side.explained.add(route.lane.topic)
        self._give_back(number)
        self._side.changes += 1
        self.freed(route.lane)

    def _give_back(self, number: int) -> None:
        for what in ("publishers", "names", "types"):
            self._side.share.drop(what, number)

    def fail(self, number: int, refusal: Refusal) -> None:
        """This host cannot have a route, or not any more; it has closed what was there of it."""
        route = self.routes.get(number)
        if route is not None:
            self._side.failed[route.lane.topic] = None
            self._side.say(Answer(number, *refusal))
            self._forget(number)

    def again(self, topic: str) -> None:
        """Have the peer ask once more for the routes of a topic that were refused."""
        if topic in self._told:
            self._side.say(Interest(topic, self._told[topic]))

    def freed(self, lane: Lane) -> None:
        """No earlier route of the lane is there any more: one that waits for its end is opened."""
        waiting = self._waiting.pop(lane.base, None) or self._waiting.pop(lane.base._replace(keeps=True), None)
        if waiting is None:
            return
        del self._lanes[waiting.route]
        refusal, verdict = self._judge(waiting.topic)
        found = refusal or _kind(waiting)
        if isinstance(found, Refusal):
            self._refuse(waiting.route, waiting.topic, found, verdict)
        else:
            self._open(waiting, found, verdict)


def _kind(asked: Open) -> MessageType | Refusal:
    try:
        return carried_type(asked.description)
    except RtmwError as error:
        return Refusal("type", f"its type cannot be read: {error}")


@dataclass
class Outgoing:
    """A route, from Open to its end."""

    lane: Lane
    offer: Offer
    asked: Wanted
    verdict: Verdict
    is_open: bool = False
    """The peer has agreed."""
    is_leaving: bool = False
    is_changing: bool = False
    """The route leaves, and is opened again with another number."""
    is_parting: bool = False
    """The route leaves, because the peer ends."""


class OutgoingRoutes:
    """The routes of one link on which this side sends. Not for several threads."""

    def __init__(self, side: Side) -> None:
        self._side = side
        self._wanted: dict[str, tuple[Wanted, ...]] = {}
        """What the peer wants, by topic."""
        self._denied: dict[str, Verdict] = {}
        """Topics that the peer wants, and may not have."""
        self._advertised: dict[str, Refusal | None] = {}
        """Topics that the peer knows to be published here, and why it denies them."""
        self._refused = ByTopic[Lane, Refusal]()
        """Lanes that the peer has refused, until it says again what it wants of the topic."""
        self._numbers: dict[Lane, int] = {}
        """Numbers of routes, by `Lane.base`."""
        self._followed = ByTopic[Lane, None]()
        """By `Lane.base`: the peer has wanted it ever since it had a route, though its publishers may have left."""
        self._last = 0
        self._has_left = False
        """The peer ends, and takes nothing RELIABLE any more."""
        self.routes = ByTopic[int, Outgoing]()

    def topics(self) -> Iterator[str]:
        """Topics that the peer wants, gets, or was told of."""
        yield from {*self._wanted, *self._advertised, *self.routes.topics()}

    def wanted(self) -> Iterator[tuple[str, Wanted]]:
        """The requests of the peer, by topic."""
        return ((topic, row) for topic, rows in self._wanted.items() for row in rows)

    def why_not(self, topic: str) -> Refusal | None:
        """Why a topic that is published here does not cross to the peer; None: it does, or is not wanted there.

        Of a topic that the peer denies, nobody tells whether it is wanted there.
        """
        verdict = self._denied.get(topic)
        if verdict is not None:
            return Refusal(verdict.cause, f"the rules here: {verdict.why}")
        if topic not in self._advertised:
            return None
        return self._advertised[topic] or next(iter(self._refused.of(topic)), None)

    def denied(self) -> Iterator[str]:
        """The cause of each denial by the peer of a topic that is published here."""
        return (refusal.label for refusal in self._advertised.values() if refusal)

    def hear_interest(self, interest: Interest, size: int) -> None:
        """The peer wants something else of a topic. `size`: bytes of its control."""
        topic, wanted = interest.topic, interest.wanted
        is_new = topic not in self._wanted
        self._side.changes += 1
        share = self._side.share
        for what in ("wanted", "names"):
            share.drop(what, topic)
        self._wanted.pop(topic, None)
        crowd = (share.take("wanted", topic) or share.take("names", topic, size)) if wanted else ""
        if crowd:
            share.drop("wanted", topic)
            self._side.say(Denied(topic, "crowd", crowd))
        elif wanted:
            self._wanted[topic] = wanted
            if topic in self._advertised:
                self._advertised[topic] = None
        self._denied.pop(topic, None)
        self._forgive(topic)
        self.see(topic)
        if is_new and topic in self._wanted and topic not in self._denied:  # it may have heard a denial after it left
            self._side.say(Allowed(topic, VERBS[0]))

    def hear_answer(self, answer: Answer) -> None:
        """Raises Violation for a route that was never opened."""
        route = self.routes.get(answer.route)
        if route is None:
            if answer.route > self._last:
                raise Violation(f"an answer to route {answer.route}, which was not opened")
            return
        if answer.cause == "":
            route.is_open = True
        elif route.is_parting:
            return
        elif answer.cause == CHANGED:
            route.is_changing = True
            self._leave(answer.route, route)
        else:
            refusal = Refusal(answer.cause, f"the peer refuses it: {answer.why}")
            self._refused.put(route.lane.topic, route.lane, refusal)
            self._side.explained.add(route.lane.topic)
            self._drop(answer.route)

    def hear_denied(self, denied: Denied) -> None:
        """The peer lets a topic of this side not in. Without effect for one that it was not told of."""
        if denied.topic in self._advertised:
            self._side.explained.add(denied.topic)
            self._advertised[denied.topic] = Refusal(denied.cause, f"the peer denies it: {denied.why}")
            self._side.act(do.Denial(denied.topic, denied.cause, denied.why))

    def hear_allowed(self, allowed: Allowed) -> None:
        """The peer lets it in again, and so refuses no route of it by its rules any more."""
        topic = allowed.topic
        if self._advertised.get(topic) is not None:
            self._advertised[topic] = None
            self._forgive(topic)
            self.see(topic)

    def _forgive(self, topic: str) -> None:
        """What the peer has refused of a topic may be asked again."""
        for lane in self._refused.keys(topic):
            self._refused.pop(lane)
        self._side.explained.add(topic)

    def hear_leaving(self, leaving: Leaving) -> None:
        """The peer ends. Messages that were taken of RELIABLE topics are still sent."""
        self._has_left = True
        for number, route in [*self.routes.items()]:
            if route.lane.reliability is Reliability.RELIABLE and not route.is_parting:
                route.is_parting = True
                self._side.act(do.PartOut(number, leaving.for_ns))

    def see(self, topic: str) -> None:
        """Open, change and close its routes as everything that is known now asks for. Idempotent."""
        wanted, lanes = self._wanted.get(topic, ()), dict[Lane, Offer]()
        verdict, publishers = self._judge(topic), self._side.topic(topic).publishers
        may_leave = verdict.allowed and self._side.patterns.leaves(topic)
        self._advertise(topic, may_leave and bool(publishers))
        if wanted and may_leave:
            lanes = lanes_of(topic, publishers)
        for base in self._followed.keys(topic):
            if not may_leave or asked_of(wanted, base.type) is None:
                self._followed.pop(base)
        for number in self.routes.keys(topic):
            route = self.routes.at(number)
            if not verdict.allowed:
                self._drop(number)
            elif route.is_parting:
                continue
            elif route.lane not in lanes or asked_of(wanted, route.lane.type) is None:
                self._leave(number, route)
        for lane, offer in lanes.items():
            asked = asked_of(wanted, lane.type)
            if asked is not None:
                self._need(lane, offer, asked, verdict)

    def _advertise(self, topic: str, is_published: bool) -> None:
        """Tell the peer, if it is news and the peer may have the topic: it says whether it may be brought there."""
        if is_published == (topic in self._advertised):
            return
        if is_published:
            self._advertised[topic] = None
        else:
            del self._advertised[topic]
            self._side.explained.add(topic)
        self._side.say(Advertise(topic, is_published))

    def left(self, number: int, sent: int) -> None:
        """A route that was to be left, or dropped, is closed now. It may be opened again, with another number."""
        self._side.say(Close(number, sent))
        route = self._forget(number)
        if route is not None:
            self.see(route.lane.topic)

    def _forget(self, number: int) -> Outgoing | None:
        route = self.routes.pop(number)
        self._side.share.drop("subscribers", number)
        if route is not None:
            del self._numbers[route.lane.base]
            self._side.explained.add(route.lane.topic)
        return route

    def fail(self, number: int, refusal: Refusal, sent: int | None) -> None:
        """Ends a route that this host cannot have any more; what was there of it is closed already. The peer, which
        wants the topic, is told. `sent`: as Control.failed has it."""
        route = self._forget(number)
        if sent is not None:
            self._side.say(Close(number, sent))
        if route is not None:
            self._fail(route.lane, refusal)

    def _fail(self, lane: Lane, refusal: Refusal) -> None:
        self._refused.put(lane.topic, lane, Refusal(refusal.cause, f"this host: {refusal.why}"))
        self._side.failed[lane.topic] = None
        self._side.explained.add(lane.topic)
        self._side.say(Denied(lane.topic, *refusal))

    def again(self, topic: str) -> None:
        """Open routes of a topic that failed, and that the peer still wants."""
        self._forgive(topic)
        self.see(topic)

    def _judge(self, topic: str) -> Verdict:
        """A denial of what the peer wants is counted, and told to the peer, when it or its cause is new."""
        verdict = self._side.rights.may(self._side.peer, "subscribe", topic)
        if verdict.allowed:
            if self._denied.pop(topic, None):
                self._side.explained.add(topic)
                self._side.say(Allowed(topic, VERBS[0]))
        elif topic in self._wanted and getattr(self._denied.get(topic), "cause", "") != verdict.cause:
            self._side.rights.verdict(self._side.peer, "subscribe", topic)
            self._denied[topic] = verdict
            self._side.explained.add(topic)
            self._side.say(Denied(topic, verdict.cause, verdict.why))
        return verdict

    def _need(self, lane: Lane, offer: Offer, asked: Wanted, verdict: Verdict) -> None:
        if self._has_left and lane.reliability is Reliability.RELIABLE:
            return
        number = self._numbers.get(lane.base)
        if number is None:
            if not self._refused.has_key(lane):
                self._open(Outgoing(lane, offer, asked, verdict))
            return
        route = self.routes.at(number)
        if route.lane != lane:  # its publishers keep messages now, or no more
            route.is_changing = True
            self._leave(number, route)
        if route.is_changing:
            return  # it is opened again when it has left
        if route.is_leaving:
            route.is_leaving = False
            self._side.act(do.StayOut(number))
        if (offer, asked, verdict.ceilings) != (route.offer, route.asked, route.verdict.ceilings):
            route.offer, route.asked, route.verdict = offer, asked, verdict
            self._side.act(do.AdjustOut(number, offer, asked, verdict))

    def _open(self, route: Outgoing) -> None:
        """The route of this side is there first: nothing that is published from now on is missed."""
        lane, crowd = route.lane, self._side.share.take("subscribers", self._last + 1)
        if crowd:
            self._fail(lane, Refusal("crowd", crowd))
            return
        self._last += 1
        self._numbers[lane.base] = self._last
        self._side.explained.add(lane.topic)
        self.routes.put(lane.topic, self._last, route)
        is_followed = self._followed.has_key(lane.base)
        self._followed.put(lane.topic, lane.base, None)
        self._side.act(do.OpenOut(self._last, lane, route.offer, route.asked, route.verdict, is_followed))

    def _leave(self, number: int, route: Outgoing) -> None:
        if not route.is_leaving:
            route.is_leaving = True
            self._side.act(do.LeaveOut(number))

    def _drop(self, number: int) -> None:
        self._forget(number)
        self._side.act(do.DropOut(number))
