"""The end of the demonstration: what everybody got, and whether it all adds up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rtmw.cli.show import Table
from rtmw.cli.show import show as show_table
from rtmw.observe import Books

Reports = Mapping[str, Mapping[str, Any]]

CAUSES = ("missed", "expired", "thinned", "unmatched")
WHAT = {
    "display": "min_interval 0.5 s: the rest is thinned out",
    "watchdog": "deadline 50 ms",
    "alarms": "priority 7, before everything else",
    "asyncio": "async for, on uvloop",
    "slow-reliable": "RELIABLE: the publisher waits, then knows",
    "slow-adaptive": "ADAPTIVE: kept while memory lasts; lifetime 1 s",
    "slow-timely": "TIMELY, depth 8: the oldest go",
}


def show(publishers: Reports, subscribers: Reports, books: Books) -> int:
    """Print the summary; 0 if the numbers agree and the books balance, else 1."""
    published, refused = totals(publishers, "published"), totals(publishers, "refused")
    show_table(publishers_table(published, refused))
    show_table(subscribers_table(subscribers))
    problems = disagreements(published, subscribers) + list(books.problems)
    for problem in problems:
        print(f"Problem: {problem}")
    if problems:
        return 1
    pairs = sum(len(report["accounts"]) for report in subscribers.values())
    print(f"The numbers agree for all {pairs} subscribers: published = received + {' + '.join(CAUSES)}.")
    print(f"The books balance: {books.descriptors} descriptors, {books.pages} pages, each in exactly one place.")
    return 0


def totals(publishers: Reports, what: str) -> dict[str, int]:
    """The counts of the publishers, added up by topic."""
    found: dict[str, int] = {}
    for report in publishers.values():
        for topic, counts in report["topics"].items():
            found[topic] = found.get(topic, 0) + counts[what]
    return found


def disagreements(published: Mapping[str, int], subscribers: Reports) -> list[str]:
    """What does not add up, a sentence each."""
    found: list[str] = []
    for role, report in subscribers.items():
        for account in report["accounts"]:
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


def subscribers_table(subscribers: Reports) -> Table:
    """A row a subscription."""
    rows = [_row(role, account) for role, report in subscribers.items() for account in report["accounts"]]
    columns = ("subscriber", "topic", "delivered", *CAUSES, "deadlines missed", "p50 us", "p90 us", "p99 us", "QoS")
    return Table("Received; latency is from publishing to taking", columns, rows)


def _row(role: str, account: Mapping[str, Any]) -> list[Any]:
    latency = [round(value) for value in account["latency_us"]] or [None] * 3
    counts = [account[name] for name in ("received", *CAUSES, "deadlines_missed")]
    return [role, account["topic"], *counts, *latency, WHAT[role]]
