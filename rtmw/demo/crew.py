"""The child processes: started, asked to end, never left behind. Each runs until its standard input ends, and reports
in lines of JSON.

The parent closes the standard input of a child to end it. If the parent dies, the kernel does.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from rtmw.clock import CLOCK
from rtmw.errors import RtmwError

RATE_HZ = 100.0


def report(kind: str, **data: Any) -> None:
    """Tell the parent: a `kind` of line, and what belongs to it."""
    print(json.dumps({"kind": kind, **data}), flush=True)


def ended(then: Callable[[], object] | None = None) -> threading.Event:
    """An event that is set (and `then` called, in another thread) when standard input ends."""
    event = threading.Event()

    def wait() -> None:
        sys.stdin.read()
        event.set()
        if then is not None:
            then()

    threading.Thread(target=wait, daemon=True).start()
    return event


def ticks(end: threading.Event, rate_hz: float = RATE_HZ) -> Iterator[None]:
    """Go on at this rate until the end; a turn that comes late does not move those after it."""
    next_s = CLOCK.monotonic()
    while not end.is_set():
        yield
        next_s += 1 / rate_hz
        end.wait(max(0.0, next_s - CLOCK.monotonic()))


START_S = 60.0
"""Enough for a machine that is busy with other things."""
FINISH_S = 20.0
END_S = 5.0


class CrewError(RtmwError):
    """A process of the demonstration failed; its own words are above."""


class Member:
    """A child process, and the lines it has reported."""

    def __init__(self, role: str, number: int) -> None:
        self.role = role
        self.process = subprocess.Popen(
            [sys.executable, "-m", "rtmw.demo", role, str(number)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            process_group=0,  # Ctrl-C is for the parent, which ends its children in order
        )
        self._said: list[dict[str, Any]] = []
        self._news = threading.Condition()
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._news:
                self._said.append(json.loads(line))
                self._news.notify_all()
        with self._news:
            self._news.notify_all()

    def said(self, kind: str) -> list[dict[str, Any]]:
        """The reports of this kind from this process so far."""
        with self._news:
            return [line for line in self._said if line["kind"] == kind]

    def await_line(self, kind: str, timeout: float) -> dict[str, Any]:
        """Waits for the first line of this kind of the process, and returns it; CrewError if it does not come."""
        end = CLOCK.monotonic() + timeout
        with self._news:
            while not (lines := [line for line in self._said if line["kind"] == kind]):
                left = end - CLOCK.monotonic()
                if left <= 0 or not self._listener.is_alive():
                    raise CrewError(f"The process {self.role} of the demonstration did not say {kind}.")
                self._news.wait(min(left, 0.2))
            return lines[0]

    def ask_to_end(self) -> None:
        """Close its standard input."""
        assert self.process.stdin is not None
        self.process.stdin.close()

    def end(self) -> None:
        """Make sure that it is gone."""
        self.ask_to_end()
        for last_resort in (self.process.terminate, self.process.kill):
            try:
                self.process.wait(END_S)
                break
            except subprocess.TimeoutExpired:
                last_resort()
        self.process.wait()
        self._listener.join()
        assert self.process.stdout is not None
        self.process.stdout.close()


class Crew:
    """All child processes of a demonstration; none of them outlives it."""

    def __init__(self) -> None:
        self._members: dict[str, Member] = {}
        self._others: dict[int, str] = {}

    def __enter__(self) -> Crew:
        return self

    def __exit__(self, *error: object) -> None:
        for member in self._members.values():
            member.ask_to_end()
        for member in self._members.values():
            member.end()

    def start(self, roles: Iterable[str], number: int) -> None:
        """Start these processes in a domain, and wait until all of them are ready."""
        names = list(roles)
        for name in names:
            self._members[name] = Member(name, number)
        for name in names:
            self._members[name].await_line("ready", START_S)

    def finish(self, roles: Iterable[str]) -> dict[str, dict[str, Any]]:
        """End these processes in order: what each of them reported last."""
        names = list(roles)
        for name in names:
            self._members[name].ask_to_end()
        reports = {name: self._members[name].await_line("done", FINISH_S) for name in names}
        for name in names:
            self._members[name].end()
        return reports

    def said(self, role: str, kind: str) -> list[dict[str, Any]]:
        """The reports of this kind from a process so far."""
        return self._members[role].said(kind)

    def role(self, pid: int) -> str:
        """Returns the role of a process; its number if it is none of ours."""
        ours = next((name for name, member in self._members.items() if member.process.pid == pid), None)
        return ours or self._others.get(pid, str(pid))

    def introduce(self, role: str, pid: int) -> None:
        """A process that takes part, and was started elsewhere."""
        self._others[pid] = role
