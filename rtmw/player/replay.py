"""Replay: recordings are a source like any other; its statistics are counted by topic (`ReplayStats`)."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from rtmw.clock import CLOCK
from rtmw.closing import Closing
from rtmw.domain import Domain, domain_until_closed
from rtmw.errors import ClosedError, RtmwError
from rtmw.latency import Latency
from rtmw.matching import LongWait, Offer, WaitLog, refusals
from rtmw.notebook import ShownByFields
from rtmw.player.feeder import Feeder, Player, Score
from rtmw.player.tracks import Choice, Plan, QosOptions, Track
from rtmw.publisher import wire_type
from rtmw.recording import Recording
from rtmw.recording.contents import Moment, moment_ns, moment_said
from rtmw.recording.files import Source, find_recordings

if TYPE_CHECKING:
    from rtmw.player.feeder import Ticks


@dataclass(frozen=True)
class TopicReplayed:
    """The messages of one topic: published, and by cause not published."""

    published: int
    bytes: int
    """Payload bytes of these."""
    expired: int
    """Messages not published: their lifetime was over when they were recorded."""
    timed_out: int
    """Messages not published: a RELIABLE subscriber's queue stayed full for `max_blocking`."""
    exhausted: int
    """Messages not published: no memory could be had."""
    too_large: int
    """Messages not published: they are larger than the pool of the domain."""
    unheard: int
    """How many of those published no subscriber could take: there was none, or only of other types or qualities. A
    subscriber that comes later may still get what the topic keeps."""
    subscribers: int
    """Subscribers that get its messages at present."""


@dataclass(frozen=True)
class ReplayStats(ShownByFields):
    """The statistics of a replay since it was opened."""

    topics: Mapping[str, TopicReplayed]
    lateness: Latency
    """How long after the time that was due messages were published."""
    overslept: Latency
    """How much too late its sleeps between messages ended."""
    spun: float
    """Seconds for which it was awake before messages were due."""

    @property
    def published(self) -> int:
        """Messages."""
        return sum(topic.published for topic in self.topics.values())

    @property
    def bytes(self) -> int:
        """Payload bytes."""
        return sum(topic.bytes for topic in self.topics.values())

    @property
    def unheard(self) -> int:
        """Messages that were published while no subscriber could take them."""
        return sum(topic.unheard for topic in self.topics.values())

    @property
    def dropped(self) -> Mapping[str, int]:
        """Messages that were not published, by cause."""
        causes = ("expired", "timed_out", "exhausted", "too_large")
        return {cause: sum(getattr(topic, cause) for topic in self.topics.values()) for cause in causes}


def by_topic(rows: Iterable[tuple[str, tuple[int, ...]]]) -> dict[str, TopicReplayed]:
    """Counters of tracks by topic, added where a topic has several types."""
    found: dict[str, TopicReplayed] = {}
    for topic, row in rows:
        known = found.get(topic)
        found[topic] = TopicReplayed(*row) if known is None else _sum(known, TopicReplayed(*row))
    return found


def _sum(one: TopicReplayed, other: TopicReplayed) -> TopicReplayed:
    names = [field.name for field in fields(TopicReplayed) if field.name != "subscribers"]
    values = {name: getattr(one, name) + getattr(other, name) for name in names}
    return TopicReplayed(**values, subscribers=max(one.subscribers, other.subscribers))


NO_LIMIT_NS = 2**64 - 1
LEARNED = -1
LOOK_S = 0.5
"""How often a wait looks up, for a Ctrl-C that came just before it slept; any other ends the sleep."""


