"""Messages that cross to the other host are recorded there, by `rtmw record`, and none of them is missing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

from rtmw import observe
from rtmw.clock import CLOCK
from rtmw.demo.crew import START_S, CrewError
from rtmw.demo.topics import telemetry
from rtmw.domain import Domain
from rtmw.recording import Recording

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
