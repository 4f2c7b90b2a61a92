"""The process that appends to the log of the demonstration: `python -m rtmw.demo.log_writer RECORDING FOLDER`.

Each alarm has its number for an id, so a writer that begins after another one was killed appends all of them again, and
each is in the log once. It says each answer, so that the parent knows what has to survive.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import rtmw
from rtmw.demo.child import report
from rtmw.demo.topics import telemetry
from rtmw.recording import Recording


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