class Replay(Closing):
    """Publishes what recordings hold, each message at its time; several files are played as one.

        with rtmw.Replay("day.mcap", rate=10.0) as replay:
            replay.wait_for_subscribers()
            replay.run()

    `source`: a file, a folder, a pattern, or several of these. `rate`: seconds of the recording in one second; None:
    as fast as readers take it, RELIABLE. `start`, `end`: seconds since it began, or a datetime (of UTC, if it has no
    zone). `loop`: again and again. `topics`: names or patterns; None: all but rtmw's own. `remap`: recorded name to
    played name. `stamps`: `original` or `fresh` source times. `qos`: by name or pattern, keywords of Publisher that
    differ from what was recorded. `max_blocking`: seconds to wait for a RELIABLE subscriber whose queue is full, None:
    no limit. `spin`: seconds to spin before a message is due, 0: none, None: learned from how late its sleeps end, an
    eighth of the time at most. `clock`: so many times in a second of the recording its time is published on the topic
    `clock`, as `rosgraph_msgs::msg::Clock`; None: it is not. `strict`: a damaged chunk ends the replay; False: the rest
    is played, and `left_out` says what was not.

    The rest of a lifetime counts from the replay. Topics whose publishers kept messages for late subscribers
    (`history`) begin with what was valid at the start. Not played, and why: `skipped`.

    Errors: FileNotFoundError, RecordingDamaged, RtmwError for topics that are not there, ValueError, also where
    `start` and `end` leave no message, and those of Publisher.
    """

    def __init__(
        self,
        source: Source,
        *,
        rate: float | None = 1.0,
        start: Moment | None = None,
        end: Moment | None = None,
        loop: bool = False,
        topics: Iterable[str] | None = None,
        remap: Mapping[str, str] | None = None,
        stamps: Literal["original", "fresh"] = "original",
        qos: Mapping[str, QosOptions] | None = None,
        max_blocking: float | None = None,
        spin: float | None = None,
        clock: float | None = None,
        strict: bool = True,
        domain: int | Domain | None = None,
    ) -> None:
        if stamps not in ("original", "fresh"):
            raise ValueError(f"stamps={stamps!r} is not possible; it is 'original' or 'fresh'")
        self._rate = _checked_rate(rate)
        chosen = (topics,) if isinstance(topics, str) else None if topics is None else tuple(topics)
        self._closed, self._paused = False, True
        self._feeder: Feeder | None = None
        self._left_out: dict[str, None] = {}
        self._waits: dict[str, WaitLog] = {}
        with ExitStack() as opened:
            self.paths: tuple[Path, ...] = tuple(find_recordings(source))
            recordings = tuple(opened.enter_context(Recording(path)) for path in self.paths)
            self._begin_ns, self._last_ns = _span(recordings)
            self._has_messages = any(recording.message_count for recording in recordings)
            self._plan = Plan(recordings, Choice(chosen, remap or {}, qos or {}, rate is None))
            self._score = Score(
                recordings,
                self._plan,
                self._begin_ns if start is None else self._nanoseconds(start),
                None if end is None else self._nanoseconds(end),
                loop,
                stamps == "fresh",
                None if clock is None else _with_clock(self._plan, clock, rate is None, stamps == "fresh"),
                None if strict else lambda error: self._left_out.setdefault(str(error)),
            )
            self._check_section(start, end)
            self._domain = opened.enter_context(domain_until_closed(domain))
            self._player = _open_player(self._domain, self._plan.tracks, max_blocking, spin)
            opened.callback(self._player.close)
            self._player.rate(self._rate or 0.0)
            self._opened = opened.pop_all()
        self._begin(self._score.start_ns)
        self._domain.adopt(self)

    # ---- what it is ----

    @property
    def topics(self) -> tuple[str, ...]:
        """The names under which it plays."""
        return tuple(dict.fromkeys(track.topic for track in self._plan.tracks))

    @property
    def skipped(self) -> Mapping[str, str]:
        """Topics that were asked for and are not played, with the reason."""
        return dict(self._plan.skipped)

    @property
    def refused(self) -> Mapping[str, tuple[str, ...]]:
        """By topic, the subscribers at present that get none of its messages, and why."""
        found: dict[str, tuple[str, ...]] = {}
        for topic in self.topics:
            offers = [Offer(topic, t.type, t.qos.reliability) for t in self._plan.tracks if t.topic == topic]
            reasons = [refusals(self._domain.region, offer) for offer in offers]
            if all(reasons):  # else one of its types is matched
                found[topic] = tuple(dict.fromkeys(chain.from_iterable(reasons)))
        return found

    @property
    def left_out(self) -> tuple[str, ...]:
        """Damaged chunks that were left out so far, each with its file and position; without `strict`."""
        return tuple(self._left_out)

    @property
    def duration(self) -> float:
        """Seconds from the beginning of the recording to its last message."""
        return (self._last_ns - self._begin_ns) / 1e9

    @property
    def began(self) -> datetime:
        """When the recording was begun."""
        return datetime.fromtimestamp(self._begin_ns / 1e9, UTC)

    # ---- playing ----

    def play(self) -> None:
        """Go on from where it stands; from the start, if it was over. Returns at once."""
        if self._open_player().wait(0.0):
            self._begin(self._score.start_ns)
        self._paused = False
        self._player.pause(False)

    def pause(self) -> None:
        """Nothing more is published when this returns."""
        self._open_player().pause(True)
        self._paused = True

    def resume(self) -> None:
        """Another name for play()."""
        self.play()

    @property
    def paused(self) -> bool:
        """Whether it is paused: at first, and after pause()."""
        return self._paused

    def step(self) -> None:
        """While it is paused: publish the next message, now."""
        self._open_player().step()

    def seek(self, to: Moment) -> None:
        """Go on from another moment; what was valid then of topics with history comes first."""
        self._open_player()
        self._begin(self._nanoseconds(to))

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until all has been played; False: not within `timeout` seconds. With `loop` it never is.

        Raises what ended the replay before: RecordingDamaged, OSError, RtmwError.
        """
        end = None if timeout is None else CLOCK.monotonic() + timeout
        while True:
            left = LOOK_S if end is None else min(LOOK_S, end - CLOCK.monotonic())
            over = self._open_player().wait(max(left, 0.0))
            if over and self._feeder is not None and self._feeder.error is not None:
                raise self._feeder.error  # all that is whole before the damage has been played
            if over or left <= 0:
                return over

    def run(self) -> ReplayStats:
        """Play all that is left, and say what came of it."""
        self.play()
        self.wait()
        return self.stats()

    @property
    def rate(self) -> float | None:
        """Seconds of the recording in one second; None: as fast as readers take it. It can be set at any time."""
        return self._rate

    @rate.setter
    def rate(self, rate: float | None) -> None:
        self._rate = _checked_rate(rate)
        self._open_player().rate(self._rate or 0.0)

    @property
    def position(self) -> float:
        """Seconds since the recording began."""
        return (self._open_player().position() - self._begin_ns) / 1e9

    def wait_for_subscribers(self, count: int = 1, timeout: float | None = None) -> bool:
        """Wait until each recorded topic has at least `count` subscribers. False: not within `timeout` seconds;
        None: no limit, and the reason is logged after 2 s.
        """
        end = None if timeout is None else CLOCK.monotonic() + timeout
        waiting = LongWait(lambda: self._tell_absent(count))
        while self._lacking(count):
            if end is None:
                waiting.look()
            left = 0.01 if end is None else min(0.01, end - CLOCK.monotonic())
            if left <= 0:
                return False
            time.sleep(left)
        return True

    def _lacking(self, count: int) -> dict[str, int]:
        """Recorded topics with fewer subscribers, and how many each has."""
        rows = self._open_player().counters()[: self._plan.recorded]
        tracks = self._plan.tracks[: self._plan.recorded]
        return {track.topic: row[-1] for track, row in zip(tracks, rows, strict=True) if row[-1] < count}

    def _tell_absent(self, count: int) -> None:
        refused = self.refused
        for topic, found in self._lacking(count).items():
            reason = f"{found} of {count} subscribe to it in domain {self._domain.id}"
            self._waits.setdefault(topic, WaitLog(topic, "a subscriber")).note("; ".join(refused.get(topic, (reason,))))

    def stats(self) -> ReplayStats:
        """The statistics of the replay since it was opened."""
        counters = self._open_player().counters()
        topics = by_topic(zip((track.topic for track in self._plan.tracks), counters, strict=True))
        lateness, overslept, spun_ns = self._player.timing()
        return ReplayStats(topics, Latency.of(lateness), Latency.of(overslept), spun_ns / 1e9)

    def close(self) -> None:
        """Stop at once. What was published stays with its subscribers."""
        if self._closed:
            return
        self._closed = True
        self._player.close()
        if self._feeder is not None:
            self._feeder.join()
        self._opened.close()

    def __repr__(self) -> str:
        return f"<rtmw.Replay {', '.join(map(str, self.paths))}{', closed' if self._closed else ''}>"

    def _open_player(self) -> Player:
        if self._closed:
            raise ClosedError(f"the replay of {', '.join(map(str, self.paths))}: used after close()")
        return self._player

    def _begin(self, at_ns: int) -> None:
        former, self._feeder = self._feeder, Feeder(self._player, self._score, at_ns)
        if former is not None:
            former.join()

    def _nanoseconds(self, moment: Moment) -> int:
        return moment_ns(moment, self._begin_ns)

    def _check_section(self, start: Moment | None, end: Moment | None) -> None:
        """Raises ValueError for a start and an end between which nothing is, unless topics with history had messages
        before."""
        first_ns, last_ns = self._score.start_ns, self._score.end_ns
        asked = f"a replay from {'the beginning' if start is None else moment_said(start)}"
        asked += "" if end is None else f" to {moment_said(end)}"
        if last_ns is not None and last_ns < first_ns:
            raise ValueError(f"{asked} is not possible: it ends before it begins")
        is_behind = first_ns > self._last_ns and not any(track.qos.history for track in self._plan.tracks)
        if self._has_messages and (is_behind or (last_ns is not None and last_ns <= self._begin_ns)):
            when = f"the recording began at {moment_said(self.began)} and is {self.duration:.12g} s long"
            raise ValueError(f"{asked} has no message: {when}")


def _with_clock(plan: Plan, hz: float, reliable: bool, fresh: bool) -> Ticks:
    """Adds the track of the recording's time; what plays it."""
    from rtmw.player.feeder import MOST_HZ, TOPIC, Ticks, clock_track  # few replays have a clock

    if not 0 < hz <= MOST_HZ:
        raise ValueError(f"clock={hz!r} is not possible; it is above 0 and at most {MOST_HZ:g} times a second, or None")
    if any(track.topic == TOPIC for track in plan.tracks):
        raise ValueError(f"the recording has a topic {TOPIC}, too: leave it out (topics), or rename it (remap)")
    plan.tracks.append(clock_track(reliable))
    return Ticks(len(plan.tracks) - 1, round(1e9 / hz), fresh)


