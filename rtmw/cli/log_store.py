"""`rtmw log store`: a RELIABLE subscriber that appends what it takes to a durable log.

What it takes is appended at once and durable a sync later. A message that was taken and not yet durable when this
program dies is not in the log, so the guarantee of a message begins with its append. Where the disk is full, nothing
more is taken, and RELIABLE publishers wait. So it is where a replicated log has no master: what was taken is sent
again until it is answered, and is there once.
"""

from __future__ import annotations

import argparse
import asyncio
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, cast

import rtmw
from rtmw import observe
from rtmw.cli.common import LOOK_S, CommandError, await_topic
from rtmw.cli.endings import Demand, until_asked
from rtmw.cli.log import PLACES, open_log
from rtmw.cli.parsing import NODE, add_place, argument, natural, runs, seconds
from rtmw.cli.terminal import counted, say, show_json, size, warn
from rtmw.clock import CLOCK
from rtmw.closing import Closing
from rtmw.durable_log.log import check_segment
from rtmw.errors import LogFull
from rtmw.publisher import check_count
from rtmw.types import MessageType, carried_type, resolve, shown_name

if TYPE_CHECKING:
    from rtmw.replica.client import RemoteLog

DEPTH: Final = 4096
STEP_S: Final = 0.2
TURN: Final = 256
"""Messages that are taken before the next topic has its turn."""
GRACE_S: Final = 5.0
"""When it is to end, it waits so long for what the nodes of a replicated log have not answered."""
CAUSES: Final = ("missed", "expired", "unmatched", "other_types")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    runs(parser, run)
    parser.add_argument(
        "topics", nargs="+", metavar="TOPIC", help="of one type: a log has one; the name becomes the key"
    )
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("-o", "--output", metavar="FOLDER", help="of the log; made if need be")
    where.add_argument("--log", metavar="NAME", help="of a log that nodes keep (rtmw log create)")
    add_place(parser, f"{PLACES} (default {NODE})")
    parser.add_argument(
        "--segment", type=argument(check_segment), default="64M", metavar="SIZE", help="of files at most"
    )
    help = f"unread messages of each priority for which publishers do not wait (default {DEPTH})"
    parser.add_argument("--depth", type=argument(_depth), default=DEPTH, metavar="N", help=help)
    help = "messages from before, of publishers that keep some (default 0)"
    parser.add_argument("--history", type=natural, default=0, metavar="N", help=help)
    parser.add_argument("--for", type=seconds, dest="seconds", metavar="TIME", help="how long (until SIGINT)")
    parser.add_argument("--timeout", type=seconds, metavar="TIME", help="to wait for the topics (default: for ever)")
    parser.add_argument("--quiet", action="store_true", help="say nothing but errors")


def _depth(text: str) -> int:
    return check_count("depth", int(text), 1)


@dataclass
class Stored:
    """The outcome of storing topics in a log."""

    topics: list[str]
    messages: int = 0
    bytes: int = 0
    earlier: dict[str, int] = field(default_factory=dict[str, int])
    """Messages of each topic that were published before it subscribed."""
    missing: dict[str, int] = field(default_factory=dict[str, int])
    """Messages that it did not get since, by cause."""
    unheard: list[str] = field(default_factory=list[str])
    """Publishers that are not matched, and why."""


def run(arguments: argparse.Namespace) -> int:
    """Stores until it is asked to end; status 1 if it missed something since it subscribed."""
    if arguments.output is not None and arguments.node is not None:
        raise CommandError(f"{arguments.output} is a folder, which no node keeps; --log NAME is a log of the node")
    topics: list[str] = list(dict.fromkeys(arguments.topics))
    until = None if arguments.seconds is None else CLOCK.monotonic() + arguments.seconds
    with until_asked() as end, ExitStack() as open_:
        domain, kind = _await_types(topics, arguments, end)
        open_.enter_context(domain)
        log = open_.enter_context(_open(arguments, kind))
        log.append_many([])  # of none: takes the lock, so that LogLocked comes before a message is taken
        sink = _Folder(log) if arguments.log is None else open_.enter_context(_Nodes(log))
        takers = [open_.enter_context(_taker(topic, kind, domain, arguments)) for topic in topics]
        stored = Stored(topics, earlier={taker.topic: _earlier(domain, taker) for taker in takers})
        _say(
            arguments, f"storing {', '.join(topics)} in {arguments.log or arguments.output} from position {log.end} on"
        )
        for topic, count in stored.earlier.items():
            if count:
                _say(arguments, f"{topic}: {counted(count, 'message')} had been published before, and are not stored")
        _store(sink, takers, stored, end, until)
        _count(takers, stored)
    _report(arguments, stored)
    return 1 if stored.missing else 0


