"""One peer that this node has a link with: its line, the routes on it, and the control that says which there are.

Controls wait until the line takes them (`Mouth`); the bytes that may wait for a peer are bounded. `Exceeded` counts the
messages of a peer's topics that were above a ceiling of the rules, in either direction. `Said` has what the log has
said already, so that it says it once.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final, Generic, NamedTuple, TypeVar

from rtmw.clock import CLOCK
from rtmw.errors import RtmwError
from rtmw.net.link import lanes as do
from rtmw.net.link.control import Control
from rtmw.net.link.lanes import Lane
from rtmw.net.link.library import Connection, Line, Route
from rtmw.net.link.messages import COUNT_MOST, Hello, Open, Unsent, Using, pack
from rtmw.net.link.routes import Account, Refusal
from rtmw.net.neighbours import LocalTopic
from rtmw.net.security.rules import Rights, Verdict
from rtmw.net.settings import Settings
from rtmw.net.topics import Ended
from rtmw.observe.node_status import Undelivered
from rtmw.publisher import wire_type
from rtmw.qos import Reliability
from rtmw.text.units import duration, size
from rtmw.text.visible import visible

SAID_MOST: Final = 1000
"""The keys that are remembered. Beyond them the oldest is forgotten, and may be said again."""

_Key = TypeVar("_Key", bound=Hashable)


class Said(Generic[_Key]):
    def __init__(self) -> None:
        self._said: dict[_Key, None] = {}

    def __contains__(self, key: _Key) -> bool:
        return key in self._said

    def is_news(self, key: _Key) -> bool:
        """Has the log not said it yet? From now on it has."""
        if key in self._said:
            return False
        self._said[key] = None
        if len(self._said) > SAID_MOST:
            del self._said[next(iter(self._said))]
        return True

    def clear(self) -> None:
        self._said.clear()


CONTROLS_MOST: Final = 1024
"""Controls that are given to a line and have not left yet; more wait here."""
UNSAID_MOST: Final = 64 << 20
"""Bytes of controls that may wait here for one peer. Beyond this the peer does not read, but sends controls that need
an answer: the line ends."""
CONTROL_BYTES: Final = 100
"""Memory of a control beside its bytes."""


class Mouth:
    """Controls that wait until one line takes them. Not for several threads."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self._waiting: deque[bytes] = deque()
        self._size = 0

    def add(self, data: bytes) -> None:
        self._waiting.append(data)
        self._size += len(data) + CONTROL_BYTES

    def say(self) -> None:
        """Give the line what it takes."""
        room = CONTROLS_MOST - self._line.info()["controls"] if self._waiting else 0
        while self._waiting and room > 0:
            data = self._waiting.popleft()
            self._size -= len(data) + CONTROL_BYTES
            self._line.say(data)
            room -= 1

    @property
    def is_behind(self) -> bool:
        """True: controls that can wait should not be said now."""
        return len(self._waiting) >= CONTROLS_MOST

    @property
    def is_full(self) -> bool:
        return self._size > UNSAID_MOST


class Way(NamedTuple):
    """A direction of topics, as the rules and the sentences about it have it."""

    verb: str
    kept: str
    log: str


WAYS: Final = {
    "out": Way(
        "subscribe",
        "kept from it",
        "%s may not have all of %s by the rules (%s); what exceeds it is not sent to it, and is counted",
    ),
    "in": Way(
        "publish",
        "not taken from it",
        "%s sends more of %s than the rules allow (%s); what exceeds it is dropped and counted",
    ),
}


class Exceeded:
    """Ceilings of the rules that messages of one link were above. Not for several threads."""

    def __init__(self, rights: Rights, peer: str) -> None:
        self._rights, self._peer = rights, peer
        self._said = Said[tuple[str, str, str]]()
        """Directions, topics and ceilings."""

    def is_news(self, way: str, topic: str, ceiling: str) -> bool:
        """A message has exceeded it. False: one did before."""
        return self._said.is_news((way, topic, ceiling))

    def forget(self) -> None:
        """The ceilings may be others from now on."""
        self._said.clear()

    def why(self, way: str, topic: str) -> Iterator[Refusal]:
        """Why some messages of a topic that crosses do not, each with the rule that says so."""
        verdict = self._rights.may(self._peer, WAYS[way].verb, topic)
        for ceiling, words in _ceilings(verdict).items():
            if (way, topic, ceiling) in self._said:
                yield Refusal(ceiling, f"messages above {words} are {WAYS[way].kept} by {verdict.place}")


