"""Another Python process under a test's control: the other side of a bus."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path


class Child:
    """Runs a source string as a program; talks by lines; ends with the test."""

    def __init__(self, source: str, script: Path, env: Mapping[str, str], enter: Sequence[str] = ()) -> None:
        """`enter`: what to put before the command."""
        script.write_text(textwrap.dedent(source))
        self._stderr = script.with_suffix(".stderr")
        self._unread = b""
        with self._stderr.open("wb") as stderr:
            self._process = subprocess.Popen(
                [*enter, sys.executable, "-u", str(script)],
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env=env,
            )
        self.pid = self._process.pid

    @property
    def stderr(self) -> str:
        """What it has written to standard error so far."""
        return self._stderr.read_text(errors="replace")

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def line(self, timeout: float = 20.0) -> str:
        """The next line of its standard output, without the newline; a failure within `timeout` seconds says why."""
        until = time.monotonic() + timeout
        while b"\n" not in self._unread:
            chunk = self._read(until - time.monotonic())
            if chunk is None:
                raise AssertionError(f"no line from the child within {timeout} s{self._told()}")
            if not chunk:
                raise AssertionError(f"the child ended without another line{self._told()}")
            self._unread += chunk
        line, _, self._unread = self._unread.partition(b"\n")
        return line.decode()

    def _read(self, seconds: float) -> bytes | None:
        """What is there within so many seconds: None is nothing yet, empty is the end."""
        assert self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        ready, _, _ = select.select([descriptor], [], [], max(0.0, seconds))
        return os.read(descriptor, 65536) if ready else None

    def send(self, text: str = "") -> None:
        """Write one line to its standard input."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{text}\n".encode())

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone; also works on a stopped child."""
        self._process.kill()
        self._process.wait(20.0)

    def stop(self) -> None:
        """SIGSTOP, and wait until it has stopped."""
        self._process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WNOWAIT)

    def cont(self) -> None:
        """SIGCONT."""
        self._process.send_signal(signal.SIGCONT)

    def wait(self, timeout: float = 20.0) -> int:
        """Its exit status, once it has ended by itself; minus the signal's number if one ended it."""
        try:
            return self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the child did not end within {timeout} s{self._told()}") from None

    def end(self) -> None:
        """Leave nothing behind, whatever state it is in; what it said on standard error shows if the test failed."""
        if self.alive:
            self.kill()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
        sys.stderr.write(self._told())

    def _told(self) -> str:
        told = self.stderr
        return f"\n--- stderr of child {self.pid}:\n{told}" if told else ""


Spawn = Callable[[str], Child]
