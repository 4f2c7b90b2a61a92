"""Starts the processes of a measurement, carries words between them, and collects what they answer."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from bench.cable import HERE, Place, cable
from bench.carriers import CARRIERS, Carrier, carried
from bench.certificates import certificates
from bench.peers import ZENOH_TLS

ROOT = Path(__file__).parents[1]
LIMIT = 30.0
"""Seconds after which a measurement is given up."""
LEAVE = 3.0
"""Seconds that processes have to end after their last answer."""

ADDRESS = "RTMW_BENCH_ADDRESS"
"""In the environment of a process: the address at which others reach it."""
CERTIFICATES = "RTMW_BENCH_CERTIFICATES"
"""A folder with what programs need that speak TLS to each other."""

turn = count()


class Failed(Exception):
    """A part did not answer, in plain words."""


@dataclass(frozen=True)
class Part:
    """A process: which function of the question's module it runs, and on which processor."""

    name: str
    options: dict[str, Any] = field(default_factory=dict[str, Any])
    cpu: int | None = None


@dataclass(frozen=True)
class Way:
    """What lies between the first part and the others."""

    carrier: Carrier = Carrier.NONE
    has_cable: bool = False
    """These hosts have a network of their own each, and a cable between them; else they meet on loopback."""
    has_certificates: bool = False
    """Programs get certificates."""

    @classmethod
    def between(cls, system: str, *, has_cable: bool = False) -> Way:
        """From host to host, as this system does."""
        return cls(CARRIERS.get(system, Carrier.NONE), has_cable, system == ZENOH_TLS)


WITHIN = Way()


def environment() -> dict[str, str]:
    """Processes find bench and rtmw, and compiled modules of earlier ones, as a user's would."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return kept | {"PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))}


class Play:
    """The processes of one measurement. They end with the block, however it ends."""

    def __init__(self, limit: float) -> None:
        self.end = time.monotonic() + limit
        self.limit = limit
        self.processes: list[subprocess.Popen[str]] = []
        self.said: queue.Queue[tuple[int, str]] = queue.Queue()

    def __enter__(self) -> Play:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        """Who has answered ends by itself, the others are asked to, so that their systems clean up; then they must."""
        end = time.monotonic() + LEAVE
        for process in self.processes if kind is not None else ():
            process.terminate()
        for process in self.processes:
            with suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, end - time.monotonic()))
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    with suppress(BrokenPipeError):
                        pipe.close()

    def start(self, task: dict[str, Any], place: Place, more: dict[str, str]) -> None:
        """In a session of its own: Ctrl-C comes to the bench alone, which ends its processes. `more`: of the
        environment."""
        process = subprocess.Popen(
            [*place.enter, sys.executable, "-m", "bench.role"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=ROOT,
            env=environment() | {ADDRESS: place.address} | more,
            start_new_session=True,
        )
        self.processes.append(process)
        self.send(len(self.processes) - 1, json.dumps(task | {"limit": self.limit}))
        threading.Thread(target=self._listen, args=(len(self.processes) - 1,), daemon=True).start()

    def send(self, to: int, line: str) -> None:
        pipe = self.processes[to].stdin
        assert pipe is not None
        with suppress(BrokenPipeError):
            pipe.write(line + "\n")
            pipe.flush()

    def _listen(self, who: int) -> None:
        pipe = self.processes[who].stdout
        assert pipe is not None
        with suppress(ValueError):  # closed: the measurement is over
            for line in pipe:
                self.said.put((who, line))
            self.said.put((who, ""))

    def answers(self) -> list[Any]:
        """Every part's result, in their order."""
        results: dict[int, Any] = {}
        while len(results) < len(self.processes):
            try:
                who, line = self.said.get(timeout=max(0.0, self.end - time.monotonic()))
            except queue.Empty:
                raise Failed(f"no answer within {self.limit:.0f} s") from None
            if not line and who not in results:
                raise Failed(f"a process ended without an answer (status {self.processes[who].wait()})")
            self._take_in(who, json.loads(line or "{}"), results)
        return [results[who] for who in range(len(self.processes))]

    def _take_in(self, who: int, said: dict[str, Any], results: dict[int, Any]) -> None:
        if "missing" in said:
            raise Failed(f"not installed ({said['missing']})")
        if "failed" in said:
            raise Failed(said["failed"])
        if "result" in said:
            results[who] = said["result"]
        if "tell" in said:
            for other in set(range(len(self.processes))) - {who}:
                self.send(other, said["tell"])


class Stage:
    """Plays measurements, each in fresh processes, with a folder for sockets and a domain of its own."""

    def __init__(self, pool: str = "64M") -> None:
        self.pool = pool
        allowed = sorted(os.sched_getaffinity(0))
        self.processors = (allowed[0], allowed[1 % len(allowed)])
        """The two processors that pinned measurements use."""

    def play(
        self, question: str, peer: str, parts: Sequence[Part], limit: float = LIMIT, way: Way = WITHIN
    ) -> list[Any]:
        """What the parts answer; Failed says why there is nothing. The first part is on the first host of the way."""
        with (
            tempfile.TemporaryDirectory(prefix="rtmw-bench-") as folder,
            _places(way.has_cable) as places,
            carried(way.carrier, self.pool, environment(), places, Path(folder)) as numbers,
            Play(limit) as play,
        ):
            task: dict[str, Any] = {"question": question, "peer": peer, "place": folder}
            more = {CERTIFICATES: str(certificates())} if way.has_certificates else {}
            name = f"bench{os.getpid()}n{next(turn)}"
            for at, part in enumerate(parts):
                host = min(at, 1)
                about = {"part": part.name, "name": name, "options": part.options, "cpu": part.cpu}
                play.start(task | about | {"domain": numbers[host]}, places[host], more)
            return play.answers()


@contextmanager
def _places(has_cable: bool) -> Iterator[tuple[Place, Place]]:
    if has_cable:
        with cable() as places:
            yield places
    else:
        yield HERE, HERE