def _say(arguments: argparse.Namespace, text: str) -> None:
    if not arguments.quiet:
        warn(f"rtmw log store: {text}")


def _open(arguments: argparse.Namespace, kind: Any) -> rtmw.Log[Any]:
    try:
        if arguments.log is None:
            return rtmw.Log(f"{arguments.output}/", kind, segment=arguments.segment, sync=False)
        arguments.path, arguments.node = arguments.log, arguments.node or (NODE,)
        log = open_log(arguments, kind)
        cast("RemoteLog[Any]", log).wait_for_ever()
        return log
    except ValueError as error:
        raise CommandError(str(error)) from None


def _taker(topic: str, kind: Any, domain: rtmw.Domain, arguments: argparse.Namespace) -> rtmw.Subscriber[Any]:
    return rtmw.Subscriber(
        topic,
        kind,
        domain=domain,
        reliability=rtmw.Reliability.RELIABLE,
        depth=arguments.depth,
        history=arguments.history,
    )


# ---- the type ----


def _await_types(topics: list[str], arguments: argparse.Namespace, end: Demand) -> tuple[rtmw.Domain, MessageType]:
    """The domain, and the type that all these topics carry, as soon as somebody names it."""
    until = None if arguments.timeout is None else CLOCK.monotonic() + arguments.timeout
    found: dict[str, MessageType] = {}
    for topic in topics:
        waiting = _Waiting(arguments, topic, end)
        with await_topic(arguments.domain, [topic], arguments.timeout, sleep=waiting.sleep) as domain:
            while topic not in found:
                kind = _type_of(domain, topic)
                if kind is not None:
                    found[topic] = kind
                elif end.wait(LOOK_S) or (until is not None and CLOCK.monotonic() >= until):
                    raise CommandError(f"Nobody has said which type {topic} carries, so nothing was stored.")
    first = found[topics[0]]
    for topic, kind in found.items():
        if kind.identity != first.identity:
            both = f"{topics[0]} carries {shown_name(first.name)}, and {topic} carries {shown_name(kind.name)}"
            raise CommandError(f"{both}: a log has one type. Store them in two folders.")
    return rtmw.Domain(arguments.domain, create=False), first


class _Waiting:
    """Waits for a topic, says so once, and ends when the command is asked to."""

    def __init__(self, arguments: argparse.Namespace, topic: str, end: Demand) -> None:
        self._arguments, self._topic, self._end, self._is_told = arguments, topic, end, False

    def sleep(self, seconds: float) -> None:
        if not self._is_told:
            _say(self._arguments, f"waits for topic {self._topic} in domain {self._arguments.domain}")
            self._is_told = True
        if self._end.wait(seconds):
            raise CommandError(f"There is no topic {self._topic} yet, so nothing was stored.")


def _type_of(domain: rtmw.Domain, topic: str) -> MessageType | None:
    carried = observe.types_in_use(domain, topic)
    if len(carried) > 1:
        names = ", ".join(name for name, _ in carried)
        raise CommandError(f"{topic} carries {len(carried)} types, {names}: a log has one.")
    if not carried:
        return None
    description = carried[0][1]
    return resolve(bytes) if description is None else carried_type(description)


def _earlier(domain: rtmw.Domain, taker: rtmw.Subscriber[Any]) -> int:
    view = next(view for view in observe.topics(domain) if view.name == taker.topic)
    return max(0, view.published - taker.stats().waiting)


