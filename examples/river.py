"""A river's measuring stations send all they have to the basin's centre, whose node is killed in the middle.

    python examples/river.py [--readings FILE]      # in a clone and its environment: . .venv/bin/activate

It imports `topics/` of the clone, which the installed package does not have.

Two nodes on this host, each with a folder and a domain of its own. The stations send readings (typed messages), files
of their laboratories, and campaigns (composites: a note with two files) to `…@centre`, with Delivery.LOG. When a third
of it is sent, the node of the centre is killed; what the stations send meanwhile waits at theirs. The centre writes
each letter into SQLite under the letter's id, in one transaction, so that a letter that comes twice counts once. At the
end its tables have to equal those of the stations.

The readings are made up, from a seed: plausible daily courses, no measurements of a real river. `--readings` takes
yours instead: a CSV file with a line of names, `station,parameter,value,measured`, and times in ISO 8601 (UTC, if they
do not say otherwise). Its stations send them; what laboratories and campaigns have is made up in any case.
"""

from __future__ import annotations

import argparse
import asyncio
import csv
import json
import math
import random
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from threading import Barrier

import rtmw
from topics.river import Quality, Reading

STATIONS = ("Aue", "Bruchhausen", "Castrop")
COURSES = {"oxygen": (9.0, 1.5), "temperature": (14.0, 3.0), "nitrate": (3.2, 0.4), "ph": (7.8, 0.2)}
"""What a station measures: mean and amplitude of its day."""
PHASES = ("before", "during", "after")
"""The node of the centre is away during the second one."""
PATIENCE = 120.0
BEGIN_NS = 1_719_792_000 * 10**9
"""The first of July, 2024."""

Table = list[tuple[object, ...]]
Measured = dict[str, list[Reading]]
"""By station."""
TABLES = {
    "readings": "station, parameter, value, quality, measured_ns",
    "samples": "station, sample, substance, micrograms",
    "campaigns": "station, note, spectrum",
}


# ---- what the stations have ----


def readings(station: str, hours: int) -> list[Reading]:
    """Of some hours, by the quarter of an hour."""
    numbers, found = random.Random(station), list[Reading]()
    for quarter, (name, (mean, swing)) in product(range(4 * hours), COURSES.items()):
        value = mean + swing * math.sin(math.tau * quarter / 96) + numbers.gauss(0, swing / 10)
        quality = Quality.UNCERTAIN if numbers.random() < 0.02 else Quality.GOOD
        found.append(Reading(station, name, round(value, 3), quality, BEGIN_NS + quarter * 900 * 10**9))
    return found


def readings_of(path: Path) -> Measured:
    """Of a file; see above. Raises OSError, ValueError: with the line that is none."""
    found: Measured = {}
    with path.open(newline="", encoding="utf-8-sig") as file:
        for number, row in enumerate(csv.DictReader(file), 2):
            try:
                station, measured = row["station"], datetime.fromisoformat(row["measured"])
                when = measured if measured.tzinfo else measured.replace(tzinfo=UTC)
                reading = Reading(station, row["parameter"], float(row["value"]), Quality.GOOD, nanoseconds(when))
            except (KeyError, TypeError, ValueError) as error:
                raise ValueError(f"{path}, line {number}: {error!r}") from None
            found.setdefault(station, []).append(reading)
    if not found:
        raise ValueError(f"{path} has no readings")
    return found


def nanoseconds(when: datetime) -> int:
    return (when - datetime.fromtimestamp(0, UTC)) // timedelta(microseconds=1) * 1000


def samples(station: str, phase: str) -> Table:
    """What a laboratory has found: lines of its file."""
    numbers, substances = random.Random(station + phase), ("atrazine", "copper", "diclofenac", "zinc")
    return [
        (station, f"{phase}-{one}", substance, round(numbers.lognormvariate(0, 1), 4))
        for one, substance in product(range(500), substances)
    ]


def spectrum(station: str, phase: str) -> bytes:
    """Of a campaign: a megabyte of an instrument."""
    return random.Random(phase + station).randbytes(1 << 20)


def work(station: str, measured: list[Reading], folder: Path, domain: int, turn: Barrier) -> dict[str, Table]:
    """As `send_all`; an error is said, and ends the example."""
    try:
        return send_all(station, measured, folder, domain, turn)
    except (rtmw.RtmwError, OSError, ValueError) as error:
        print(f"{station}: {error!r}", file=sys.stderr)
        turn.abort()
        raise


