"""Processes that start warm: copies of one that has imported already what they would import.

To start a node takes 0.6 s of processor time, a command 0.3 s, and nearly all of that are its imports. Tests start more
than a thousand. So a test run has one process that imports them once, and forks: what is forked has the command line,
the environment, the folder and the streams of a process that was started, is a child of the test run as one that was
started, and runs its module from the first line.

Not warm, but started: what runs elsewhere (another user, a network namespace), other code than that of this tree or
what changes modules as they are imported, and what sets variables that the loader, the allocator or Python reads when
it starts.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from importlib import import_module
from io import FileIO
from pathlib import Path
from tempfile import TemporaryFile
from threading import Lock
from typing import Any

ROOT = Path(__file__).parents[1]
IMPORTED = ("rtmw.cli", "rtmw.net.node", "rtmw.net.link.links", "rtmw.transfer.core.process", "uvloop")
FIXED = ("LD_", "MALLOC_", "GLIBC_", "PYTHON")
"""Variables whose names begin so are read when a program starts."""
LONGEST = 4096
"""Bytes of a command line: the room that /proc has for it is that of the first process."""
RUN_S = 60.0
"""How long `run` waits for a command."""
_MOST = 1 << 18
_SET_CHILD_SUBREAPER = 36
"""Of prctl(2)."""


class Process:
    """A child of this process, with what tests use of subprocess.Popen."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.stdin: FileIO | None = None
        self.stdout: FileIO | None = None
        self.stderr: FileIO | None = None
        self.returncode: int | None = None
        self._turn = Lock()  # one thread may wait, and another kill

    def poll(self) -> int | None:
        """Its exit status, once it has ended; minus the signal's number if one ended it."""
        with self._turn:
            if self.returncode is None and (ended := os.waitpid(self.pid, os.WNOHANG))[0]:
                self.returncode = os.waitstatus_to_exitcode(ended[1])
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """As `poll`, and waits for it; an AssertionError says that it takes longer."""
        if self.returncode is None:
            descriptor = os.pidfd_open(self.pid)
            try:
                select.select([descriptor], [], [], timeout)
            finally:
                os.close(descriptor)
        status = self.poll()
        assert status is not None, f"process {self.pid} does not end within {timeout} s"
        return status

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def can_start(env: Mapping[str, str]) -> bool:
    """Whether a process that was started with this environment would have begun as a copy begins."""
    return fixed(env) == _FIXED_HERE


def fixed(env: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in env.items() if name.startswith(FIXED) and name != "PYTHONPATH"}


_FIXED_HERE = fixed(os.environ)
"""Before any test has set a variable."""


def start(module: str, words: Sequence[str], env: Mapping[str, str], streams: Sequence[int]) -> Process:
    """`python -m module words...` in the folder of this tree, with these standard streams: their three descriptors."""
    assert sum(len(os.fsencode(word)) + 1 for word in (sys.executable, "-m", module, *words)) <= LONGEST
    asked = {"module": module, "words": [*words], "env": {**env}}
    first, turn = _first()
    with turn, _takes_orphans():
        try:
            socket.send_fds(first, [json.dumps(asked).encode()], streams)
            return Process(int(first.recv(20)))
        except BaseException:  # such as the timeout of a test: what this call did not read, no other may
            _first.cache_clear()
            raise


def start_with_pipes(module: str, words: Sequence[str], env: Mapping[str, str], *, tells: bool = False) -> Process:
    """As `start`, with a pipe to its standard input, and one from its standard error; from its output if it `tells`."""
    their_stdin, stdin = os.pipe()
    answer, their_answer = os.pipe()
    process = start(module, words, env, (their_stdin, their_answer, 2) if tells else (their_stdin, 1, their_answer))
    os.close(their_stdin)
    os.close(their_answer)
    process.stdin = FileIO(stdin, "w")
    if tells:
        process.stdout = FileIO(answer)
    else:
        process.stderr = FileIO(answer)
    return process