# ---- the messages ----


class _Folder:
    """One by one: while the disk is full, a single message is out of the queue and not in the log."""

    at_once: Final = 1

    def __init__(self, log: rtmw.Log[Any]) -> None:
        self._log = log

    def append(self, samples: list[rtmw.Sample[Any]], stored: Stored, end: Demand) -> None:
        """Appends messages, and does not wait for the disk: the log's batches hold what comes, and `append` waits
        while they are full."""
        for sample in samples:
            while True:
                try:
                    self._log.append(sample.value, key=sample.topic)
                    break
                except LogFull as error:
                    if end.wait(STEP_S):
                        raise CommandError(f"{counted(stored.messages, 'message')} stored, then: {error}") from None


class _Nodes(Closing):
    """A turn together, each sent again until it is answered: a replicated log may have no master for a while."""

    at_once: Final = TURN

    def __init__(self, log: rtmw.Log[Any]) -> None:
        self._log, self._runner = log, asyncio.Runner()

    def append(self, samples: list[rtmw.Sample[Any]], stored: Stored, end: Demand) -> None:
        self._runner.run(self._append(samples, stored, end))

    async def _append(self, samples: list[rtmw.Sample[Any]], stored: Stored, end: Demand) -> None:
        left, waiting = GRACE_S, {asyncio.create_task(self._one(sample)) for sample in samples}
        while waiting:
            done, waiting = await asyncio.wait(waiting, timeout=STEP_S)
            for one in done:
                one.result()
            left = GRACE_S if done or not end.is_set() else left - STEP_S
            if left <= 0:
                raise CommandError(
                    f"{counted(stored.messages, 'message')} stored, and {len(waiting)} more were sent to nodes that do "
                    f"not answer, or have no room: rtmw log status {self._log.path} says why"
                )

    async def _one(self, sample: rtmw.Sample[Any]) -> None:
        while True:
            answer = await self._log.append_async(sample.value, key=sample.topic)
            await answer.resolve_async()
            if answer.state is not rtmw.Durability.ABSENT:
                return

    def close(self) -> None:
        self._runner.close()


def _store(
    sink: _Folder | _Nodes, takers: list[rtmw.Subscriber[Any]], stored: Stored, end: Demand, until: float | None
) -> None:
    """Stores what comes until the end, and then what is in the queues at that moment."""
    waiting = rtmw.WaitSet(*takers)
    while not end.is_set():
        left = STEP_S if until is None else min(STEP_S, until - CLOCK.monotonic())
        if left <= 0:
            break
        for taker in waiting.wait(left):
            _take(sink, taker, TURN, stored, end)
    for taker in takers:  # one more than there is: what is not matched is counted when it is stepped over
        _take(sink, taker, taker.stats().waiting + 1, stored, end)


def _take(sink: _Folder | _Nodes, taker: rtmw.Subscriber[Any], most: int, stored: Stored, end: Demand) -> None:
    while most > 0 and (samples := list(islice(iter(taker.take, None), min(most, sink.at_once)))):
        sink.append(samples, stored, end)
        most -= len(samples)
        for sample in samples:
            stored.messages += 1
            stored.bytes += len(sample.data)
            sample.release()


def _count(takers: list[rtmw.Subscriber[Any]], stored: Stored) -> None:
    for taker in takers:
        stats = taker.stats()
        for cause in CAUSES:
            if count := getattr(stats, cause):
                stored.missing[cause] = stored.missing.get(cause, 0) + count
        stored.unheard += stats.unheard


def _report(arguments: argparse.Namespace, stored: Stored) -> None:
    if arguments.json:
        show_json(vars(stored))
        return
    say(f"stored {counted(stored.messages, 'message')}, {size(stored.bytes)}, of {', '.join(stored.topics)}")
    for cause, count in stored.missing.items():
        say(f"missing: {count} {cause.replace('_', ' ')}")
    for reason in stored.unheard:
        say(f"not heard: {reason}")
