"""The routes of a link on which the peer sends: it is told what is wanted here, and asks for each route."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from rtmw.errors import RtmwError
from rtmw.net.link import effects as do
from rtmw.net.link.matching import Lane, asked_of, wanted_of
from rtmw.net.link.messages import (
    CHANGED,
    VERBS,
    Advertise,
    Allowed,
    Answer,
    Close,
    Denied,
    Interest,
    Open,
    Unsent,
    Wanted,
)
from rtmw.net.link.side import Refusal, Side
from rtmw.net.route.by_topic import ByTopic
from rtmw.net.security.rules import Verdict
from rtmw.net.session.errors import Violation
from rtmw.publisher import wire_type
from rtmw.types import MessageType, carried_type


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
