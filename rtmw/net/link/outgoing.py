"""The routes of a link on which this side sends: each is there while its topic is published, wanted and allowed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rtmw.net.link import effects as do
from rtmw.net.link.matching import Lane, Offer, asked_of, lanes_of
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
    Wanted,
)
from rtmw.net.link.side import Refusal, Side
from rtmw.net.route.by_topic import ByTopic
from rtmw.net.security.rules import Verdict
from rtmw.net.session.errors import Violation
from rtmw.qos import Reliability


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