def _ceilings(verdict: Verdict) -> dict[str, str]:
    return {
        "priority": f"priority {verdict.max_priority}",
        "size": size(verdict.max_size),
        "rate": f"{size(verdict.max_rate)}/s",
    }


DROPPED: Final = ("lost", "expired", "malformed", "no_memory", "old", "priority", "size", "rate")
"""The ways in which a message of an inbound route ends, beside `received`."""


@dataclass
class Out:
    """A route by which this node sends."""

    lane: Lane
    type_name: str
    route: Route
    verdict: Verdict
    """Its ceilings hold for what is sent."""
    kept: tuple[int, int]
    """Depth and minimum interval."""
    leave_by: float = 0.0
    """CLOCK_MONOTONIC, when it is closed at the latest; 0: it is to stay."""
    unsent: tuple[int, int] = (0, 0)
    """Messages that had expired or were thinned, as the peer was told last."""
    park_ns: int = 0
    """Messages that it has not taken from the bus by then are kept for the next route, for so long."""

    def unsent_since(self) -> tuple[int, int]:
        """How many more there are than when this was asked last."""
        before, self.unsent = self.unsent, self.route.passed()
        return self.unsent[0] - before[0], self.unsent[1] - before[1]

    @property
    def topic(self) -> str:
        return self.lane.topic

    @property
    def reliability(self) -> Reliability:
        return self.lane.reliability


@dataclass
class In:
    """A route by which the peer sends."""

    open: Open
    lane: Lane
    type_name: str
    route: Route
    sent: int | None = None
    """How many messages the peer has sent by it, once it sends no more."""
    close_by: float = 0.0

    @property
    def topic(self) -> str:
        return self.open.topic

    @property
    def reliability(self) -> Reliability:
        return self.open.reliability

    def is_drained(self) -> bool:
        """Has all come that the peer has sent by this route, or is it known not to come?"""
        counted = self.route.counters()
        come = counted["received"] + sum(counted.get(cause, 0) for cause in DROPPED)
        return self.sent is not None and come >= self.sent and self.route.delivered()


log = logging.getLogger("rtmw.node")

LEASE_LEAST: Final = 0.1
"""Seconds: what settings may say. A peer that says less is taken to say this."""
AGAIN_S: Final = 5.0
"""Seconds until what had no room on this host is tried again."""
BROKEN: Final = 2
"""Code of an event "down": the peer broke a rule of the wire."""
TOLD: Final = 5
"""Code of an event "down": the peer has said why."""
_UNSENT_S: Final = 1.0
"""Seconds between two reports to a peer about what was not sent to it."""


