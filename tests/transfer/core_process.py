"""A core of a test's own: a real process, which can be killed, stopped and started again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import rtmw
from tests import warm

PATIENCE = 30.0
NODE = "plant"
KILLED = "tests.transfer.mortal_core"
CHANGED = "tests.transfer.changed_core"
WARM = ("rtmw.transfer.core", KILLED, CHANGED)
"""Modules that change others after their import, if at all: another one, as that of mutants, would come too late."""


class CoreProcess:
    """The process that a node starts for `serve = ["transfer"]`, without the node."""

    def __init__(self, domain: int, data: Path, node: str = NODE, config: Path | None = None) -> None:
        self.domain, self.data, self.node = domain, data, node
        self._more = [] if config is None else ["--config", str(config)]
        self.enter: list[str] = []
        """What to put before the command, so that it runs elsewhere."""
        self._process: subprocess.Popen[bytes] | warm.Process | None = None
        self.said = b""

    def start(self, module: str = "rtmw.transfer.core", *more: str) -> None:
        """Ready when this returns: a sender has joined it."""
        where = ["--domain", str(self.domain), "--data", str(self.data), "--node", self.node, *self._more, *more]
        path = os.pathsep.join(filter(None, [str(Path(rtmw.__file__).parents[1]), os.environ.get("PYTHONPATH")]))
        env = {**os.environ, "PYTHONPATH": path}
        if not self.enter and module in WARM and warm.can_start(env):
            self._process = warm.start_with_pipes(module, where, env)
        else:
            command, pipe = [*self.enter, sys.executable, "-m", module, *where], subprocess.PIPE
            self._process = subprocess.Popen(command, stdin=pipe, stderr=pipe, env=env)

    def wait_until_ready(self) -> None:
        """A program can join it."""
        end = time.monotonic() + PATIENCE
        while True:
            try:
                with rtmw.Sender("ready", domain=self.domain):
                    return
            except rtmw.CoreNotRunning:
                assert self.alive, self.end()
                assert time.monotonic() < end, "the core does not come"
                time.sleep(0.005)

    @property
    def process(self) -> subprocess.Popen[bytes] | warm.Process:
        assert self._process is not None
        return self._process

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE)
        self.close_pipes()

    def stop(self) -> None:
        self.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WNOWAIT)

    def go_on(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def terminate(self) -> int:
        """Its exit status."""
        self.process.terminate()
        status = self.process.wait(PATIENCE)
        self.close_pipes()
        return status

    def close_pipes(self) -> None:
        process = self.process
        if process.stderr is not None and not process.stderr.closed:
            self.said += process.stderr.read() or b""
            process.stderr.close()
        if process.stdin is not None:
            process.stdin.close()

    def log(self) -> str:
        """What it has said so far."""
        process = self.process
        assert process.stderr is not None
        os.set_blocking(process.stderr.fileno(), False)
        self.said += process.stderr.read() or b""
        return self.said.decode()

    def end(self) -> str:
        """In any case; what it has said on standard error."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(PATIENCE)
            self.close_pipes()
        return self.said.decode()


def consumed(inbox: rtmw.Inbox, count: int) -> list[Any]:
    """The bodies of the next letters, which are consumed."""
    found: list[Any] = []
    while len(found) < count:
        letter = inbox.take(PATIENCE)
        assert letter is not None
        with letter:
            found.append(letter.body)
    return found


@contextmanager
def serving_transfers(domain: int, data: Path) -> Generator[CoreProcess]:
    """A core that programs of the domain can join; it ends with the block."""
    core = CoreProcess(domain, data / "core")
    with rtmw.Domain(domain):
        core.start()
        try:
            core.wait_until_ready()
            yield core
        finally:
            core.end()
