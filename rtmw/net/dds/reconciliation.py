"""Nodes compare, lane by lane, what one of them has sent with what has come at the other, and tell what was not sent.

A datagram in the name of a DDS endpoint can make the DDS library of one end believe that there is nothing more to
bring, and nobody else notices.

    the node that sends                               the node that receives
    rtmw/lanes: the number of the last sample ──►     the number grows, again and again, and nothing comes:
    another DDS writer takes over             ◄──     rtmw/lanes: the lane stands at this number

Both ends keep what they believe by the GUID of the writer, so another writer mends either. It takes over as when a
policy changes (outbound.c): once all that was sent is acknowledged. A slow line, where nothing is acknowledged that has
not come, keeps its writer, and loses nothing. The first sample of the new writer shows by its number what did not come
(sources.c), and subscribers are told (engine.h).

Such a datagram can silence the talk of nodes, too. Whoever hears no more of a node that DDS takes to be alive begins
anew, with another participant (`unheard`).

Messages that expired or were thinned before they left have no sequence numbers, so nobody misses them otherwise. They
are told by cause, and subscribers elsewhere count them. The news goes reliably to nodes that are there, and says what
there is more than the last time: a node that comes later has missed none of that.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Final

from rtmw.clock import CLOCK
from rtmw.net.dds.bridge import Bridge, LaneKey
from rtmw.net.dds.discovery import Refusals, Refused
from rtmw.net.dds.library import DomainParticipant, make_idl_struct
from rtmw.net.dds.library import types as idl
from rtmw.net.dds.own_topics import Channel
from rtmw.net.dds.routes import Incoming, Outgoing
from rtmw.observe.node_status import Standstill, Standstills
from rtmw.text.patterns import is_own

_LONGEST: Final = 64 << 10
"""Bytes of a sample that is read."""
_LANES_MOST: Final = 1000
"""Lanes that one sample has at most."""
_COUNT_MOST: Final = (1 << 32) - 1

UnsentLane: Any = make_idl_struct(
    "UnsentLane",
    "rtmw::UnsentLane",
    {"topic": idl.uint64, "reliability": idl.uint8, "expired": idl.uint32, "thinned": idl.uint32},
)
Unsent: Any = make_idl_struct("Unsent", "rtmw::Unsent", {"lanes": idl.sequence[UnsentLane]})


class UnsentNews:
    """Tells of the lanes of this node, and has subscribers here count what others tell. Not for several threads."""

    def __init__(self, participant: DomainParticipant, bridge: Bridge, refusals: Refusals) -> None:
        self._bridge = bridge
        self._channel = Channel(participant, "rtmw/unsent", Unsent, _LONGEST, refusals, is_reliable=True)

    def tell(self) -> None:
        """Tells other nodes what was not sent since the last call. Call it once a second, and at the end."""
        rows = [
            UnsentLane(*key, min(counts["expired"], _COUNT_MOST), min(counts["thinned"], _COUNT_MOST))
            for key, counts in self._bridge.unsent().items()
        ]
        for at in range(0, len(rows), _LANES_MOST):
            self._channel.write(Unsent(rows[at : at + _LANES_MOST]))

    def step(self) -> None:
        """Take in what others have told."""
        self._channel.read(self._on_unsent)

    def _on_unsent(self, writer: int, unsent: Any, _: int) -> None:
        if len(unsent.lanes) > _LANES_MOST:
            raise Refused(f"a node tells of {len(unsent.lanes)} lanes; at most {_LANES_MOST} are read")
        guid, told = self._channel.participant_of(writer), dict[LaneKey, Counter[str]]()
        for lane in unsent.lanes:
            of = told.setdefault((lane.topic, lane.reliability), Counter())
            of.update({"expired": lane.expired, "thinned": lane.thinned})
        for route in self._bridge.incoming:
            counts = told.get((route.number, int(route.lane.reliability)))
            if counts and not route.lane.is_plain and self._hears(route, guid):
                route.unsent(counts["expired"], counts["thinned"])

    def _hears(self, route: Incoming, guid: str) -> bool:
        """Does the participant write what this route reads?"""
        return any(writer[:24] == guid[:24] for writer in route.heard())


log = logging.getLogger("rtmw.node")

LANES_TOPIC: Final = "rtmw/lanes"
_GROWN: Final = 2
"""Times in a row that a sender's number has to grow, while nothing comes, before its lane stands still."""
_GROWN_MOST: Final = 64
"""The most times for a lane that goes on to stand still: the number doubles each time that it is said."""
_ANEW_S: Final = 120.0
"""Seconds between two times that a node begins anew because it hears nothing of another one."""
_ROWS_MOST: Final = 100

