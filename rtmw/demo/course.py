"""The course of the demonstration: both hosts live, then the recording, and then the durable log.

Two hosts are two domains of this machine with a node each, that meet on a DDS domain over loopback.

While it runs, the display shows counters out of the region; nothing is subscribed for it. At the end stands what
everybody got, and whether it all adds up.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from rtmw import observe
from rtmw.cli.endings import ends_in_order
from rtmw.cli.terminal import Table, as_rich, on_terminal, say
from rtmw.cli.terminal import show as show_table
from rtmw.cli.topic import Meter, Rate
from rtmw.clock import CLOCK
from rtmw.demo.crew import END_S, START_S, Crew, CrewError
from rtmw.demo.durable import Durable, through_log
from rtmw.demo.offline import (
    TOPICS,
    Offline,
    arrive,
    complete,
    install_spark,
    recorded,
    recorder,
    with_spark,
    without_spark,
)
from rtmw.demo.programs import FAR, PUBLISHERS, SUBSCRIBERS
from rtmw.demo.topics import telemetry
from rtmw.domain import Domain
from rtmw.errors import DomainError, DomainNotFound, LimitReached, NotInstalled
from rtmw.observe import Books
from rtmw.text.patterns import is_own

LIVE_S, PLAIN_S = 0.25, 1.0
"""How often the table is drawn on a terminal, and a line printed elsewhere."""
ALARMS = 4


def watch(here: Domain, there: Domain, crew: Crew, seconds: float) -> None:
    """Show both hosts for so long: a live table on a terminal, else a line a second."""
    if not on_terminal():
        _watch_lines(here, there, seconds)
        return
    from rich.console import Group
    from rich.live import Live

    meter = Meter()
    with Live(auto_refresh=False, transient=True) as live:
        for left in _turns(seconds, LIVE_S):
            views = observe.topics(here)
            rates = meter.read(views, CLOCK.monotonic())
            everybody = subscribers_table(views + observe.topics(there), crew)
            tables = [as_rich(topics_table(views, rates, left)), as_rich(everybody)]
            live.update(Group(*tables, *_alarm_lines(crew)), refresh=True)


def _watch_lines(here: Domain, there: Domain, seconds: float) -> None:
    meter = Meter()
    for left in _turns(seconds, PLAIN_S):
        rates = meter.read(observe.topics(here), CLOCK.monotonic())
        if rates:
            shown = ", ".join(f"{rate.topic.rpartition('/')[2]} {rate.hz:.0f}" for rate in rates)
            say(f"{left:3.0f} s left; messages a second: {shown}; crossed {crossed(there)}", flush=True)


def crossed(there: Domain) -> int:
    """Messages that have come to the other host so far."""
    return sum(view.published for view in observe.topics(there) if not is_own(view.name))


def _turns(seconds: float, pause: float) -> Iterator[float]:
    """Seconds left, once every pause, until there are none."""
    end = CLOCK.monotonic() + seconds
    while (left := end - CLOCK.monotonic()) > 0:
        yield left
        time.sleep(min(pause, max(0.0, end - CLOCK.monotonic())))


def short(view: observe.TopicView) -> str:
    """The name without `telemetry/`."""
    return view.name.rpartition("/")[2]


def topics_table(views: list[observe.TopicView], rates: list[Rate], left: float) -> Table:
    """A row a topic."""
    hz = {rate.topic: rate.hz for rate in rates}
    rows = [
        (short(v), round(hz.get(v.name, 0.0)), v.published, sum(v.queued), sum(p.timed_out for p in v.publishers))
        for v in views
    ]
    title = f"Telemetry of this machine, {left:.0f} s left"
    return Table(title, ("topic", "messages/s", "published", "queued", "refused"), rows)


def subscribers_table(views: list[observe.TopicView], crew: Crew) -> Table:
    """A row a subscriber, a column a cause of drops."""
    rows = [
        (crew.role(s.pid), short(view), s.received, s.behind, s.missed, s.expired, s.thinned, s.deadlines_missed)
        for view in views
        for s in view.subscribers
    ]
    columns = ("subscriber", "topic", "received", "behind", "missed", "expired", "thinned", "deadlines missed")
    return Table("", columns, sorted(rows))


def _alarm_lines(crew: Crew) -> list[str]:
    return [f"{alarm['severity']}: {alarm['text']}" for alarm in crew.said("alarms", "alarm")[-ALARMS:]]


Reports = Mapping[str, Mapping[str, Any]]

CAUSES = ("missed", "expired", "thinned", "unmatched")
WHAT = {
    "display": "one every 0.5 s",
    "watchdog": "deadline 50 ms",
    "alarms": "priority 7",
    "asyncio": "async for, uvloop",
    "far-archive": "all, on the other host",
    "far-alarms": "priority 7, on the other host",
    "slow-reliable": "all: publisher waits",
    "slow-adaptive": "all, for a lifetime of 1 s",
    "slow-timely": "the newest 8",
}


def show_summary(publishers: Reports, subscribers: Reports, books: Sequence[Books]) -> int:
    """Print the summary; 0 if the numbers agree and the books balance, else 1."""
    published, refused = totals(publishers, "published"), totals(publishers, "refused")
    show_table(publishers_table(published, refused))
    show_table(counts_table(subscribers))
    show_table(latency_table(subscribers))
    problems = disagreements(published, subscribers) + [problem for one in books for problem in one.problems]
    for problem in problems:
        say(f"Problem: {problem}")
    if problems:
        return 1
    pairs = len(list(_accounts(subscribers)))
    say(f"The numbers agree for all {pairs} subscribers: published = received + {' + '.join(CAUSES)}.")
    descriptors, pages = sum(one.descriptors for one in books), sum(one.pages for one in books)
    say(f"The books balance on both hosts: {descriptors} descriptors, {pages} pages, each in exactly one place.")
    return 0


def show_offline(published: Mapping[str, int], recorded: Mapping[str, int], found: Offline) -> int:
    """Print what became of what was recorded; 0 if the numbers agree, else 1."""
    rows = [(topic, published[topic], recorded[topic], found.rows.get(topic, 0)) for topic in TOPICS]
    show_table(Table("From the bus to the recording, and read again", ("topic", "published", "recorded", "read"), rows))
    problems = [
        f"{published[topic]} messages of {topic} were published, but {recorded[topic]} were recorded."
        for topic in TOPICS
        if published[topic] != recorded[topic]
    ]
    problems += found.problems(recorded)
    for problem in problems:
        say(f"Problem: {problem}")
    if problems:
        return 1
    say("The numbers agree for all topics: published = recorded = read.")
    say(f"Replayed onto a third bus: {found.selected} messages, of which {found.counted} were counted there.")
    return 0


def show_durable(found: Durable) -> int:
    """Print what became of the alarms in the log; 0 if the numbers agree, else 1."""
    say(
        f"Durable log: the writer of {found.alarms} alarms was killed when {found.answered} were answered; "
        f"{found.survived} were there. The next writer appended all again, and {found.repeated} were there already."
    )
    for problem in found.problems():
        say(f"Problem: {problem}")
    if found.problems():
        return 1
    say(f"The numbers agree: the log has {len(found.numbers)} records, each alarm once, in order.")
    return 0


def totals(publishers: Reports, what: str) -> dict[str, int]:
    """The counts of the publishers, added up by topic."""
    found: dict[str, int] = {}
    for report in publishers.values():
        for topic, counts in report["topics"].items():
            found[topic] = found.get(topic, 0) + counts[what]
    return found


def disagreements(published: Mapping[str, int], subscribers: Reports) -> list[str]:
    """The disagreements, a sentence each."""
    found: list[str] = []
    for role, account in _accounts(subscribers):
        topic, seen = account["topic"], account["seen"]
        accounted = account["received"] + sum(account[cause] for cause in CAUSES)
        if accounted != published[topic]:
            found.append(f"{published[topic]} were published on {topic}, but {role} accounts for {accounted}.")
        if seen != account["received"]:
            found.append(f"{role} took {seen} of {topic}, but its counter says {account['received']}.")
    return found


def publishers_table(published: Mapping[str, int], refused: Mapping[str, int]) -> Table:
    """A row a topic."""
    rows = [(topic, number, refused[topic]) for topic, number in sorted(published.items())]
    return Table("Published", ("topic", "published", "refused"), rows)


def counts_table(subscribers: Reports) -> Table:
    """A row a subscription: what became of the messages."""
    names = ("received", *CAUSES, "silences")
    rows = [[role, _short(account), *(account[name] for name in names)] for role, account in _accounts(subscribers)]
    columns = ("subscriber", "topic", "delivered", *CAUSES, "silences")
    return Table("Delivered, and dropped by cause", columns, rows)


def latency_table(subscribers: Reports) -> Table:
    """A row a subscription: microseconds from publishing to taking, and why they are what they are."""
    rows = [
        [role, _short(account), *([round(value) for value in account["latency_us"]] or [None] * 3), WHAT[role]]
        for role, account in _accounts(subscribers)
    ]
    columns = ("subscriber", "topic", "p50", "p90", "p99", "asks for")
    return Table("Latency from publishing to taking, microseconds", columns, rows)


def _short(account: Mapping[str, Any]) -> str:
    return str(account["topic"]).rpartition("/")[2]


def _accounts(subscribers: Reports) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for role, report in subscribers.items():
        for account in report["accounts"]:
            yield role, account


@contextmanager
def node(number: int, dds_domain: int) -> Generator[None]:
    """A node of a domain, ready; it ends with the block."""
    with (
        tempfile.TemporaryDirectory(prefix="rtmw-demo-") as folder,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as supervisor,
    ):
        supervisor.bind(address := str(Path(folder, "notify")))
        supervisor.settimeout(START_S)
        process = subprocess.Popen(
            [sys.executable, "-m", "rtmw", "node", "--domain", str(number), "--dds-domain", str(dds_domain)],
            env={**os.environ, "NOTIFY_SOCKET": address},
            process_group=0,  # Ctrl-C is for the parent, which ends its children in order
        )
        try:
            supervisor.recv(100)  # READY=1
            yield
        except TimeoutError:
            raise CrewError(f"The node of domain {number} did not start; its own words are above.") from None
        finally:
            end(process)


def end(process: subprocess.Popen[bytes]) -> None:
    """Make sure that it is gone."""
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


NUMBERS = range(50, 100)
"""Domains that a demonstration may take."""
FOLDER = Path("rtmw-demo")
"""The folder of the recording and the plot, within the present folder."""
PICTURE = "processor.png"
LOG = "alarms"
CPU = telemetry.CPU.name


def run(seconds: float, folder: Path = FOLDER, *, spark: bool = True, install: bool = False) -> int:
    """Show it for so long; 0 if all numbers agree, else 1. The recording and the plot lie in the folder afterwards.

    `install`: pip installs Spark before the part that needs it, so that the live part need not wait for that.
    """
    with ends_in_order():
        _tidy(folder)
        published, path, status = _live(seconds, folder)
        with new_host() as bus:
            found = read_and_replay(path, folder / PICTURE, bus, spark=spark, install=install)
        counts = recorded(path)
        status = show_offline(published, counts, found) or status
        return show_durable(through_log(path, folder / LOG, counts[CPU])) or status


def _live(seconds: float, folder: Path) -> tuple[dict[str, int], Path, int]:
    """The number of messages published by topic, their recording, and 0 if the numbers of the live part agree."""
    processes = len(PUBLISHERS) + len(SUBSCRIBERS) + len(FAR)
    say(f"Starting {processes} processes on two hosts, and a node on each ...", flush=True)
    with (
        new_host() as here,
        new_host() as there,
        node(there.id, here.id),
        node(here.id, here.id),
        recorder(there, folder) as recording,
        Crew() as crew,
    ):
        crew.introduce("recorder", recording.pid)
        crew.start(FAR, there.id)
        crew.start(SUBSCRIBERS, here.id)
        crew.start(PUBLISHERS, here.id)
        watch(here, there, crew, seconds)
        publishers = crew.finish(PUBLISHERS)
        published = totals(publishers, "published")
        arrive(there, published)
        subscribers = crew.finish([*SUBSCRIBERS, *FAR])
        path = complete(recording, folder)
        books = [observe.examine(here), observe.examine(there)]
    return published, path, show_summary(publishers, subscribers, books)


def read_and_replay(path: Path, picture: Path, bus: Domain, *, spark: bool, install: bool) -> Offline:
    """The recording read and replayed, by Spark if that can be."""
    if spark:
        try:
            if install:
                install_spark()
            return with_spark(path, picture, bus)
        except NotInstalled as error:
            say(*str(error).splitlines(), "Without Spark, rtmw reads and replays the recording by itself:", flush=True)
    return without_spark(path, bus)


def _tidy(folder: Path) -> None:
    """Make the folder, and remove what the demonstration before this one has left there."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in (*folder.glob(f"{folder.name}_*.mcap"), folder / PICTURE):
        old.unlink(missing_ok=True)


@contextmanager
def new_host() -> Generator[Domain]:
    """A domain that stands for a host; it is removed with the block."""
    number = free_domain()
    try:
        with Domain(number, pool="16M") as domain:
            yield domain
    finally:
        with suppress(DomainNotFound):
            Domain.unlink(number)


def free_domain() -> int:
    """The number of a domain that nobody has created."""
    for number in NUMBERS:
        try:
            Domain(number, create=False).close()
        except DomainNotFound:
            return number
        except DomainError:  # of another version, or damaged
            continue
    raise LimitReached(f"Domains {NUMBERS[0]} to {NUMBERS[-1]} all exist; `rtmw clean` removes those nobody is in.")
