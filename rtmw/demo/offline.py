"""The recording: messages that cross to the other host are recorded there, by `rtmw record`, and none of them is
missing. After the live part it is read, analysed and replayed, by Spark, or by rtmw alone where Spark is not."""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rtmw
import rtmw.spark
from rtmw import observe
from rtmw.cli.terminal import Table, say
from rtmw.cli.terminal import show as show_table
from rtmw.clock import CLOCK
from rtmw.demo.crew import START_S, CrewError
from rtmw.demo.topics import telemetry
from rtmw.domain import Domain
from rtmw.errors import NotInstalled
from rtmw.recording import Recording
from rtmw.spark.driver import find_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


TOPICS = (telemetry.MEMORY.name, telemetry.CPU.name, telemetry.ALARM.name)
"""The recorded topics; the node brings the topics that a program there asks for."""
TRAVEL_S = 30.0
"""How long the last messages may take to the other host."""
LOOK_S = 0.05


@contextmanager
def recorder(there: Domain, folder: Path) -> Generator[subprocess.Popen[bytes]]:
    """Records on the other host until `complete`, or at the latest until the end of the block."""
    command = [sys.executable, "-m", "rtmw", "record", *TOPICS, "-o", str(folder), "--domain", str(there.id)]
    process = subprocess.Popen(
        [*command, "--reliable", "--quiet"],
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        process_group=0,  # Ctrl-C is for the parent, which ends its children in order
    )
    try:
        if not wait_until(lambda: process.poll() is not None or _is_listening(there, process.pid), START_S):
            raise CrewError("The recorder did not start.")
        if process.poll() is not None:
            raise CrewError("The recorder has ended; its own words are above.")
        yield process
    finally:
        process.kill()
        process.wait()


def _is_listening(there: Domain, pid: int) -> bool:
    heard = {view.name for view in observe.topics(there) for one in view.subscribers if one.pid == pid}
    return heard >= {*TOPICS}


def arrive(there: Domain, published: Mapping[str, int]) -> None:
    """Wait until all that was published has come to the other host; if it does not, the sums will show it."""

    def arrived() -> bool:
        found = {view.name: view.published for view in observe.topics(there)}
        return all(found.get(topic, 0) >= published.get(topic, 0) for topic in TOPICS)

    wait_until(arrived, TRAVEL_S)


def complete(process: subprocess.Popen[bytes], folder: Path) -> Path:
    """End the recorder in order; its file. CrewError if it did not end well."""
    process.send_signal(signal.SIGTERM)
    try:
        status = process.wait(START_S)
    except subprocess.TimeoutExpired:
        raise CrewError("The recorder does not end.") from None
    files = sorted(folder.glob("*.mcap"))
    if status or len(files) != 1:
        raise CrewError(f"The recorder ended with status {status} and wrote {len(files)} files; one was expected.")
    return files[0]


def recorded(path: Path) -> dict[str, int]:
    """Messages by topic, as the index of the recording has them."""
    with Recording(path) as recording:
        found = dict.fromkeys(TOPICS, 0)
        for chunk in recording.chunks:
            for channel, count in chunk.counts.items():
                found[recording.channels[channel].topic] += count
    return found


def wait_until(condition: Callable[[], bool], seconds: float) -> bool:
    """Look again and again; False: it has not come true in time."""
    end = CLOCK.monotonic() + seconds
    while not condition():
        if CLOCK.monotonic() >= end:
            return False
        time.sleep(LOOK_S)
    return True


PART = 500
"""Messages of memory that are replayed, if there are so many: the first ones."""
PATIENCE_S = 30.0
"""How long a reader waits for the last replayed message."""


@dataclass(frozen=True)
class Offline:
    """The findings in the recording, and the outcome of the part that was replayed."""

    rows: dict[str, int]
    """Read, by topic."""
    selected: int
    """Messages to be replayed, and the sum of what they say."""
    selected_sum: int
    counted: int
    """Messages that came from the bus, and the sum of what they say."""
    counted_sum: int

    def problems(self, recorded: Mapping[str, int]) -> list[str]:
        """The disagreements, a sentence each."""
        found = [
            f"{recorded[topic]} messages of {topic} were recorded, but {self.rows.get(topic, 0)} were read."
            for topic in TOPICS
            if self.rows.get(topic, 0) != recorded[topic]
        ]
        if (self.selected, self.selected_sum) != (self.counted, self.counted_sum):
            found.append(f"{self.selected} messages were to be replayed, but {self.counted} came, or others.")
        if recorded[telemetry.MEMORY.name] and not self.counted:
            found.append("Nothing was replayed.")
        return found