class Linked:
    """The link with one peer, from the first connection until its line is over. Not for several threads."""

    def __init__(
        self, number: int, line: Line, peer: Hello, name: str, rights: Rights, settings: Settings,
        window: int, ended: Mapping[str, Ended], on_bus: Callable[[str], dict[int, int]], region: str,
        elder: Linked | None = None, account: Account | None = None,
    ) -> None:  # fmt: skip
        """`number`: of the line. `window`: bytes of a route that may be on their way. `ended`: where counters go of
        routes that are closed, by direction. `on_bus`: what the bus keeps of a topic (neighbours.on_bus). `region`: by
        which publishers of the peer are told apart. `elder`: of the line before this one, which was retired: its
        messages come first. `account`: of all nodes of the peer."""
        self._elder, self._taken = elder, elder.drain() if elder else set[Lane]()
        self._on_bus, self._region = on_bus, region
        self.number, self.line, self.peer, self.name = number, line, peer, name
        self.control = Control(name, rights, settings, lambda lane: lane.base in self._taken, account)
        self.out: dict[int, Out] = {}
        self.into: dict[int, In] = {}
        self.since = CLOCK.wall()
        self.is_up = False
        self.down_since = CLOCK.monotonic()
        self.why_down, self.down_code = "", 0
        self.over: str | None = None
        """Why the line must end; None: it may go on."""
        self.cipher, self.has_crc, self.is_far = "", False, False
        """What keeps the frames of its connections from damage, neither within a host; are round trips long?"""
        self._settings, self._window, self._ended = settings, window, ended
        self._elder_by = CLOCK.monotonic() + self.lease
        self._is_leaving = self._is_left = self._is_closed = False
        """This node ends; the peer does; the line is closed."""
        self._mouth = Mouth(line)
        self._unseen: set[str] = set()
        """Topics of this host that have changed, and of which a peer that takes controls slowly is told later."""
        self._programs: Mapping[str, tuple[Using, ...]] = {}
        self._untold: set[str] = set()
        """Topics of whose programs the peer is to be told."""
        self._exceeded = Exceeded(rights, name)
        self._failed = Said[str]()
        """Kinds of effects of which the log has said that one could not be carried out."""
        self._again_at = CLOCK.monotonic() + AGAIN_S
        self._tell_unsent_at = 0.0
        self._denied = Said[str]()
        """Topics of which the log has said that the peer denies them."""

    def __str__(self) -> str:
        return self.name or f"the node of domain {self.peer.domain} on {visible(self.peer.host)}"

    @property
    def lease(self) -> float:
        """Seconds for which it may be cut: the shorter of what both ends say, for then one waits no more."""
        own, said = self._settings.link.lease, self.peer.lease_ms / 1e3
        return min(own, max(said, LEASE_LEAST)) if said else own

    def carry(self, peer: Hello, urgent: Connection, bulk: Connection) -> None:
        """These two connections carry the line from now on. `peer`: what it said over them."""
        self.peer = peer
        self.cipher, self.has_crc, self.is_far = urgent.cipher, urgent.has_crc, urgent.is_far
        self.line.lease(int(self.lease * 0.5e9))
        self.line.limit(self._settings.link.max_rate)
        self.line.carry(urgent, bulk)

    def happened(self) -> None:
        """Take what the line has to tell."""
        for kind, number, data in self.line.events():
            if self.over is not None:
                return
            if kind == "control":
                self._do(self.control.heard(data))
            elif kind == "up":
                self.is_up = True
                log.info("the link with %s is up", self)
            elif kind == "down":
                self._down(number, visible(data.decode(errors="replace")))
            elif kind == "first":
                self._do(self.control.first(number))
            elif kind == "refused" and number in self.into:
                self._exceeds("in", self.into[number].topic, data.decode())
            elif kind == "withheld" and number in self.out:
                self._exceeds("out", self.out[number].topic, data.decode())

    def _down(self, code: int, words: str) -> None:
        self.is_up, self.down_since, self.why_down, self.down_code = False, CLOCK.monotonic(), words, code
        log.warning("the link with %s is cut: %s", self, words or "it was closed")
        if code == BROKEN:
            self.over = f"it broke a rule of the wire: {words}"

    def _exceeds(self, way: str, topic: str, ceiling: str) -> None:
        if self._exceeded.is_news(way, topic, ceiling):
            self.control.explain(topic)
            log.warning(WAYS[way].log, self, topic, ceiling)

    def withheld(self, way: str, topic: str) -> Iterator[Refusal]:
        """Why some messages of a topic that crosses do not. `way`: `out` or `in`."""
        if any(route.topic == topic for _, route in self.routes(way)):
            yield from self._exceeded.why(way, topic)

    def see(self, topics: Mapping[str, LocalTopic], changed: Collection[str]) -> None:
        """Tells the topics of the bus of this host; `changed`: since the last call, all at the beginning."""
        self._unseen.update(changed)
        while self._unseen and self.over is None and not self._mouth.is_behind:
            self._act(self.control.see(topics, [self._unseen.pop()]))
        self._say()

    def tell(self, programs: Mapping[str, tuple[Using, ...]]) -> None:
        """Programs here, by topic, as far as the settings let it cross; the peer hears of those that it may know."""
        self._programs = programs
        self._untold = {*programs, *self.control.programs.told()}
        self._tell()

    def _tell(self) -> None:
        while self._untold and self.over is None and not self._mouth.is_behind:
            topic = self._untold.pop()
            self._act(self.control.see_programs(topic, self._programs.get(topic, ())))
        self._say()

    def obey(self, settings: Settings) -> None:
        """Rules or settings are others."""
        self._settings = settings
        self._exceeded.forget()
        self.line.limit(settings.link.max_rate)
        self._do(self.control.obey(settings))
        for out in self.out.values():
            self._limit(out)

    def step(self) -> None:
        """Close what has come to its end, and say what had no room. Ten times a second."""
        now = CLOCK.monotonic()
        self._act(self.control.see_clock(self.set_ns()))
        self._see_elder(now)
        if now >= self._again_at:
            self._again_at = now + AGAIN_S
            self._act(self.control.again())
        for number, out in [*self.out.items()]:
            if out.leave_by and (now >= out.leave_by or out.route.delivered()):
                self._left(number)
        if now >= self._tell_unsent_at:
            self._tell_unsent_at = now + _UNSENT_S
            for number, out in self.out.items():
                self._tell_unsent(number, out)
        for number, into in [*self.into.items()]:
            if into.sent is not None and (now >= into.close_by or into.is_drained()):
                self._do(self.control.drained(number))
        self._tell()

    def _tell_unsent(self, number: int, out: Out) -> None:
        unsent = out.unsent_since()
        if any(unsent):
            self._mouth.add(pack(Unsent(number, *(min(count, COUNT_MOST) for count in unsent))))

    def set_ns(self) -> int:
        """By how much the wall clock of this host was set since the steady one of its links began."""
        return CLOCK.wall_ns() - self.line.steady_ns()

    def _see_elder(self, now: float) -> None:
        if self._elder is None:
            return
        left = self._elder.drain() if now < self._elder_by else set[Lane]()
        freed, self._taken = self._taken - left, left
        if not left:
            self._elder.close("its messages are on the bus")
            self._elder = None
        for lane in freed:
            self._do(self.control.freed(lane))

    def is_lost(self) -> bool:
        """Has the line been cut for longer than the lease?"""
        return not self.is_up and CLOCK.monotonic() - self.down_since >= self.lease

    def routes(self, way: str) -> Iterable[tuple[int, Out | In]]:
        """`out` or `in`, with their numbers."""
        return self.out.items() if way == "out" else self.into.items()

    def leave(self, for_s: float) -> None:
        """This node ends: the peer keeps RELIABLE topics for the next one."""
        self._do(self.control.leave(int(for_s * 1e9)))

    def finish(self) -> None:
        """Take nothing more from the bus. Idempotent."""
        if not self._is_leaving:
            self._is_leaving = True
            for out in self.out.values():
                out.route.finish()

    def is_delivered(self) -> bool:
        """Once this node leaves: has all arrived that was taken here, and is all on the bus that the peer has sent?"""
        into = (one for one in self.into.values() if one.reliability is Reliability.RELIABLE)
        is_all_here = not any(into) if self.is_up else all(one.route.delivered() for one in into)
        return is_all_here and all(out.route.delivered() for out in self.out.values())

    def undelivered(self) -> Iterator[Undelivered]:
        """Messages that are still on their way, or wait for room here."""
        for out in self.out.values():
            if not out.route.delivered():
                yield Undelivered(out.topic, "out", out.route.held(), (str(self),))
        for into in self.into.values():
            if into.reliability is Reliability.RELIABLE and (held := into.route.held()):
                yield Undelivered(into.open.topic, "in", held)

    def retire(self, words: str, park_ns: int = 0) -> bool:
        """End the line, but for what has come of RELIABLE topics and waits for room on the bus. False: nothing does,
        and the line is closed. `park_ns`: for so long RELIABLE topics are kept for the next node."""
        self.over = self.over or words
        for number, out in [*self.out.items()]:
            self._close_out(number, max(park_ns, out.park_ns))
        if not self._is_closed:
            self.line.cut(words)
        if not self.drain():
            self._close_line()
        return bool(self.into)

    def _close_line(self) -> None:
        self._is_closed = True
        self.line.close()
        self.control.share.close()

    def drain(self) -> set[Lane]:
        """Close the routes of the peer of which nothing waits; the bases of the lanes of the others."""
        for number, one in [*self.into.items()]:
            if one.route.delivered():
                self._close_in(number)
        return {one.lane.base for one in self.into.values()}

    def close(self, words: str, park_ns: int = 0) -> None:
        """End the line, with all that waits. Idempotent."""
        self.retire(words, park_ns)
        for number in [*self.into]:
            self._close_in(number)
        self._close_line()

    # ---- effects ----

    def _do(self, effects: list[do.Effect]) -> None:
        self._act(effects)
        self._say()

    def _act(self, effects: list[do.Effect]) -> None:
        for effect in effects:
            if self.over is not None:
                return
            try:
                _DO[type(effect)](self, effect)
            except Exception as error:  # it costs the peer this route: all other effects are carried out
                self._fail(effect, error)

    def _fail(self, effect: do.Effect, error: Exception) -> None:
        """Close what is there of the route of an effect that could not be carried out, and tell the peer why."""
        why = str(error) if isinstance(error, RtmwError) else f"{type(error).__name__}: {error}"
        if self._failed.is_news(type(effect).__name__):
            unexpected = None if isinstance(error, RtmwError) else error
            words = "a route of %s fails here: %s; more like it are told to it alone"
            log.warning(words, self, visible(why), exc_info=unexpected)
        number, sent = getattr(effect, "route", 0), None
        if isinstance(effect, do.INBOUND):
            if number in self.into:
                self._close_in(number)
        elif number in self.out:
            sent = self._close_out(number, 0)
        self._act(self.control.failed(effect, Refusal("host", why), sent))

    def _say(self) -> None:
        self._mouth.say()
        if self._mouth.is_full and self.over is None:
            self.over = f"it takes no controls, and more than {UNSAID_MOST >> 20} MiB of them wait for it"

    def _do_say(self, effect: do.Say) -> None:
        self._mouth.add(effect.data)

    def _do_open_out(self, effect: do.OpenOut) -> None:
        lane, offer = effect.lane, effect.offer
        is_reliable = lane.reliability is Reliability.RELIABLE
        kept = (offer.depth, effect.asked.min_interval_ns)
        route = self.line.outbound(
            effect.route, lane.topic, wire_type(offer.type), lane.reliability, kept[0], offer.history, kept[1],
            int(self.lease * 1e9) if is_reliable else 0, self._carried(lane), effect.is_followed,
        )  # fmt: skip
        self._mouth.add(pack(effect.asks(route.begins())))
        if self._is_leaving:
            route.finish()
        out = self.out[effect.route] = Out(lane, offer.type.name, route, effect.verdict, kept)
        self._limit(out)

    def _carried(self, lane: Lane) -> int:
        """By which the next node of this host, too, knows how far a lane was carried to the peer."""
        words = repr((self._settings.wire_domain, self.name, self._region, lane.base)).encode()
        return int.from_bytes(blake2b(words, digest_size=8).digest()) | 1

    def _limit(self, out: Out) -> None:
        """The rules limit what the peer gets of the topic; the settings what all peers get of it."""
        verdict, of_topic = out.verdict, self._settings.rate_of(out.lane.topic)
        out.route.limit(verdict.max_rate, verdict.max_priority, verdict.max_size, of_topic)

    def _do_adjust_out(self, effect: do.AdjustOut) -> None:
        out, kept = self.out[effect.route], (effect.offer.depth, effect.asked.min_interval_ns)
        if kept != out.kept:
            out.kept = kept
            out.route.adjust(*kept)
        out.verdict = effect.verdict
        self._limit(out)

    def _do_leave_out(self, effect: do.LeaveOut) -> None:
        self.out[effect.route].leave_by = CLOCK.monotonic() + self.lease

    def _do_part_out(self, effect: do.PartOut) -> None:
        out, park_ns = self.out[effect.route], min(effect.for_ns, int(self._settings.handover * 1e9))
        out.route.finish()
        out.leave_by, out.park_ns = CLOCK.monotonic() + self.lease, park_ns
        if not self._is_left:
            self._is_left = True
            wait = f"the next one, for {duration(park_ns / 1e9)} at most" if park_ns else "no next one"
            log.info("%s ends; RELIABLE topics wait for %s", self, wait)

    def _do_stay_out(self, effect: do.StayOut) -> None:
        self.out[effect.route].leave_by = 0.0

    def _do_drop_out(self, effect: do.DropOut) -> None:
        self._left(effect.route)

    def _left(self, number: int) -> None:
        known, park_ns = self.control.outgoing.routes.get(number), self.out[number].park_ns
        if known is not None and known.is_changing:
            park_ns = max(park_ns, int(self.lease * 1e9))
        sent = self._close_out(number, park_ns)
        self._do(self.control.left(number, sent))

    def _close_out(self, number: int, park_ns: int) -> int:
        """How many messages it has sent."""
        out = self.out.pop(number)
        if out.lane.reliability is Reliability.RELIABLE:
            out.route.park(park_ns)
        out.route.stop()
        counted = out.route.counters()
        self._tell_unsent(number, out)
        self._ended["out"].add(out.lane.topic, counted)
        out.route.close()
        return counted["sent"]

    def _do_open_in(self, effect: do.OpenIn) -> None:
        asked, verdict = effect.open, effect.verdict
        lane = Lane(asked.topic, effect.type.identity, asked.reliability, asked.history > 0)
        route = self.line.inbound(
            effect.route, asked.topic, wire_type(effect.type), asked.reliability, asked.priority, asked.depth,
            asked.history, self._region, effect.asked.history > 0, self._window, *verdict.ceilings,
            self._on_bus(asked.topic) if asked.history else {}, asked.begins, effect.later,
        )  # fmt: skip
        self.into[effect.route] = In(asked, lane, effect.type.name, route)
        self._mouth.add(pack(effect.agrees()))

    def _do_begin_in(self, effect: do.BeginIn) -> None:
        self.into[effect.route].route.begin()

    def _do_adjust_in(self, effect: do.AdjustIn) -> None:
        verdict = effect.verdict
        self.into[effect.route].route.limit(verdict.max_rate, verdict.max_priority, verdict.max_size)

    def _do_drain_in(self, effect: do.DrainIn) -> None:
        into = self.into[effect.route]
        into.sent, into.close_by = effect.sent, CLOCK.monotonic() + self.lease

    def _do_tell_in(self, effect: do.TellIn) -> None:
        self.into[effect.route].route.unsent(effect.expired, effect.thinned)

    def _do_close_in(self, effect: do.CloseIn) -> None:
        self._close_in(effect.route)

    def _close_in(self, number: int) -> None:
        into = self.into.pop(number)
        into.route.abandon()
        self._ended["in"].add(into.open.topic, into.route.counters())
        into.route.close()

    def _do_denial(self, effect: do.Denial) -> None:
        if self._denied.is_news(effect.topic):
            words = "%s denies what programs here publish of %s (%s): %s; it does not cross the link"
            log.warning(words, self, *effect)

    def _do_over(self, effect: do.Over) -> None:
        self.over = effect.words


_DO: Final[dict[type, Callable[[Linked, Any], None]]] = {
    do.Say: Linked._do_say,
    do.OpenOut: Linked._do_open_out,
    do.AdjustOut: Linked._do_adjust_out,
    do.LeaveOut: Linked._do_leave_out,
    do.PartOut: Linked._do_part_out,
    do.StayOut: Linked._do_stay_out,
    do.DropOut: Linked._do_drop_out,
    do.OpenIn: Linked._do_open_in,
    do.BeginIn: Linked._do_begin_in,
    do.AdjustIn: Linked._do_adjust_in,
    do.DrainIn: Linked._do_drain_in,
    do.TellIn: Linked._do_tell_in,
    do.CloseIn: Linked._do_close_in,
    do.Denial: Linked._do_denial,
    do.Over: Linked._do_over,
}