def send_all(station: str, measured: list[Reading], folder: Path, domain: int, turn: Barrier) -> dict[str, Table]:
    """Sends in three phases, and waits until the centre has consumed all. Gives what it has sent, as tables."""
    sent = list[rtmw.Transfer]()
    tables: dict[str, Table] = {name: [] for name in TABLES}
    with rtmw.Sender(station, domain=domain) as sender:
        for number, phase in enumerate(PHASES):
            turn.wait(PATIENCE)
            for reading in measured[number :: len(PHASES)]:
                sent.append(sender.send("readings@centre", reading, delivery=rtmw.Delivery.LOG))
                tables["readings"].append(row_of(reading))
            tables["samples"] += samples(station, phase)
            note, raw, table = f"campaign {phase} of {station}", *files_of(station, phase, folder)
            for body in (rtmw.File(table), [rtmw.Part(note.encode()), rtmw.File(raw), rtmw.File(table)]):
                sent.append(sender.send("laboratory@centre", body, delivery=rtmw.Delivery.LOG))
            tables["campaigns"].append((station, note, spectrum(station, phase)))
            turn.wait(PATIENCE)
        for transfer in sent:
            if not transfer.wait(rtmw.Level.CONSUMED, PATIENCE):
                raise TimeoutError(f"{transfer} was not consumed")
    return tables


def row_of(reading: Reading) -> tuple[object, ...]:
    return reading.station, reading.parameter, reading.value, reading.quality.name, reading.measured_ns


def files_of(station: str, phase: str, folder: Path) -> tuple[Path, Path]:
    raw, table = folder / f"{station}-{phase}.raw", folder / f"{station}-{phase}.csv"
    raw.write_bytes(spectrum(station, phase))
    with table.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(samples(station, phase))
    return raw, table


# ---- the centre ----


def centre(folder: Path, domain: int) -> None:
    """Until it is ended: a program of its own, with an inbox for each kind."""

    async def both() -> None:
        await asyncio.gather(take_readings(folder, domain), take_laboratory(folder, domain))

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's business
    asyncio.run(both())


async def take_readings(folder: Path, domain: int) -> None:
    with closing(opened(folder)) as tables, rtmw.Inbox("readings", type=Reading, domain=domain) as inbox:
        async for letter in inbox:
            async with letter:
                keep(tables, letter.id, "readings", [row_of(letter.body)])


async def take_laboratory(folder: Path, domain: int) -> None:
    """A file of samples, or a campaign: its note, its spectrum, and its samples once more."""
    inbox = rtmw.Inbox("laboratory", folder=folder / "arrived", domain=domain)
    with closing(opened(folder)) as tables, inbox:
        async for letter in inbox:
            async with letter:
                if len(letter.parts) == 1:
                    keep(tables, letter.id, "samples", rows_of(letter.files[0]))
                else:
                    note, raw, _ = letter.parts
                    keep(tables, letter.id, "campaigns", [(letter.sender, note.decode(), raw.read_bytes())])


def rows_of(path: Path) -> Table:
    with path.open(newline="", encoding="utf-8") as file:
        return [(*row[:3], float(row[3])) for row in csv.reader(file)]


def opened(folder: Path) -> sqlite3.Connection:
    tables = sqlite3.connect(folder / "basin.sqlite", timeout=PATIENCE)
    tables.executescript("PRAGMA journal_mode = WAL; CREATE TABLE IF NOT EXISTS letters (id TEXT PRIMARY KEY);")
    for name, columns in TABLES.items():
        tables.execute(f"CREATE TABLE IF NOT EXISTS {name} ({columns})")
    return tables


def keep(tables: sqlite3.Connection, id: rtmw.TransferId, name: str, rows: Table) -> None:
    """Durably, with the id of the letter in the same transaction: what has come before is not kept twice."""
    with tables:
        if tables.execute("INSERT OR IGNORE INTO letters VALUES (?)", (str(id),)).rowcount:
            tables.executemany(f"INSERT INTO {name} VALUES ({', '.join('?' * len(rows[0]))})", rows)


# ---- nodes ----