LaneSent: Any = make_idl_struct(
    "LaneSent", "rtmw::LaneSent", {"topic": idl.uint64, "lane": idl.uint8, "sequence": idl.uint64}
)
LaneStands: Any = make_idl_struct(
    "LaneStands",
    "rtmw::LaneStands",
    {"participant": str, "topic": idl.uint64, "lane": idl.uint8, "sequence": idl.uint64},
)
"""`participant`: the GUID of the one that sends it, in hexadecimal digits."""
Lanes: Any = make_idl_struct(
    "Lanes", "rtmw::Lanes", {"sent": idl.sequence[LaneSent], "stand": idl.sequence[LaneStands]}
)

Key = tuple[int, int]
"""The number of a topic and type among nodes, and the code of a lane."""


@dataclass(frozen=True)
class Behind:
    """A lane of which less has come than was sent."""

    reached: int
    sent: int
    due: int
    """Times that `sent` still has to grow, with `reached` as it is, until the lane stands still."""
    patience: int
    """How many that were at first."""


def compare(before: Behind | None, reached: int | None, sent: int, patience: int) -> Behind | None:
    """What is known of a lane once its sender has told of it again. `reached` None: more of it is here already, and
    waits."""
    if reached is None or sent <= reached:
        return None
    if before is None or before.reached != reached:
        return Behind(reached, sent, patience, patience)
    return replace(before, sent=sent, due=before.due - (sent > before.sent))


