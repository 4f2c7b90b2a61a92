"""Starts a server for as long as a block lasts. It ends by its pid, and with this process, however that ends."""

from __future__ import annotations

import ctypes
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

START_S = 10.0
END_S = 5.0
LOOK_AGAIN_S = 0.005
PR_SET_PDEATHSIG = 1

_libc = ctypes.CDLL(None)


def _die_with_parent() -> None:
    """In the child, before it becomes the server."""
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def free_port() -> int:
    """A TCP port of loopback that is free now."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
    return port


@contextmanager
def server(
    command: Sequence[str],
    folder: Path,
    is_ready: Callable[[], bool],
    *,
    ends_by: signal.Signals = signal.SIGTERM,
    start_s: float = START_S,
    **how: Any,
) -> Generator[int]:
    """Its pid, as soon as it `is_ready`. What the server prints goes to the file `printed` of the folder; its last line
    is in the RuntimeError of a server that does not start within `start_s`. `how`: more for Popen."""
    printed = folder / "printed"
    with printed.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdout=output,
            stderr=subprocess.STDOUT,
            preexec_fn=_die_with_parent,
            stdin=how.pop("stdin", subprocess.DEVNULL),
            **how,
        )
    try:
        _wait(process, is_ready, printed, start_s)
        yield process.pid
    finally:
        if process.stdin is not None:
            process.stdin.close()
        process.send_signal(ends_by)
        try:
            process.wait(END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait(process: subprocess.Popen[bytes], is_ready: Callable[[], bool], printed: Path, start_s: float) -> None:
    end = time.monotonic() + start_s
    while not is_ready():
        if process.poll() is not None or time.monotonic() > end:
            lines = printed.read_text(errors="replace").splitlines() or ["it printed nothing"]
            state = "goes on, but does not answer" if process.poll() is None else f"ended ({process.returncode})"
            raise RuntimeError(f"{Path(str(process.args[0])).name} {state}: {lines[-1]}")  # type: ignore[index]
        time.sleep(LOOK_AGAIN_S)


def answers(family: socket.AddressFamily, address: Any) -> Callable[[], bool]:
    """Whether somebody listens at an address."""

    def ask() -> bool:
        with socket.socket(family) as end:
            return end.connect_ex(address) == 0

    return ask