class Node:
    """`rtmw node`, which keeps transfers. Without keys, as loopback allows it; docs/links.md has TLS."""

    def __init__(self, name: str, folder: Path, domain: int, place: str) -> None:
        self._folder, self._domain = folder, domain
        self._settings = folder / "node.toml"
        (folder / "data").mkdir(parents=True)
        where = f'domain = {domain}\nname = "{name}"\nserve = ["transfer"]\ndata = "{folder / "data"}"\n'
        rules = '[[allow]]\npeer = "*"\nsend = ["readings@centre", "laboratory@centre"]\n'
        self._settings.write_text(f"{where}[transfer]\ninsecure = true\n{place}\n{rules}", encoding="utf-8")
        self.start()

    def start(self) -> None:
        """Returns when a program can send."""
        command = [sys.executable, "-m", "rtmw", "node", "--config", str(self._settings)]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        end = time.monotonic() + PATIENCE
        while True:
            try:
                with rtmw.Sender("ready", domain=self._domain):
                    return
            except rtmw.CoreNotRunning:
                if self._process.poll() is not None or time.monotonic() > end:
                    sys.exit(f"The node has ended:\n{(self._folder / 'log').read_text()}")

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def end(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self.kill()


def waiting(domain: int) -> int:
    """Transfers that a node keeps, as `rtmw transfers` has them."""
    command = [sys.executable, "-m", "rtmw", "transfers", "--json", "--domain", str(domain)]
    shown = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    return int(shown["counters"]["parked"])


@contextmanager
def river(folder: Path, domains: tuple[int, int]) -> Generator[tuple[Node, Node]]:
    """Both nodes, and the program of the centre."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = found.getsockname()[1]
    (folder / "arrived").mkdir()
    program = get_context("spawn").Process(target=centre, args=(folder, domains[1]), daemon=True)
    nodes = list[Node]()
    with rtmw.Domain(domains[0], pool="16M"), rtmw.Domain(domains[1], pool="16M"):
        try:
            nodes.append(Node("centre", folder / "centre", domains[1], f'listen = "127.0.0.1:{port}"'))
            nodes.append(Node("stations", folder / "stations", domains[0], f'connect = ["127.0.0.1:{port}"]'))
            program.start()
            yield nodes[0], nodes[1]
        finally:
            program.kill()
            for node in nodes:
                node.end()
    for domain in domains:
        rtmw.Domain.unlink(domain)


# ---- all of it ----


def run(folder: Path, domains: tuple[int, int], measured: Measured) -> dict[str, dict[str, Table]]:
    """What each station has sent."""
    turn = Barrier(len(measured) + 1)
    with river(folder, domains) as (centre_node, _), ThreadPoolExecutor(len(measured)) as pool:
        working = {one: pool.submit(work, one, found, folder, domains[0], turn) for one, found in measured.items()}
        for phase in PHASES:
            if phase == "during":
                centre_node.kill()
                print("The node of the centre is killed.", flush=True)
            turn.wait(PATIENCE)
            turn.wait(PATIENCE)
            print(f"The stations have sent what they had {phase} the outage.", flush=True)
            if phase == "during":
                print(f"{waiting(domains[0])} transfers wait at the stations' node.", flush=True)
                centre_node.start()
                print("The node of the centre is back.", flush=True)
        return {name: done.result(PATIENCE) for name, done in working.items()}


def compared(folder: Path, sent: dict[str, dict[str, Table]]) -> bool:
    """Prints a line for each station and table. True: the centre has just that."""
    equal = True
    print(f"{'station':12} {'table':10} {'sent':>6} {'centre':>6}")
    with closing(sqlite3.connect(folder / "basin.sqlite")) as tables:
        for station, (name, columns) in product(sent, TABLES.items()):
            there = tables.execute(f"SELECT {columns} FROM {name} WHERE station = ?", (station,)).fetchall()
            is_same = sorted(there, key=repr) == sorted(sent[station][name], key=repr)
            equal &= is_same
            mark = "equal" if is_same else "DIFFERENT"
            print(f"{station:12} {name:10} {len(sent[station][name]):6} {len(there):6}  {mark}")
    return equal


def main() -> int:
    parser = argparse.ArgumentParser(description="Stations of a river send to the basin's centre over two nodes.")
    parser.add_argument("--domains", nargs=2, type=int, default=(96, 97), help="of stations and centre (default 96 97)")
    parser.add_argument("--readings", type=Path, metavar="FILE", help="a CSV of yours (default: made up)")
    arguments = parser.parse_args()
    try:
        own = readings_of(arguments.readings) if arguments.readings else None
    except (OSError, ValueError) as error:
        parser.error(str(error))
    measured = own or {station: readings(station, hours=6) for station in STATIONS}
    with tempfile.TemporaryDirectory(prefix="rtmw-river-") as folder:
        sent = run(Path(folder), tuple(arguments.domains), measured)
        equal = compared(Path(folder), sent)
    print("The centre's tables equal those of the stations." if equal else "The centre's tables are others.")
    return 0 if equal else 1


if __name__ == "__main__":
    sys.exit(main())
