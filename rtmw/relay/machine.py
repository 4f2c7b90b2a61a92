"""The steps of a relay, without I/O: what comes in, which rows that makes, and what leaves once they are durable.

    connections ── connected, arrived, gone ──► Machine ── rows ──► the record
                                                   └── calls, once they are durable ──► Carrier

The losses of the paper (R7 to R9): an order that was sent is sent again after T2, up to N2 times, and then its source
is told. The time runs from STORED: a try that finds no connection, or stands in line, counts, too; so a source has its
answer within T2·(N2+1), whatever the recipient does. For a recipient with `absent = "keep"` it runs from the first try
that leaves, and the order waits as long as its lifetime lets it. An order that comes again gets its last answer again.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

from rtmw.net.security.names import AGENT
from rtmw.relay import rows as r
from rtmw.relay.frame import (
    ALL,
    Frame,
    FrameError,
    Hello,
    Kind,
    Packet,
    frame_of,
    kind_of,
    readable,
    receipt_of,
    skew_of,
)
from rtmw.relay.policy import Judged, Policy, Wish, command_of, performative_in
from rtmw.relay.rows import Row
from rtmw.relay.settings import Agent, Subject
from rtmw.relay.state import Id, Leg, Order, State, Stream, stream_name

K = TypeVar("K")
KEPT_S: Final = 86_400.0
"""The lifetime of an order for an agent that is absent, if neither rule nor frame says one."""
TAKEOVERS: Final = 5
"""Connections of one agent that newer ones may replace within TAKEOVERS_S. More: two programs fight for its place."""
TAKEOVERS_S: Final = 60.0
LAST_PARTS: Final = 10
"""In the last such part of its last try an order is not sent for the first time: it is safely undelivered."""
LEAST_S: Final = 0.001
"""An order with less of its lifetime left is not sent for the first time: it is EXPIRED."""
COMPACT_LEAST: Final = 1024
"""Entries of a heap, from which on those that are over are taken out."""
IN_FLIGHT: Final = 512 << 10
"""Bytes of bodies that one recipient has not confirmed, from which on no other order is sent to it."""
ROWS_MOST: Final = 50
"""Rows of a second about frames of one agent that are refused or dropped. What comes beyond is counted in one row."""
ALARM_S: Final = 60.0
"""For so long an alarm is not raised again, and what would have raised it is counted."""
THINGS_MOST: Final = 4096
"""Things that a `Seldom` remembers: the last ones."""
SKEW_S: Final = 600.0
"""For so long what was the greatest skew of a clock counts, and no smaller one."""
SKEW_SLACK_S: Final = 1.0
"""For so long an order may have waited for its connection, and still tells of a clock."""
FILTERS_MOST, FILTER_LONGEST = 64, 256
"""Subscriptions of one agent to one subject; bytes of each. All are asked with each order to it."""
BURST_S: Final = 1.0
"""Seconds of its rate that an agent may use up at once."""


@dataclass
class _Line:
    """A recipient as it is now: what is not in rows."""

    connection: int = 0
    """0: it has none."""
    since: int = 0
    """When that came or went, and the next, when an order was sent to it last: wall time in nanoseconds; 0: never."""
    last_sent: int = 0
    hello: Hello | None = None
    """The hello of that connection, or of the last one. None: it speaks the frame of the paper, or was never there."""
    ready: list[tuple[int, int, Stream]] = field(default_factory=list[tuple[int, int, Stream]])
    """A heap of streams whose first order may leave: highest priority first, then the oldest."""
    sent: dict[int, Leg] = field(default_factory=dict[int, Leg])
    """Orders that have left on this connection, and that it has not answered, by number."""
    in_flight: int = 0
    """Bytes of the bodies of these orders."""
    takeovers: list[float] = field(default_factory=list[float])
    skew: float | None = None
    """Seconds by which its clock is ahead, and the next, when a frame said so; None: none has."""
    skew_at: float = 0.0
    rows_until: float = 0.0
    """Until then `rows` rows have been written about frames that were refused or dropped, and about connections."""
    rows: int = 0
    debts: dict[str, float] = field(default_factory=dict[str, float])
    """By rule: when the orders that this agent has sent would have come at its rate."""


class Seldom(Generic[K]):
    """Says of each thing when it may be told again, after so many seconds, and how often it was not meanwhile."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._due: dict[K, tuple[float, int]] = {}

    def missed(self, thing: K, now: float) -> int | None:
        """How often it was not told since it was told last; then it is told now. None: it is not."""
        due, more = self._due.pop(thing, (0.0, 0))
        self._due[thing] = (due, more + 1) if now < due else (now + self._seconds, 0)
        while len(self._due) > THINGS_MOST:
            del self._due[next(iter(self._due))]
        return None if now < due else more