def _checked_rate(rate: float | None) -> float | None:
    if rate is not None and not 0 < rate <= 1e6:
        raise ValueError(f"rate={rate!r} is not possible; it is above 0 and at most a million, or None")
    return rate


def _span(recordings: Iterable[Recording]) -> tuple[int, int]:
    """First and last log time of all; 0 and 0 when there is no message."""
    filled = [recording for recording in recordings if recording.message_count]
    return min((r.start_ns for r in filled), default=0), max((r.end_ns for r in filled), default=0)


def _checked_ns(name: str, seconds: float | None, otherwise: int) -> int:
    if seconds is None:
        return otherwise
    if not 0 <= seconds < 1e9:
        raise ValueError(f"{name}={seconds!r} is not possible; it must be seconds from 0, or None")
    return int(seconds * 1e9)


def _open_player(domain: Domain, tracks: Iterable[Track], max_blocking: float | None, spin: float | None) -> Player:
    waiting_ns, spin_ns = _checked_ns("max_blocking", max_blocking, NO_LIMIT_NS), _checked_ns("spin", spin, LEARNED)
    player = Player(domain.id, waiting_ns, spin_ns)
    try:
        for track in tracks:
            qos = track.qos
            player.track(
                track.topic,
                wire_type(track.type),
                int(qos.reliability),
                qos.priority,
                qos.depth,
                qos.history,
                qos.lifetime_ns,
            )
    except RtmwError:
        player.close()
        raise
    return player
