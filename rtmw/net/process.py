"""The node as a process of its host: alone for its domain, it hears signals, and systemd runs it.

At most one node at a time carries a given rtmw domain on a given DDS domain (`claim`). `systemd_unit` fills in its unit
for this installation; `notify` tells the program that runs it how it is (sd_notify), without systemd's library.

Signals are heard in the main thread alone, and none is lost when the process begins anew by exec. A signal waits while
every thread of the process blocks it, also through exec. One thread that does not block it is enough to take it, and
whoever listened before has no loop any more. So the process blocks these signals before it has another thread (numpy
starts some when it is imported), the main thread lets them in while its loop listens, and threads that may outlive the
loop block them themselves.
"""

from __future__ import annotations

import os
import pwd
import signal
import socket
import sys
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from shlex import quote
from string import Template
from typing import Any, Final, cast

from rtmw.errors import RtmwError
from rtmw.locks import STARTING_S, claimed
from rtmw.net.settings import Settings


class NodeError(RtmwError):
    """The node cannot run; the message says why."""


def claim(settings: Settings) -> socket.socket:
    """A name that only one node of these two domains has, and that dies with its process."""
    held = claimed(f"rtmw-node-{settings.domain}-{settings.wire_domain}", STARTING_S)
    if held is None:
        raise NodeError(f"a node for domain {settings.domain} and DDS domain {settings.wire_domain} runs already")
    return held


ENDING: Final = frozenset({signal.SIGINT, signal.SIGTERM})
HEARD: Final = ENDING | {signal.SIGHUP}


def hold_signals() -> None:
    """The calling thread, and those that it starts from now on, leave these signals to others."""
    signal.pthread_sigmask(signal.SIG_BLOCK, HEARD)


@contextmanager
def signals_held() -> Generator[None]:
    """Calls `hold_signals` for the length of a block. Behind the block the thread hears these signals as before."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, HEARD)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def let_signals_in() -> None:
    """The calling thread takes them, and first those that wait."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, HEARD)


def notify(state: str) -> None:
    """Send a state such as `READY=1`; nothing without a supervisor, and never an error."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    if address.startswith("@"):
        address = "\0" + address[1:]
    kind = socket.SOCK_DGRAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK  # one who does not listen must not stop us
    with socket.socket(socket.AF_UNIX, kind) as sender:
        try:
            sender.sendto(state.encode(), address)
        except OSError:
            return


def systemd_unit(config: Path | None, given: Mapping[str, Any], *, json: bool = False) -> str:
    """The text of rtmw-node.service, which starts the node with the same settings: those of the file `config`, those
    that are `given` on the command line, and the environment's RTMW_DOMAIN."""
    from importlib.resources import files  # only needed here

    command = [sys.executable, "-m", "rtmw", "node", *_options(config, given, json)]
    domain = os.environ.get("RTMW_DOMAIN")
    template = Template((files("rtmw.net") / "rtmw-node.service").read_text(encoding="utf-8"))
    return template.substitute(
        user=pwd.getpwuid(os.getuid()).pw_name,
        command=" ".join(map(_word, command)),
        environment=f"Environment={_word(f'RTMW_DOMAIN={domain}')}\n" if domain else "",
    )


def _options(config: Path | None, given: Mapping[str, Any], json: bool) -> Iterator[str]:
    if config is not None:
        yield from ("--config", str(config.absolute()))
    for name, value in given.items():
        if value is None:
            continue
        yield f"--{name.replace('_', '-')}"
        if isinstance(value, list):
            yield from cast("list[str]", value)
        elif value is not True:
            yield str(value)
    if json:
        yield "--json"


def _word(word: str) -> str:
    """Quotes a word for systemd, which replaces what follows % and $ even between quotes."""
    return quote(word).replace("%", "%%").replace("$", "$$")