class StandstillWatch:
    """Tells of the lanes of this node, and hears of those of others. Not for several threads."""

    def __init__(
        self, participant: DomainParticipant, bridge: Bridge, refusals: Refusals, before: Standstills | None
    ) -> None:
        """`before`: what `told` of the node said that this one goes on for; None: it is the first."""
        self._bridge, self._guid = bridge, participant.guid.hex
        self._channel = Channel(participant, LANES_TOPIC, Lanes, _LONGEST, refusals)
        self._told: dict[Key, int] = {}
        """The last numbers that were told."""
        self._sent: dict[str, dict[Key, int]] = {}
        """What others have told since the last step, by their participants."""
        self._behind: dict[tuple[str, Key], Behind] = {}
        self._stand: list[Any] = []
        """Lanes to tell of, as long as their senders have not heard it."""
        self._heard: dict[int, float] = {}
        """When others were heard last, by the handles of their writers."""
        self._rows: dict[tuple[str, str], Standstill] = {}
        self._counts: Counter[str] = Counter()
        if before is not None:  # any program may have written that
            self._rows = {(row.topic, row.direction): row for row in before.rows[:_ROWS_MOST]}
            self._counts.update({"in": before.in_, "out": before.out})

    def step(self) -> None:
        """Take in what others have told. To be called ten times a second."""
        self._channel.read(self._on_lanes)
        if self._sent:
            incoming = {(route.number, route.lane.code): route for route in self._bridge.incoming}
            for guid, sent in self._sent.items():
                for key in sent.keys() & incoming.keys():
                    self._compare(guid, key, incoming[key], sent[key])
            self._sent = {}
        if self._stand:
            self._write([])

    def tell(self) -> None:
        """Tell how far lanes of this node have been sent. To be called once a second."""
        alive, writers = self._bridge.discovery.participants, self._channel.writers()
        self._behind = {of: behind for of, behind in self._behind.items() if of[0] in alive}
        self._heard = {writer: at for writer, at in self._heard.items() if writer in writers}
        now = {_key(route): route.last for route in self._bridge.outgoing if not route.is_plain and route.last}
        moved = iter([LaneSent(*key, last) for key, last in now.items() if self._told.get(key) != last])
        self._told = now
        self._write([*islice(moved, _LANES_MOST)])
        for batch in _batches(moved):
            self._write(batch)

    @property
    def may_begin_anew(self) -> bool:
        """A stranger can make a node that it invents fall silent as often as it likes: not again for a while."""
        since = CLOCK.monotonic() - _ANEW_S
        return all(row.at < since for row in self._rows.values() if is_own(row.topic))

    def unheard(self, seconds: float) -> str | None:
        """The words on a node that has told of its lanes, and nothing for so long, though DDS takes it to be alive."""
        late = CLOCK.monotonic() - seconds
        for writer in self._channel.writers():
            if self._heard.get(writer, late) < late:
                program = self._bridge.discovery.participants.get(self._channel.participant_of(writer))
                return str(program) if program is not None else None
        return None

    def note(self, topic: str, direction: str, peer: str, missing: int) -> None:
        """Remember it, for people."""
        before = self._rows.pop((topic, direction), None)
        times = before.times + 1 if before else 1
        self._rows[topic, direction] = Standstill(topic, direction, peer, times, missing, CLOCK.monotonic())
        self._counts[direction] += 1
        if len(self._rows) > _ROWS_MOST:
            del self._rows[next(iter(self._rows))]

    def told(self) -> Standstills:
        """The counts and rows that the node's document shows."""
        return Standstills(self._counts["in"], self._counts["out"], tuple(self._rows.values()))

    def _write(self, sent: list[Any]) -> None:
        self._channel.write(Lanes(sent, self._stand[:_ROWS_MOST]))
        self._stand = []

    def _on_lanes(self, writer: int, lanes: Any, _: int) -> None:
        guid = self._channel.participant_of(writer)
        program = self._bridge.discovery.participants.get(guid)
        if program is None:  # it has left, or is not known yet
            return
        self._heard[writer] = CLOCK.monotonic()
        if not self._bridge.is_linked(program):
            self._sent.setdefault(guid, {}).update({(one.topic, one.lane): one.sequence for one in lanes.sent})
        for one in lanes.stand:
            if one.participant == self._guid:
                self._renew(guid, (one.topic, one.lane), one.sequence)

    def _compare(self, guid: str, key: Key, route: Incoming, sent: int) -> None:
        of = (guid, key)
        patience = _GROWN + int(2 * route.request.min_interval_ns / 1e9)
        behind = compare(self._behind.pop(of, None), route.reached(guid), sent, patience)
        if behind is None:
            return
        if behind.due <= 0 and route.hears(guid):
            self._stands(guid, key, route, behind)
            patience = min(2 * behind.patience, _GROWN_MOST)
            behind = replace(behind, due=patience, patience=patience)
        self._behind[of] = behind

    def _stands(self, guid: str, key: Key, route: Incoming, behind: Behind) -> None:
        program = self._bridge.discovery.participants[guid]
        log.warning(
            "topic %s: %s has sent %d messages, and since message %d none has come: it is asked for another DDS writer",
            route.topic, program, behind.sent, behind.reached,
        )  # fmt: skip
        self.note(route.topic, "in", str(program), behind.sent - behind.reached)
        self._stand.append(LaneStands(guid, *key, behind.reached))

    def _renew(self, guid: str, key: Key, reached: int) -> None:
        """Who reads the lane says that it has had nothing since that number."""
        route = next((one for one in self._bridge.outgoing if not one.is_plain and _key(one) == key), None)
        if route is None or reached >= route.last or not self._bridge.renew(route, guid):
            return
        program = self._bridge.discovery.participants[guid]
        log.warning(
            "topic %s: %s has had nothing since message %d of %d: another DDS writer takes over",
            route.topic, program, reached, route.last,
        )  # fmt: skip
        self.note(route.topic, "out", str(program), route.last - reached)


def _key(route: Outgoing) -> Key:
    return route.number, route.lane.code


def _batches(rows: Iterator[Any]) -> Iterator[list[Any]]:
    while batch := [*islice(rows, _LANES_MOST)]:
        yield batch