def run(*words: str, check: bool = False, env: Mapping[str, str] = os.environ) -> subprocess.CompletedProcess[str]:
    """`rtmw words...` to its end, with nothing to read: its status, and what it said. `check`: the status must be 0."""
    assert can_start(env)
    with open(os.devnull) as nothing, TemporaryFile() as out, TemporaryFile() as err:
        process = start("rtmw", words, env, (nothing.fileno(), out.fileno(), err.fileno()))
        try:
            status = process.wait(RUN_S)
        finally:
            process.kill()
            process.wait()
        out.seek(0)
        err.seek(0)
        done = subprocess.CompletedProcess(["rtmw", *words], status, out.read().decode(), err.read().decode())
    if check:
        done.check_returncode()
    return done


@cache
def _first() -> tuple[socket.socket, Lock]:
    """The connection to the process that is copied, which this call starts."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    command = [sys.executable, "-m", "tests.warm", str(theirs.fileno()), "." * LONGEST]
    changing = {name: value for name, value in os.environ.items() if not name.startswith(FIXED)}
    env = {**changing, **_FIXED_HERE, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(command, pass_fds=[theirs.fileno()], cwd=ROOT, env=env)
    theirs.close()

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)
    return ours, Lock()


@contextmanager
def _takes_orphans() -> Generator[None]:
    """Meanwhile, a process below this one whose parent ends becomes a child of this one."""
    change = ctypes.CDLL(None, use_errno=True).prctl
    assert change(_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0, os.strerror(ctypes.get_errno())
    try:
        yield
    finally:
        change(_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def serve(asked: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """In the first process: copy it as often as the test run asks, and None when that has ended. In a copy: what it has
    to run, and its streams."""
    while True:
        request, streams, _, _ = socket.recv_fds(asked, _MOST, 3)
        if not request:
            return None
        pid = fork_away()
        if not pid:
            return json.loads(request), streams
        for descriptor in streams:
            os.close(descriptor)
        asked.send(b"%d" % pid)


def fork_away() -> int:
    """Fork, so that the copy is no child of this process: the pid; 0 in the copy, once it has its parent for life."""
    reads, writes = os.pipe()
    middle = os.fork()
    if not middle:
        itself = os.pidfd_open(os.getpid())
        pid = os.fork()
        if pid:
            os.write(writes, b"%d" % pid)
            os._exit(0)
        select.select([itself], [], [])  # readable once the process in the middle has left its children to another
        os.close(itself)
    os.close(writes)
    if middle:
        os.waitpid(middle, 0)
        pid = int(os.read(reads, 20))
    os.close(reads)
    return pid


def become(command: list[str], env: Mapping[str, str], streams: Sequence[int]) -> None:
    """This copy is what was started with this command, as far as programs can see."""
    for standard, descriptor in enumerate(streams):
        os.dup2(descriptor, standard)
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(env)
    sys.orig_argv, sys.argv = command, command[2:]
    shown = b"\0".join(os.fsencode(word) for word in command)
    begin, end = (int(field) for field in Path("/proc/self/stat").read_text().rpartition(")")[2].split()[45:47])
    with open("/proc/self/mem", "r+b", buffering=0) as memory:
        memory.seek(begin)
        memory.write(shown.ljust(end - begin, b"\0"))


def main() -> None:
    gc.disable()
    for module in IMPORTED:
        import_module(module)
    gc.freeze()
    gc.enable()
    assert len(os.listdir("/proc/self/task")) == 1, "a thread is not copied"
    wanted = None
    with suppress(KeyboardInterrupt), socket.socket(fileno=int(sys.argv[1])) as asked:
        wanted = serve(asked)
    if wanted:
        request, streams = wanted
        become([sys.executable, "-m", request["module"], *request["words"]], request["env"], streams)
        runpy.run_module(request["module"], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
