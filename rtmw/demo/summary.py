"""The end of the demonstration: what everybody got, and whether it all adds up."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rtmw.cli.terminal import Table, say
from rtmw.cli.terminal import show as show_table
from rtmw.demo.durable import Durable
from rtmw.demo.offline import Offline
from rtmw.demo.recording import TOPICS
from rtmw.observe import Books

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
