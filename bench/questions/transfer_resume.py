"""After a cut at 95 % of a file, how soon does the first new byte come?

rtmw: a line between the nodes cuts itself there; from the moment at which it is whole again, which the nodes notice by
themselves.
rsync: from the start of `rsync --append-verify`, beside a copy of the first 95 %, until that grows.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import rtmw
from bench import disk, rsync
from bench.broken_line import BrokenLine
from bench.cases import RTMW, Case, Figures
from bench.letters import serving_two
from bench.questions.transfer_file import LIMIT, MIB, taken, written
from bench.role import Role
from bench.stage import Part, Stage

TITLE = "The first new byte of a file after a cut at 95 %"
UNIT = "ms"
ROUNDS = 3
RSYNC = "rsync --append-verify"
CUT, AT = "cut", 0.95
DOWN_S = 0.5
"""The line stays cut for so long, and nothing is on its way any more then."""


def cases(quick: bool) -> Sequence[Case]:
    return [Case(CUT, (RTMW, RSYNC), {"mib": 128 if quick else 1024})]


def measure(stage: Stage, system: str, case: Case) -> dict[str, Figures]:
    with disk.new_folder() as folder:
        options = case.options | {"folder": str(folder)}
        seconds = stage.play("transfer_resume", system, [Part("resume", options)], LIMIT)[0]
    return {system: Figures(1000 * seconds)}


def resume(role: Role) -> float:
    """Seconds."""
    folder = Path(role.options["folder"])
    source = written(folder / "source", role.options["mib"])
    at = int(AT * role.options["mib"]) * MIB
    return by_node(role, folder, source, at) if role.peer == RTMW else by_rsync(folder, source, at)


def until(met: Callable[[], bool]) -> float:
    """The time at which it was so."""
    end = time.perf_counter() + LIMIT
    while not met():
        if time.perf_counter() > end:
            raise TimeoutError("nothing more has come")
    return time.perf_counter()


def by_node(role: Role, folder: Path, source: Path, at: int) -> float:
    arrived = folder / "arrived"
    arrived.mkdir()
    lines = list[BrokenLine]()

    def through(port: int) -> int:
        lines.append(BrokenLine(port, limit=at))
        return lines[0].port

    with (
        serving_two(role.domain, folder, through=through) as two,
        rtmw.Inbox("files", folder=arrived, domain=two.there) as inbox,
        rtmw.Sender("bench", domain=two.here) as sender,
    ):
        sender.send("files@there", rtmw.File(source), delivery=rtmw.Delivery.LOG)
        if not lines[0].was_cut.wait(LIMIT):
            raise TimeoutError("the line was not cut")
        time.sleep(DOWN_S)
        before = _size(arrived)
        assert 0 < before <= at, "it was cut elsewhere"
        begin = time.perf_counter()
        lines[0].mend()
        seconds = until(lambda: _size(arrived) != before) - begin
        taken(inbox).consume()
    return seconds


def _size(arrived: Path) -> int:
    """Of what has come; 0: nothing has, or all is there."""
    try:
        return sum(one.stat().st_size for one in (arrived / ".rtmw").iterdir())
    except FileNotFoundError:
        return 0


def by_rsync(folder: Path, source: Path, at: int) -> float:
    with rsync.daemon(folder) as there:
        part = folder / "there" / source.name
        with source.open("rb") as whole, part.open("wb") as file:
            os.sendfile(file.fileno(), whole.fileno(), 0, at)
            while file.seek(0, os.SEEK_END) < at:
                os.sendfile(file.fileno(), whole.fileno(), file.tell(), at - file.tell())
            os.fsync(file.fileno())
        command = [rsync.program("rsync", "rsync"), "--append-verify", str(source), there]
        begin = time.perf_counter()
        process = subprocess.Popen(command)
        seconds = until(lambda: part.stat().st_size > at) - begin
        if process.wait(LIMIT):
            raise RuntimeError(f"rsync ended with {process.returncode}")
    return seconds
