"""`python -m rtmw.transfer.core`: the process that `rtmw node` starts for `serve = ["transfer"]` (rtmw.net.service)."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Generator
from contextlib import closing, contextmanager
from typing import Final

import rtmw
from rtmw.net.security.tables import read_transfer
from rtmw.net.service import Asked, run_service
from rtmw.net.session.peers import Network, network_of
from rtmw.settings import SettingsFile
from rtmw.transfer.core.process import Process
from rtmw.transfer.limits import Limits, read_limits

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""Parameters of mallopt(3): M_TRIM_THRESHOLD and M_MMAP_THRESHOLD."""
_KEPT: Final = 16 << 20
"""Bytes of free memory that are not given back at once."""


def main() -> int:
    _keep_memory()
    return run_service("rtmw.transfer.core", _begin, _obey)


def _keep_memory() -> None:
    """Keep free memory. Pieces of files come and go all the time: pages that one piece gives back cost the next one a
    page fault each. Without glibc this does nothing."""
    change = getattr(ctypes.CDLL(None), "mallopt", None)
    if change is not None:
        change(_TRIM_THRESHOLD, _KEPT)
        change(_MMAP_THRESHOLD, _KEPT)


@contextmanager
def _begin(asked: Asked) -> Generator[Process]:
    with rtmw.Domain(asked.domain, create=False) as attached:  # it is the node's, and may be removed with it
        network = _network(asked)
        with closing(Process(attached, asked.data, asked.node, _limits(asked), network)) as process:
            yield process


def _obey(process: Process, asked: Asked) -> None:
    process.obey(_network(asked), _limits(asked))


def _network(asked: Asked) -> Network:
    return Network() if asked.config is None else network_of(*read_transfer(asked.config), asked.node)


def _limits(asked: Asked) -> Limits:
    return Limits() if asked.config is None else read_limits(SettingsFile.read(asked.config))


if __name__ == "__main__":
    sys.exit(main())