class NoAct(ValueError):
    """An act cannot be done; the message says why."""


class Act(NamedTuple):
    """What an operator asks for."""

    uid: int
    verb: str
    """One of ACTS."""
    whom: str
    """The number of an order; or an agent or a stream, as `stream_name` has it."""
    body: bytes | None = None
    """The body of the order that is to be sent anew; None: the record has it no more."""
    reply: Callable[[str, bool], None] = lambda words, is_done: None
    """Is called with what was done, or why nothing was, and with True or False for which of both."""


class Carrier(Protocol):
    """Does what the machine says."""

    def forward(self, connection: int, order: int, recipient: str) -> None:
        """Sends the frame of an order, if `Machine.is_wanted` says so by then."""

    def say(self, connection: int, frame: Frame, kind: Kind) -> None: ...
    def dial(self, name: str) -> None:
        """Connects to an agent, if the settings say where."""

    def end(self, connection: int, words: str) -> None: ...
    def alarm(self, row: Row) -> None: ...


_Timer = tuple[float, int, str, Leg]
"""When it is due; the number and the recipient of the leg, so that legs are not compared; and that."""


class Machine:
    """Not for several threads. What happens is told by `time`, and then by `connected`, `arrived`, `gone`, `unsent`,
    `tick`, `look`, `obeyed`, `own` and `act`; then `done` has what comes of it."""

    def __init__(self, policy: Policy, state: State, stamp: Callable[[], bytes], carrier: Carrier) -> None:
        """`state`: as the rows have it. `stamp`: strictly increasing, of frames that the relay makes itself."""
        self.state, self.policy, self._carrier = state, policy, carrier
        self.full = ""
        """Why no more orders are stored; empty: they are."""
        self._stamp = stamp
        self.lines = defaultdict[str, _Line](_Line)
        self._agents: dict[int, str] = {}
        self._timers: list[_Timer] = []
        self._compact_at = COMPACT_LEAST
        self._pumped: dict[str, None] = {}
        """Recipients to which something may leave by now, in order."""
        self.rows: Counter[str] = Counter()
        """Rows that were made, by kind."""
        self.changed = set(policy.by_name)
        """Agents of which there may be something else to say than when this was emptied last, and other names."""
        self._untold: Counter[str] = Counter()
        """Frames and connections without rows since the last look, by agent."""
        self._alarms = Seldom[tuple[str, str]](ALARM_S)
        """By agent and cause."""
        self._rows: list[Row] = []
        self._calls: list[partial[None]] = []
        self._now, self._at = 0.0, 0

    def time(self, now: float, at: int) -> None:
        """Sets the time of the next step. `now`: seconds by a clock nobody sets; `at`: wall time in nanoseconds."""
        self._now, self._at = now, at

    def begin(self) -> None:
        """After the rows of the record were applied: each open order goes on, in the try that its age says."""
        at = self._at
        for order in sorted(self.state.open.values(), key=lambda one: one.number):
            tries = 1 + int((at - order.at) / 1e9 / self.policy.relay.t2)
            for leg in order.legs.values():
                if not leg.end:
                    self._enter(leg, max(1, min(tries, self.policy.relay.n2 + 1)))

    @property
    def due(self) -> float:
        """When `tick` is to be called; infinity: not before something else has come."""
        while self._timers and not _is_live(self._timers[0]):
            heapq.heappop(self._timers)
        return self._timers[0][0] if self._timers else math.inf

    def done(self) -> tuple[list[Row], list[partial[None]]]:
        """What may leave does. The rows that the record gets, and what is to be called once they are durable."""
        for recipient in self._pumped:
            self._pump(recipient)
        self._pumped.clear()
        rows, self._rows = self._rows, []
        self.rows.update([row.kind for row in rows])
        self.changed.update([row.recipient for row in rows], *(row.recipients for row in rows if row.recipients))
        calls, self._calls = self._calls, []
        return rows, calls

    def is_wanted(self, number: int, recipient: str) -> bool:
        """Is the order open for this recipient? Behind its end nothing is sent: its source may have been told."""
        order = self.state.open.get(number)
        return order is not None and not order.legs[recipient].end

    def wait(self, agent: str, now: float) -> float | None:
        """Seconds until the next frame of an agent may be heard; None: no rule bounds its rate."""
        if self.policy.relay.rules.most_orders(AGENT + agent) is None:
            return None
        return max(0.0, max(self.lines[agent].debts.values(), default=0.0) - now - BURST_S)

    # ---- connections ----

    def connected(self, connection: int, agent: str, hello: Hello | None = None) -> None:
        """It is known whose this is. `hello`: None, if it speaks the frame of the paper."""
        line = self.lines[agent]
        if line.connection:
            line.takeovers = [one for one in line.takeovers if self._now - one < TAKEOVERS_S]
            if len(line.takeovers) >= TAKEOVERS:
                self._alarm(agent, "more than one program connects as this agent, by turns")
                self._behind(self._carrier.end, connection, "another connection of this agent stays for a minute")
                return
            line.takeovers.append(self._now)
            self._behind(self._carrier.end, line.connection, "a newer connection of this agent takes over")
            del self._agents[line.connection]
        self._agents[connection] = agent
        line.hello = hello
        self._is_at(agent, connection, r.CONNECTED)
        if hello is not None and (its := hello.t1 * (hello.n1 + 1)) <= (ours := self.policy.relay.gives_up_after):
            times = f"after T1·(N1+1) = {its:g} s, and the relay after T2·(N2+1) = {ours:g} s; raise its t1 or n1"
            self._alarm(agent, "it gives up before the relay does", detail=f": {times}")  # and may send it elsewhere

    def gone(self, connection: int) -> None:
        agent = self._agents.pop(connection, None)
        if agent is None:
            return
        self._is_at(agent, 0, r.GONE)
        if self._keeps(agent):
            for leg in self._open_legs(agent):
                leg.attempt, leg.due = 0, math.inf  # it waits, as long as its lifetime lets it

    def _is_at(self, agent: str, connection: int, kind: str) -> None:
        """`connection`: the one that it has from now on; all that it has not answered may leave anew. 0: none."""
        line = self.lines[agent]
        line.connection, line.since = connection, self._at
        line.sent, line.in_flight = {}, 0
        self.changed.add(agent)
        if self._has_row(agent, "connections a second begin or end"):
            self._row(kind, source=agent)
        self._make_all_ready(agent)

    def obeyed(self) -> None:
        """The settings are other ones: agents may have gone, and others have other windows."""
        self.changed.update(self.policy.by_name)
        for connection, name in list(self._agents.items()):
            if self.policy.agents.get(name) is None:
                self._behind(self._carrier.end, connection, "its agent is no more in the settings")
        for recipient in list(self.state.queues):
            for leg in self._open_legs(recipient) if self.policy.agents.get(recipient) is None else []:
                self._fail(leg, "the settings have no such agent")
            self._pumped[recipient] = None

    def _keeps(self, agent: str) -> bool:
        found = self.policy.agents.get(agent)
        return found is not None and found.absent == "keep"

    def _open_legs(self, agent: str) -> list[Leg]:
        return [leg for stream in self.state.queues[agent].streams.values() for leg in stream]

    # ---- what agents send ----

    def arrived(self, connection: int, packet: Packet) -> None:
        name = self._agents.get(connection)
        agent = self.policy.agents.get(name) if name else None
        if agent is None:
            self._behind(self._carrier.end, connection, "it is of no agent of the settings")
            return
        frame = packet.frame
        kind = packet.kind or kind_of(frame, self.policy.relay.form)
        self._look_at_clock(agent.name, frame, kind)
        if kind is None:
            self._drop(agent, frame, f"a type {frame.type!r} that there is not")
        elif kind is Kind.RECEIPT:
            if (leg := self._named(agent, frame)) is None:
                self._drop(agent, frame, "a receipt for nothing")
            else:
                self._confirmed(leg, frame)
        elif kind in (Kind.ORDER, Kind.ANSWER, Kind.FOLLOW, Kind.UNFOLLOW):
            self._order(agent, packet)
        else:
            self._drop(agent, frame, f"{'a' if kind is Kind.NOTICE else 'an'} {kind.name.lower()} from an agent")

    def _look_at_clock(self, name: str, frame: Frame, kind: Kind | None) -> None:
        """A way takes time, and makes a stamp older: so the greatest skew is the best guess. A receipt leaves when it
        is stamped. What else was stamped before its connection began, by this clock, may have waited: an agent that
        sends no receipts shows that its clock is slow when it has been there for so long."""
        line = self.lines[name]
        skew = skew_of(frame.stamp, self._at, is_local=line.hello is None)
        if skew is None or (kind is not Kind.RECEIPT and -skew > (self._at - line.since) / 1e9 + SKEW_SLACK_S):
            return
        if line.skew is None or skew >= line.skew or self._now > line.skew_at + SKEW_S:
            line.skew, line.skew_at = skew, self._now
            self.changed.add(name)

    def _drop(self, agent: Agent, frame: Frame, cause: str) -> None:
        self._pace(agent)
        if self._has_row(agent.name):
            to = readable(frame.destination)
            self._row(r.DROPPED, source=agent.name, destination=to, head=frame.head, cause=cause)

    def _has_row(self, agent: str, what: str = "frames a second are refused or dropped") -> bool:
        """Does this get a row of its own, of which an agent can bring about any number? Else `look` tells how many."""
        line = self.lines[agent]
        if self._now >= line.rows_until:
            line.rows_until, line.rows = self._now + 1, 0
        line.rows += 1
        if line.rows > ROWS_MOST:
            self._untold[agent] += 1
            self._alarm(agent, f"more than {ROWS_MOST} of its {what}")
        return line.rows <= ROWS_MOST

    def _alarm(self, agent: str, cause: str, head: bytes = b"", detail: str = "") -> None:
        """`cause`: one of few, for each is remembered. `detail`: what may be another one each time."""
        if (more := self._alarms.missed((agent, cause), self._now)) is None:
            return
        since = f"; {more} more times since the last such alarm" if more else ""
        row = self._row(r.ALARM, source=agent, head=head, cause=f"{cause}{detail}{since}")
        self._behind(self._carrier.alarm, row)

    def _named(self, agent: Agent, frame: Frame) -> Leg | None:
        """The order that this answer of a recipient is for."""
        source, header = self.policy.by_address.get(frame.destination), self.policy.relay.form.header
        return self.state.named(agent.name, source.name, *frame.answers, header) if source else None

    def _confirmed(self, leg: Leg, receipt: Frame) -> None:
        """The first receipt ends the wait for it, one that is late corrects what was said to the source. One that comes
        again says nothing new: the first one is on record with its stamp."""
        if not leg.end:
            self._end(leg, r.DELIVERED, head=receipt.head)
        elif leg.end != r.DELIVERED:
            self._leg_row(r.LATE, leg, head=receipt.head)
            if not leg.order.failed:
                self._answer(leg.order)
            self._make_ready(leg)  # if it was held behind this one

    def _order(self, agent: Agent, packet: Packet) -> None:
        frame = packet.frame
        head, digest = frame.head, frame.digest
        by_content = self._is_by_content(agent)
        known = self.state.known.get(Id(agent.name, frame.stamp, digest if by_content else b""))
        if known is not None and known.digest != digest:
            cause = "another order came with this stamp before"
            self._alarm(agent.name, cause, head)
            self._refuse(agent, frame, Judged(None, None, cause), by_content=True, is_allowed=True)
            return
        answered = self._named(agent, frame) if frame.type == self.policy.relay.form.answer else None
        if known is not None:
            self._pace(agent)
            self._answer(known)
            if answered is not None and not known.refused:
                self._confirmed(answered, frame)
            return
        to = self.policy.by_address.get(frame.destination)
        stream = stream_name((agent.name, to.name)) if to and self.lines[agent.name].hello else ""
        if stream and frame.stamp <= self.state.forgotten.get(stream, b""):
            self._drop(agent, frame, "its stamp is older than those whose outcome is known")
            self._say(agent.name, head, f"{r.UNCONFIRMED}, its outcome is no longer known")
            return
        if (wish := self.policy.wish(agent, frame, packet.kind)) is not None:
            self._follow(agent, frame, wish)
            return
        judged = self.policy.judge(agent, frame, packet.priority, packet.lifetime)
        if judged.why and answered is not None and frame.source == agent.address and judged.to is not None:
            judged = Judged(None, judged.to, "", answered.order.priority)
        recipients = self._recipients(judged.to, agent, frame)
        why = judged.why or self._hindrance(agent, frame, judged.to, recipients)
        if why or judged.to is None:
            self._refuse(agent, frame, Judged(judged.verdict, judged.to, why))
        else:
            self._store(agent, frame, judged, recipients)
            self._pace(agent, judged)
            if answered is not None:
                self._confirmed(answered, frame)

    def _hindrance(self, agent: Agent, frame: Frame, to: Agent | Subject | None, recipients: list[str]) -> str:
        """Why an order is not stored that the rules let through; empty: it is."""
        form = self.policy.relay.form
        if frame.command == form.alert:
            return "its command is that of alerts"
        if not self.full and not _is_followed(to) and (full := self._full(recipients, len(frame.data))):
            return f"{', '.join(full)} has no room for more orders that wait"
        if self.full or self.lines[agent.name].hello is None:
            return self.full
        lines = ((name, self.lines[name]) for name in recipients)
        if classic := [name for name, line in lines if line.since and line.hello is None]:
            try:
                frame.encode(form=form)
            except FrameError as error:
                return f"{', '.join(classic)} takes frames of the paper alone: {error}"
        return ""

    def _is_by_content(self, agent: Agent) -> bool:
        """Agents of this package never give one stamp to two orders."""
        return agent.id == "content" and self.lines[agent.name].hello is None

    def _follow(self, agent: Agent, frame: Frame, wish: Wish) -> None:
        judged = wish.judged
        followed = self.state.follows.get(judged.to.name if judged.to else "", {}).get(agent.name, set())
        is_new, body = wish.filter not in followed, wish.filter.encode()
        is_much = is_new and (len(followed) >= FILTERS_MOST or len(body) > FILTER_LONGEST)
        if is_much and not wish.is_end and not judged.why:
            words = f"more than {FILTERS_MOST} subscriptions to it, or one of more than {FILTER_LONGEST} bytes"
            judged = replace(judged, why=words)
        if judged.why or judged.to is None:
            self._refuse(agent, frame, judged)
            return
        self._pace(agent, judged)
        changes = is_new != wish.is_end or bool(followed and wish.is_end and wish.filter == ALL)
        if changes or self._has_row(agent.name):  # a flood of what is so already has few rows
            kind = r.UNFOLLOWED if wish.is_end else r.FOLLOWED
            self._add(self._judged_row(kind, agent, frame, judged, body=body, told=True))
        self._say(agent.name, frame.head)

    def _recipients(self, to: Agent | Subject | None, agent: Agent, frame: Frame) -> list[str]:
        """Names of the agents that get an order. Its source gets nothing of an order to a group or another subject."""
        if not isinstance(to, Subject):
            return [to.name] if to is not None else []
        if to.group:
            return [name for name in to.group if name != agent.name]
        names, command = (agent.name, readable(agent.address)), command_of(frame.command)
        performative, follows = performative_in(agent, frame), self.state.follows.get(to.name, {})
        fit = (
            name for name, wanted in follows.items() if any(one.fits(names, command, performative) for one in wanted)
        )
        return [name for name in self.policy.still_follow(to, fit) if name != agent.name]

    def own(self, names: Iterable[str], command: bytes, data: bytes) -> None:
        """The relay itself has an order for some agents; one that has no room, or is not in the settings, has none."""
        for to in (one for one in map(self.policy.agents.get, names) if one and not self._is_full(one.name, len(data))):
            frame = self.policy.own_order(to, self._stamp(), command, data)
            self._store(self.policy.own, frame, Judged(None, to, ""), [to.name])

    def _is_full(self, recipient: str, size: int) -> bool:
        queue, relay = self.state.queues[recipient], self.policy.relay
        return queue.waiting >= relay.max_waiting or queue.bytes + size > relay.max_waiting_bytes

    def _full(self, recipients: list[str], size: int) -> list[str]:
        """The recipients for which as much waits as may. Raises an alarm for each."""
        found = [one for one in recipients if self._is_full(one, size)]
        for one in found:
            self._alarm(one, "orders for it are refused: as many wait as max_waiting says")
        return found

    def _refuse(self, agent: Agent, frame: Frame, judged: Judged, **fields: Any) -> None:
        self._pace(agent, judged)
        if self._has_row(agent.name):
            fields = {"is_allowed": judged.verdict is not None and judged.verdict.allowed} | fields
            fields |= {"performative": self.policy.performative(agent, frame) or "", "size": len(frame.data)}
            self._add(self._judged_row(r.REFUSED, agent, frame, judged, cause=judged.why, **fields))
            self._say(agent.name, frame.head, judged.why)  # without a row it could be stored when it comes again

    def _store(self, agent: Agent, frame: Frame, judged: Judged, recipients: list[str]) -> None:
        is_followed = _is_followed(judged.to)
        full = self._full(recipients, len(frame.data)) if is_followed else []
        lifetime = judged.lifetime or (KEPT_S if any(map(self._keeps, recipients)) else 0.0)
        order = self._stored(self._judged_row(
            r.STORED, agent, frame, judged, recipients=recipients, told=is_followed, priority=judged.priority,
            lifetime=lifetime, body=frame.data,
        ))  # fmt: skip
        self._answer(order)
        for recipient in full:  # it loses its own copy, and costs nobody else theirs
            self._fail(order.legs[recipient], "it has no room for more orders that wait")

    def _stored(self, row: Row) -> Order:
        """A new order: its row gets its number, and its time runs."""
        row.order = self.state.numbered + 1
        self._add(row)
        order = self.state.numbers[row.order]
        for leg in order.legs.values():
            self._enter(leg)
        return order

    def _pace(self, agent: Agent, judged: Judged | None = None) -> None:
        """A source above its rate is not read from: `wait`. A frame that no rule lets through counts for the one that
        lets most through."""
        rule = judged.verdict.rule if judged and judged.verdict else None
        if rule is None:
            rule = self.policy.relay.rules.most_orders(AGENT + agent.name)
        if rule is None or not rule.max_orders:
            return
        debts = self.lines[agent.name].debts
        debts[rule.place] = max(debts.get(rule.place, 0.0), self._now) + 1 / rule.max_orders

    # ---- towards recipients ----

    def _enter(self, leg: Leg, attempt: int = 1) -> None:
        """An open order, for one recipient: its time runs. `attempt`: the try that it is in by now."""
        order = leg.order
        if self.state.queues[leg.recipient].streams[order.stream][0] is leg:
            self._make_ready(leg)
        if not self._keeps(leg.recipient):
            self._set(leg, attempt)
        if order.lifetime:
            leg.ends = self._now + order.lifetime - (self._at - order.at) / 1e9
            self._push(leg.ends, leg)

    def _set(self, leg: Leg, attempt: int) -> None:
        """The try of this number has begun."""
        leg.attempt, leg.due = attempt, self._now + self.policy.relay.t2
        self._push(leg.due, leg)

    def _push(self, due: float, leg: Leg) -> None:
        if len(self._timers) >= self._compact_at:  # else orders that have ended stay as long as their lifetimes
            self._timers = list(filter(_is_live, self._timers))
            heapq.heapify(self._timers)
            self._compact_at = 2 * len(self._timers) + COMPACT_LEAST
        heapq.heappush(self._timers, (due, leg.order.number, leg.recipient, leg))

    def _make_ready(self, leg: Leg) -> None:
        """The first order of its stream may leave, if it has not."""
        self._pumped[leg.recipient] = None
        ready, streams = self.lines[leg.recipient].ready, self.state.queues[leg.recipient].streams
        if (legs := streams.get(leg.order.stream)) is not None:
            heapq.heappush(ready, (-legs[0].order.priority, legs[0].order.number, leg.order.stream))
        if len(ready) > 2 * len(streams) + COMPACT_LEAST:  # orders that ended while it was away
            self._make_all_ready(leg.recipient)

    def _make_all_ready(self, recipient: str) -> None:
        self._pumped[recipient] = None
        firsts = ((stream, legs[0].order) for stream, legs in self.state.queues[recipient].streams.items())
        self.lines[recipient].ready = [(-order.priority, order.number, stream) for stream, order in firsts]
        heapq.heapify(self.lines[recipient].ready)

    def _pump(self, recipient: str) -> None:
        """Send what may leave: of each stream one, of all as many as the window has, and IN_FLIGHT lets begin."""
        line, agent = self.lines[recipient], self.policy.agents.get(recipient)
        while line.ready and line.connection and agent and len(line.sent) < agent.window and line.in_flight < IN_FLIGHT:
            _, number, stream = heapq.heappop(line.ready)
            first = self.state.queues[recipient].streams.get(stream)
            if first is not None and self._may_begin(first[0], number):
                line.sent[number] = first[0]
                line.in_flight += first[0].order.size
                self._send(first[0])
        if line.ready and not line.connection:
            self._behind(self._carrier.dial, recipient)

    def _may_begin(self, leg: Leg, number: int) -> bool:
        """The first of its stream, if it has not been sent, and its time is not all but over."""
        if leg.order.number != number or number in self.lines[leg.recipient].sent:
            return False
        if self.state.is_held(leg.recipient, leg.order.stream):
            return False
        if leg.order.lifetime and (self._at - leg.order.at) / 1e9 + LEAST_S > leg.order.lifetime:
            return False
        relay = self.policy.relay
        return leg.attempt <= relay.n2 or leg.due - self._now > relay.t2 / LAST_PARTS

    def _send(self, leg: Leg) -> None:
        self._leg_row(r.SENT, leg, tries=leg.tries + 1)
        line = self.lines[leg.recipient]
        line.last_sent = self._at
        self._behind(self._carrier.forward, line.connection, leg.order.number, leg.recipient)
        if not leg.attempt:
            self._set(leg, 1)

    def unsent(self, number: int, recipient: str, words: str) -> None:
        """An order that was to leave can stand in no frame that its recipient takes."""
        order = self.state.open.get(number)
        if order is not None and not (leg := order.legs[recipient]).end:
            self._end(leg, r.UNCONFIRMED if leg.tries > 1 else r.UNDELIVERED, words)

    def tick(self) -> None:
        while self.due <= self._now:
            due, *_, leg = heapq.heappop(self._timers)
            if due == leg.ends:
                self._time_out(leg, "its lifetime is over", r.EXPIRED)
            else:
                self._overdue(leg)

    def look(self, full: str) -> None:
        """It is to be called once a second. `full`: why no more orders are stored; empty: they are."""
        self.full = full
        if full:
            self._alarm("", "the disk has no room for more orders")
        untold, self._untold = self._untold, Counter()
        for agent, number in untold.items():
            self._row(r.DROPPED, source=agent, cause=f"{number} more frames or connections, without rows")

    def _overdue(self, leg: Leg) -> None:
        relay, line = self.policy.relay, self.lines[leg.recipient]
        if leg.attempt > relay.n2:
            why = f"no receipt within {relay.gives_up_after:g} s" if leg.tries else self.why_unsent(leg)
            self._time_out(leg, why, r.UNDELIVERED)
            return
        self._set(leg, leg.attempt + 1)
        if not line.connection:
            self._behind(self._carrier.dial, leg.recipient)
        elif leg.order.number in line.sent:
            self._send(leg)

    def why_unsent(self, leg: Leg) -> str:
        held = self.state.queues[leg.recipient].held.get(leg.order.stream)
        if held is not None:
            return f"held behind order {held}, which has failed"
        if self.state.is_held(leg.recipient, leg.order.stream):
            return "held by an operator"
        return "waited behind others" if self.lines[leg.recipient].connection else "not connected"

    def _time_out(self, leg: Leg, cause: str, unsent: str) -> None:
        agent = self.policy.agents.get(leg.recipient)
        is_held = leg.order.stream in self.state.queues[leg.recipient].held
        if agent is not None and agent.on_failure == "hold" and not is_held:
            self._leg_row(r.HELD, leg)
        self._fail(leg, cause, unsent)

    def _fail(self, leg: Leg, cause: str, unsent: str = r.UNDELIVERED) -> None:
        """`unsent`: how it ends if it was never sent."""
        self._end(leg, r.UNCONFIRMED if leg.tries else unsent, cause)

    def _end(self, leg: Leg, kind: str, cause: str = "", head: bytes = b"") -> None:
        self._leg_row(kind, leg, tries=leg.tries, cause=cause, head=head)
        self._over(leg)
        if not leg.order.told:
            self._answer(leg.order)

    def _over(self, leg: Leg) -> None:
        """Its recipient is to answer it no more: its place in the window is another stream's."""
        line = self.lines[leg.recipient]
        if line.sent.pop(leg.order.number, None) is not None:
            line.in_flight -= leg.order.size
        self._make_ready(leg)

    # ---- back to sources ----

    def _answer(self, order: Order) -> None:
        """The receipt or alert that this order has earned so far; an open one has earned none, but for a subject."""
        if order.refused or order.told:
            self._say(order.source, order.head, order.refused)
        elif not order.is_open:
            whom = (f"{leg.recipient}: {leg.end}, {leg.cause}" for leg in order.failed)
            self._say(order.source, order.head, ", ".join(whom))
        elif (source := self.policy.agents.get(order.source)) and (source.notices or self.lines[source.name].hello):
            away = [
                leg.recipient for leg in order.legs.values() if not (leg.end or self.lines[leg.recipient].connection)
            ]
            if kept := list(filter(self._keeps, away)):
                self._say(order.source, order.head, f"kept for {', '.join(kept)}", Kind.NOTICE)

    def _say(self, source: str, head: bytes, cause: str = "", kind: Kind = Kind.ALERT) -> None:
        """A receipt, or with a cause an alert or notice. Who is away asks again, for none is ever acknowledged."""
        connection, form = self.lines[source].connection, self.policy.relay.form
        if connection:
            stamp = self._stamp()
            said = frame_of(head, b"").alert(stamp, cause, form) if cause else receipt_of(head, stamp, form)
            self._behind(self._carrier.say, connection, said, kind if cause else Kind.RECEIPT)

    # ---- operators ----

    def act(self, asked: Act) -> None:
        try:
            words, is_done = ACTS[asked.verb](self, asked), True
        except NoAct as error:
            words, is_done = str(error), False
        self._behind(asked.reply, words, is_done)

    def _act_row(self, asked: Act, order: Order | None = None) -> None:
        of = {} if order is None else {"order": order.number, "source": order.source, "destination": order.destination}
        self._row(r.ACT, cause=f"{asked.verb} {asked.whom}", uid=asked.uid, **of)

    def _hold(self, asked: Act) -> str:
        """What is on its way may still be confirmed; it is not sent again."""
        source, _, to = asked.whom.rpartition(":")
        if to not in self.policy.by_name or (self.policy.agents.get(source or to) is None):
            raise NoAct(f"{asked.whom} is no agent of the settings, and no stream SOURCE:DESTINATION of theirs")
        if asked.whom in self.state.holds:
            raise NoAct(f"{asked.whom} is held already")
        self._act_row(asked)
        for leg in [one for line in self.lines.values() for one in line.sent.values()]:
            if self.state.is_held(leg.recipient, leg.order.stream):
                self._over(leg)
                self.changed.add(leg.recipient)
                if self._keeps(leg.recipient):
                    leg.attempt, leg.due = 0, math.inf
        return f"{asked.whom} is held: nothing goes there until it is released; orders still end at their times"

    def _release(self, asked: Act) -> str:
        behind = ((to, stream_name(one)) for to, queue in self.state.queues.items() for one in queue.held)
        if asked.whom not in self.state.holds and not any(asked.whom in names for names in behind):
            raise NoAct(f"nothing of {asked.whom} is held: rtmw relay agents shows what is")
        self._act_row(asked)
        for recipient in list(self.state.queues):
            self._make_all_ready(recipient)
        return f"{asked.whom} is released"

    def _end_order(self, asked: Act) -> str:
        order = self._open_one(asked)
        self._act_row(asked, order)
        for leg in order.legs.values():
            if not leg.end:
                self._fail(leg, f"dropped by uid {asked.uid}")
        whom = "which has its receipt since it was stored" if order.told else "which is told"
        return f"order {order.number} has ended, of {order.source}, {whom}"

    def _resend(self, asked: Act) -> str:
        order = self._open_one(asked)
        legs = [leg for leg in order.legs.values() if not leg.end]
        sent = [leg for leg in legs if order.number in self.lines[leg.recipient].sent]
        if not sent:
            whys = ", ".join(f"{leg.recipient}: {self.why_unsent(leg)}" for leg in legs)
            raise NoAct(f"order {order.number} is on its way to nobody ({whys}); it goes by itself when it may")
        self._act_row(asked, order)
        for leg in sent:
            self._send(leg)
        return f"order {order.number} is sent again to {', '.join(leg.recipient for leg in sent)}"

    def _meant(self, asked: Act, among: Mapping[int, Order], why_not: str) -> Order:
        """The order that the act names by its number, if it is among these. Raises NoAct."""
        number = int(asked.whom)
        if number not in among:
            last = f"there is no order {number}: the last one that was stored is {self.state.numbered}"
            raise NoAct(f"order {number} {why_not}" if 0 < number <= self.state.numbered else last)
        return among[number]

    def _open_one(self, asked: Act) -> Order:
        return self._meant(asked, self.state.open, f"is not open: rtmw relay show {asked.whom} says how it ended")

    def _requeue(self, asked: Act) -> str:
        """A new order with the frame of one that has failed, for those that have not confirmed it."""
        known = {} if asked.body is None else self.state.numbers
        why_not = "is not known any more, or a later one has taken its place; the source may send it anew"
        order = self._meant(asked, known, why_not)
        failed = [leg.recipient for leg in order.failed]
        if order.is_open or not failed:
            raise NoAct(f"order {asked.whom} has not failed: {'it is open' if order.is_open else 'all confirmed it'}")
        gone = [name for name in failed if self.policy.agents.get(name) is None]
        if why := self.full or ", ".join(f"{name} is no agent any more" for name in gone):
            raise NoAct(why)
        self._act_row(asked, order)
        new = self._stored(Row(
            r.STORED, self._at, source=order.source, destination=order.destination, recipients=failed, told=order.told,
            priority=order.priority, lifetime=order.lifetime, head=order.head, body=asked.body or b"",
            digest=order.digest, by_content=bool(order.id.digest), cause=f"order {order.number} again", uid=asked.uid,
        ))  # fmt: skip
        return f"order {asked.whom} goes to {', '.join(failed)} as order {new.number}: out of order, behind what waits"

    # ---- rows ----

    def _behind(self, call: Callable[..., None], *given: object) -> None:
        self._calls.append(partial(call, *given))

    def _leg_row(self, kind: str, leg: Leg, tries: int = 0, cause: str = "", head: bytes = b"") -> None:
        order = leg.order
        of = order.number, order.source, order.destination, leg.recipient
        self._add(Row(kind, self._at, *of, tries=tries, cause=cause, head=head))

    def _row(self, kind: str, **fields: Any) -> Row:
        return self._add(Row(kind, self._at, **fields))

    def _add(self, row: Row) -> Row:
        self.state.apply(row)
        self._rows.append(row)
        return row

    def _judged_row(self, kind: str, agent: Agent, frame: Frame, judged: Judged, **fields: Any) -> Row:
        """A row about a frame, and the verdict on it."""
        to = judged.to.name if judged.to else readable(frame.destination)
        if judged.verdict is not None:
            fields |= {"rule": judged.verdict.place or "", "version": judged.verdict.version}
        fields.setdefault("by_content", self._is_by_content(agent))
        return Row(kind, self._at, 0, agent.name, to, head=frame.head, digest=frame.digest, **fields)


def _is_live(timer: _Timer) -> bool:
    due, *_, leg = timer
    return not leg.end and due in (leg.due, leg.ends)


def _is_followed(to: Agent | Subject | None) -> bool:
    """Does it go to whoever is subscribed?"""
    return isinstance(to, Subject) and not to.group


ACTS: Final[dict[str, Callable[[Machine, Act], str]]] = {
    "hold": Machine._hold,
    "release": Machine._release,
    "requeue": Machine._requeue,
    "resend": Machine._resend,
    "drop": Machine._end_order,
}