class Listener:
    """A subscriber on the bus of a replay, which takes all messages of memory: none of them may be lost."""

    def __init__(self, bus: Domain) -> None:
        self._subscriber = telemetry.MEMORY.subscriber(
            domain=bus, reliability=rtmw.Reliability.RELIABLE, depth=2 * PART, history=0
        )

    def count(self, expected: int) -> tuple[int, int]:
        """Messages, and the sum of the memory that they say is used, when so many have come, or nothing comes."""
        number = total = 0
        while number < expected:
            try:
                total += self._subscriber.receive(PATIENCE_S).value.used
            except TimeoutError:
                break
            number += 1
        while (sample := self._subscriber.take()) is not None:  # more than there should be
            number, total = number + 1, total + sample.value.used
        self._subscriber.close()
        return number, total


SPARK = ("pyspark", "pyarrow", "pandas", "matplotlib")
"""The packages of `rtmw[spark]`."""
PIP = (sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")


def install_spark() -> None:
    """Install what Spark needs into this environment, if it is not there and Java is. NotInstalled: no Java, no pip."""
    find_java()
    if all(find_spec(package) for package in SPARK):
        return
    say("Installing Spark: about 500 MB, which takes a minute or two ...", flush=True)
    if subprocess.run([*PIP, "rtmw[spark]"]).returncode:
        raise NotInstalled("Spark could not be installed; pip says why above.")
    importlib.invalidate_caches()


def with_spark(path: Path, picture: Path, bus: Domain) -> Offline:
    """Counted, shown, drawn and replayed by Spark. NotInstalled: without Java, or without PySpark."""
    say("Spark starts, which takes some seconds ...", flush=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of PySpark, about the newest pandas
        spark = rtmw.spark.session("local[2]", name="rtmw demo", memory="1g")
        try:
            return in_spark(spark, path, picture, bus)
        finally:
            spark.stop()


def in_spark(spark: SparkSession, path: Path, picture: Path, bus: Domain) -> Offline:
    """The work of `with_spark`, in a session that runs."""
    from rtmw.spark import analyse

    messages = rtmw.spark.read(path, spark=spark, typed=False)
    latency = analyse.latency(messages)
    found: list[Any] = latency.collect()
    rows = {row.topic: row.messages for row in found}
    title = "Computed by Spark: from publishing on one host to the recorder on the other"
    show_table(Table(title, latency.columns, [[_whole(cell) for cell in row] for row in found]))
    cpu = rtmw.spark.read(path, spark=spark, topic=telemetry.CPU.name)
    means = analyse.resample(cpu, 0.5, ["percent"], how="mean")
    figure: Any = analyse.lines(means, "time", "percent", title="Processor load, as recorded", unit="%")
    figure.savefig(picture, dpi=120)
    say(f"Spark has drawn {picture}, and replays a part of the recording ...", flush=True)
    first = messages.where(f"topic = '{telemetry.MEMORY.name}'").orderBy("log_time_ns", "sequence").limit(PART)
    listener, part = Listener(bus), first.select("topic", "log_time", "sequence", "file", "payload")
    replayed = rtmw.spark.replay(part, rate=0.0, domain=bus.id, subscribers=1)
    used = used_bytes(path)[:PART]
    return Offline(rows, replayed.messages, sum(used), *listener.count(len(used)))


def _whole(cell: Any) -> Any:
    """Microseconds without fractions."""
    return round(cell) if isinstance(cell, float) else cell


def used_bytes(path: Path) -> list[int]:
    """The used bytes in each message of memory, in the order in which they were recorded."""
    with Recording(path) as recording:
        found = recording.messages(telemetry.MEMORY.name)
        return [telemetry.Memory.deserialize(message.payload).used for message in found]


def without_spark(path: Path, bus: Domain) -> Offline:
    """Counted and replayed by rtmw alone."""
    rows: dict[str, int] = {}
    with Recording(path) as recording:
        for message in recording.messages():
            rows[message.channel.topic] = rows.get(message.channel.topic, 0) + 1
    used = used_bytes(path)
    listener = Listener(bus)
    with rtmw.Replay(path, topics=[telemetry.MEMORY.name], rate=None, domain=bus, max_blocking=PATIENCE_S) as replay:
        replay.wait_for_subscribers(timeout=PATIENCE_S)
        replay.play()
        counted = listener.count(len(used))
    return Offline(rows, len(used), sum(used), *counted)
