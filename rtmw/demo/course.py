"""The course of the demonstration: both hosts live, then the recording, and then the durable log.

Two hosts are two domains of this machine with a node each, that meet on a DDS domain over loopback.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from rtmw import observe
from rtmw.cli.endings import ends_in_order
from rtmw.cli.terminal import say
from rtmw.demo.crew import END_S, START_S, Crew, CrewError
from rtmw.demo.durable import through_log
from rtmw.demo.offline import Offline, install_spark, with_spark, without_spark
from rtmw.demo.recording import arrive, complete, recorded, recorder
from rtmw.demo.roles import FAR, PUBLISHERS, SUBSCRIBERS
from rtmw.demo.screen import watch
from rtmw.demo.summary import show_durable, show_offline, show_summary, totals
from rtmw.demo.topics import telemetry
from rtmw.domain import Domain
from rtmw.errors import DomainError, DomainNotFound, LimitReached, NotInstalled


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
