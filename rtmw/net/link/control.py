"""Which topics cross by one link, without I/O: each call returns the effects that are to be carried out, in order.

    the side that subscribes            the side that publishes
    may the peer bring it?        ◄──   Advertise: topic, if the peer may have it
    Denied, or Allowed            ──►   if denied, its programs publish in vain: `rtmw node info` says why
    Interest: topic, types, QoS   ──►   may the peer have it? Has it publishers of such a type?
    may the peer bring it?        ◄──   Open: route, type, what is offered
    Answer                        ──►   messages flow once the engine of the other side has opened the route

Both sides ask the rules when a route opens, and again for all when the rules have changed: neither trusts the other. No
message passes here. The controls of one side reach the other in their order, each once (link.h: controls).

Whatever goes wrong costs this peer alone. An effect that cannot be carried out is told to `failed`, which ends its
route at both ends, in words. An error in here ends this line.

For people, each end tells the other one topic by topic who publishes and subscribes (`Programs`): of a program if and
only if the peer has a right to what that does. A publisher's topic may be had by the peer, a subscriber's may be
brought by it, and both are let through by the settings here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any, Final

from rtmw.net.link import lanes as do
from rtmw.net.link.lanes import Lane
from rtmw.net.link.messages import (
    MOST,
    PROGRAMS_MOST,
    VERBS,
    Advertise,
    Allowed,
    Answer,
    Bye,
    Clock,
    Close,
    Denied,
    Hello,
    Interest,
    Join,
    Joined,
    Leaving,
    Open,
    Programs,
    Unsent,
    Using,
    pack,
    read,
)
from rtmw.net.link.routes import Account, IncomingRoutes, OutgoingRoutes, Patterns, Refusal, Share, Side
from rtmw.net.neighbours import LocalTopic
from rtmw.net.security.rules import Rights
from rtmw.net.session.errors import Violation


class KnownPrograms:
    """The programs that the two sides of one link tell each other. Not for several threads."""

    def __init__(self, side: Side) -> None:
        self._side = side
        self._told: dict[str, tuple[Using, ...]] = {}
        self.there: dict[str, tuple[Using, ...]] = {}
        """Programs of the peer, by topic, as it tells."""

    def told(self) -> Iterable[str]:
        """Topics of which the peer was told programs."""
        return self._told.keys()

    def see(self, topic: str, here: tuple[Using, ...]) -> None:
        """Takes in which programs use the topic here. Tells the peer if it may know and they have changed."""
        may_know = {publishes: self._may_know(topic, publishes) for publishes in {one.publishes for one in here}}
        told = _fitting(Programs(topic, tuple(one for one in here if may_know[one.publishes])))
        if told.programs == self._told.get(topic, ()):
            return
        self._side.say(told)
        if told.programs:
            self._told[topic] = told.programs
        else:
            del self._told[topic]

    def _may_know(self, topic: str, publishes: bool) -> bool:
        side, verb = self._side, "subscribe" if publishes else "publish"
        passes = side.patterns.leaves(topic) if publishes else side.patterns.enters(topic)
        return passes and side.rights.may(side.peer, verb, topic).allowed

    def hear(self, said: Programs, size: int) -> None:
        """`size`: bytes of the control. What there is no room for is not remembered."""
        self.there.pop(said.topic, None)
        share, holder = self._side.share, (said.topic, "programs")
        for what in ("programs", "names"):
            share.drop(what, holder)
        self._side.changes += 1
        if said.programs and not (share.take("programs", holder) or share.take("names", holder, size)):
            self.there[said.topic] = said.programs


def _fitting(told: Programs) -> Programs:
    """Leaves out the last programs until the message fits into a control."""
    told = replace(told, programs=told.programs[:PROGRAMS_MOST])
    while len(pack(told)) > MOST:
        told = replace(told, programs=told.programs[: len(told.programs) // 2])
    return told


log = logging.getLogger("rtmw.node")

AGAIN_MOST: Final = 100
"""Topics that are asked for again at a time."""
CLOCK_SET_NS: Final = 1_000_000
"""A smaller step of the wall clock is not told: two readings are never of the same moment."""


class Control:
    """Decides which topics cross by one line, from its beginning to its end, over cuts. Not for several threads."""

    def __init__(
        self, peer: str, rights: Rights, patterns: Patterns, is_taken: Callable[[Lane], bool] = lambda _: False,
        account: Account | None = None,
    ) -> None:  # fmt: skip
        """`peer`: the name that its certificate has. `is_taken`: does a line before this one still bring messages of
        this lane? `freed` says when it does no more. `account`: of all nodes of the peer."""
        self._side = Side(peer, rights, patterns, account or Account())
        self.outgoing, self.incoming = OutgoingRoutes(self._side), IncomingRoutes(self._side, is_taken)
        self.programs = KnownPrograms(self._side)
        self.peer_set_ns: int | None = None
        """By how much the peer's wall clock was set since its steady one began; None: it does not tell."""
        self._told_set_ns: int | None = None
        self._is_over = False

    def see(self, topics: Mapping[str, LocalTopic], changed: Collection[str]) -> list[do.Effect]:
        """`topics`: as the bus of this host shows them now; `changed`: which of them, and of those that are over. At
        the beginning all."""
        self._side.topics = topics
        return self._effects(self._look, changed)

    def see_programs(self, topic: str, here: tuple[Using, ...]) -> list[do.Effect]:
        """Takes in which programs use the topic here, as far as it may cross."""
        self.programs.see(topic, here)
        return self._side.taken()

    def obey(self, patterns: Patterns) -> list[do.Effect]:
        """The rules or the settings are others: look at all topics again."""
        self._side.patterns = patterns
        names = {*self._side.topics, *self.incoming.topics(), *self.outgoing.topics()}
        return self._effects(self._look, sorted(names))

    def _look(self, names: Collection[str]) -> None:
        for name in names:
            self.incoming.see(name)
            self.outgoing.see(name)

    def heard(self, data: bytes) -> list[do.Effect]:
        """A control of the peer. After Over nothing is answered."""
        return self._effects(self._hear, data)

    def _hear(self, data: bytes) -> None:
        message = read(data)
        if message is not None:
            _HEARD[type(message)](self, message, len(data))

    def _effects(self, act: Callable[..., None], *arguments: object) -> list[do.Effect]:
        """The effects of a call. An error in it is the last one."""
        if self._is_over:
            return []
        try:
            act(*arguments)
        except Violation as error:
            self._over(f"it broke the protocol: {error}")
        except Exception as error:
            log.warning("what a peer said, or should be told, could not be answered", exc_info=True)
            self._over(f"what it said, or should be told, could not be answered: {type(error).__name__}: {error}")
        return self._side.taken()

    def _over(self, words: str) -> None:
        self._is_over = True
        self._side.act(do.Over(words))

    @property
    def share(self) -> Share:
        """What the peer has taken of this host by this line."""
        return self._side.share

    @property
    def changes(self) -> int:
        """How often it has become another, what the peer wants or sends."""
        return self._side.changes

    def explain(self, topic: str) -> None:
        """There is something to say of the topic: it will be among the `explained`."""
        self._side.explained.add(topic)

    def explained(self) -> set[str]:
        """Topics of which it may be another reason than when this was asked last why they do not cross."""
        found, self._side.explained = self._side.explained, set()
        return found

    def leave(self, for_ns: int) -> list[do.Effect]:
        """Says that this node ends: the peer is to keep RELIABLE topics for the next node for `for_ns` at most."""
        self._side.say(Leaving(for_ns))
        return self._side.taken()

    def see_clock(self, set_ns: int) -> list[do.Effect]:
        """By how much the wall clock of this host was set: the peer is told when it is news."""
        if self._told_set_ns is None or abs(set_ns - self._told_set_ns) >= CLOCK_SET_NS:
            self._told_set_ns = set_ns
            self._side.say(Clock(set_ns))
        return self._side.taken()

    def _hear_clock(self, clock: Clock, _size: int) -> None:
        self.peer_set_ns = clock.set_ns

    def freed(self, lane: Lane) -> list[do.Effect]:
        """The messages of a lane that came over a line before this one are on the bus now."""
        return self._effects(self.incoming.freed, lane)

    def left(self, route: int, sent: int) -> list[do.Effect]:
        """LeaveOut or DropOut is done: the route is closed. `sent`: how many messages went by it."""
        return self._effects(self.outgoing.left, route, sent)

    def first(self, route: int) -> list[do.Effect]:
        """A message has come by a route that was opened for later."""
        return self._effects(self.incoming.begin, route)

    def drained(self, route: int) -> list[do.Effect]:
        """DrainIn is done: all that the peer sent by the route is on the bus, or the lease is over."""
        return self._effects(self.incoming.drained, route)

    def failed(self, effect: do.Effect, refusal: Refusal, sent: int | None) -> list[do.Effect]:
        """An effect could not be carried out, and its route is closed. `sent`: how many messages went by it; None: the
        peer never heard of it."""
        route: int | None = getattr(effect, "route", None)
        if route is None:
            return self._effects(self._over, refusal.why)
        if isinstance(effect, do.INBOUND):
            return self._effects(self.incoming.fail, route, refusal)
        return self._effects(self.outgoing.fail, route, refusal, sent)

    def again(self) -> list[do.Effect]:
        """Ask and open once more what failed for want of room, a bounded number of topics at a time."""
        return self._effects(self._again)

    def _again(self) -> None:
        for topic in [*islice(self._side.failed, AGAIN_MOST)]:
            del self._side.failed[topic]
            self.incoming.again(topic)
            self.outgoing.again(topic)

    def _of(self, message: Denied | Allowed) -> IncomingRoutes | OutgoingRoutes:
        return self.incoming if message.verb == VERBS[0] else self.outgoing

    def _hear_late(self, message: Hello | Join | Joined | Bye, _size: int) -> None:
        raise Violation(f"{type(message).__name__.lower()} in the middle of a line")


_HEARD: Final[dict[type, Callable[[Control, Any, int], None]]] = {
    **dict.fromkeys((Hello, Join, Joined, Bye), Control._hear_late),
    Interest: lambda control, message, size: control.outgoing.hear_interest(message, size),
    Open: lambda control, message, size: control.incoming.hear_open(message, size),
    Close: lambda control, message, _: control.incoming.hear_close(message),
    Unsent: lambda control, message, _: control.incoming.hear_unsent(message),
    Answer: lambda control, message, _: control.outgoing.hear_answer(message),
    Advertise: lambda control, message, size: control.incoming.hear_advertise(message, size),
    Denied: lambda control, message, _: control._of(message).hear_denied(message),
    Allowed: lambda control, message, _: control._of(message).hear_allowed(message),
    Leaving: lambda control, message, _: control.outgoing.hear_leaving(message),
    Clock: Control._hear_clock,
    Programs: lambda control, message, size: control.programs.hear(message, size),
}
