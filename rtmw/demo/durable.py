"""Alarms into a durable log: its writer is killed in the middle, the next one goes on, and the numbers agree.

Each alarm has its number for an id, so a writer that begins after another one was killed appends all of them again, and
each is in the log once. It says each answer, so that the parent knows what has to survive.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import rtmw
from rtmw.demo.crew import END_S, CrewError, report
from rtmw.demo.topics import telemetry
from rtmw.recording import Recording


@dataclass(frozen=True)
class Durable:
    """The records that two writers appended, and those that the log has."""

    alarms: int
    """Alarms that are to be in the log."""
    answered: int
    """Appends of the first writer that were answered before it was killed."""
    survived: int
    """Records that the log had then."""
    repeated: int
    """Appends of the second writer that were answered with a record of the first."""
    numbers: tuple[int, ...]
    """Ids of the records that the log has now, in their order."""

    def problems(self) -> list[str]:
        """The disagreements, a sentence each."""
        found: list[str] = []
        if self.survived < self.answered:
            found.append(f"{self.answered} appends were answered, and {self.survived} records survived the kill.")
        if self.repeated != self.survived:
            found.append(f"{self.survived} records survived, and {self.repeated} appends were made again.")
        if self.numbers != tuple(range(self.alarms)):
            found.append(f"{self.alarms} alarms were appended, and the log has {len(self.numbers)} records, or others.")
        return found


def through_log(recording: Path, folder: Path, alarms: int) -> Durable:
    """Appends alarms made of a recording to a new log; its writer is killed when half of them are answered."""
    shutil.rmtree(folder, ignore_errors=True)
    answered = _killed(recording, folder, max(1, alarms // 2))
    survived = len(_numbers(folder))
    repeated = _completed(recording, folder)
    return Durable(alarms, answered, survived, repeated, tuple(_numbers(folder)))


def _writer(recording: Path, folder: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "rtmw.demo.durable", str(recording), str(folder)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, process_group=0)


def _killed(recording: Path, folder: Path, half: int) -> int:
    """How many appends were answered before the writer was gone."""
    answered = 0
    with _writer(recording, folder) as writer:
        try:
            assert writer.stdout is not None
            for line in writer.stdout:
                said: dict[str, Any] = json.loads(line) if line.endswith("\n") else {}
                answered = said.get("count", answered)
                if answered == half:
                    writer.kill()
        finally:
            writer.kill()
    return answered


def _completed(recording: Path, folder: Path) -> int:
    """How many appends the second writer made again. CrewError: it did not come to its end."""
    with _writer(recording, folder) as writer:
        try:
            assert writer.stdout is not None
            said: list[dict[str, Any]] = [json.loads(line) for line in writer.stdout]
        finally:
            writer.terminate()
            writer.wait(END_S)
    if not said or said[-1]["kind"] != "done":
        raise CrewError("The second writer of the log did not come to its end.")
    return int(said[-1]["repeated"])


def _numbers(folder: Path) -> list[Any]:
    with rtmw.Log(folder, rtmw.ANY, create=False) as log:
        return [record.id for record in log.read()]


def alarms(path: Path) -> Iterator[telemetry.Alarm]:
    """One for each reading of the processor: so that there are many on any machine, the threshold is zero."""
    with Recording(path) as recording:
        for message in recording.messages(telemetry.CPU.name):
            cpu = telemetry.Cpu.deserialize(message.payload)
            yield telemetry.Alarm(host=cpu.host, source="cpu", text=f"load is {cpu.percent:.0f} %", value=cpu.percent)


def write(recording: Path, folder: Path) -> None:
    """Appends all alarms, and reports each answer."""
    with rtmw.Log(folder, telemetry.Alarm) as log:
        for number, alarm in enumerate(alarms(recording)):
            log.append(alarm, key=alarm.source, id=number)
            report("answered", count=number + 1)
        report("done", repeated=log.stats().repeated)


if __name__ == "__main__":
    write(Path(sys.argv[1]), Path(sys.argv[2]))
