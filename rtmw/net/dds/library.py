"""Loads the node's engine: C that calls the DDS library of the cyclonedds wheel, and our own core, by name.

Neither brings a file to link with. So the names of both are made global, and the engine finds them there.
"""

from __future__ import annotations

import ctypes
import logging
import re
from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module
from importlib.metadata import version
from typing import Any, Final

from rtmw.daemon_log import many
from rtmw.errors import RtmwError
from rtmw.optional import needing_dds
from rtmw.shm import make_linkable

__all__ = [
    "KNOWS_DATAGRAMS", "MADE_FOR", "DataEvent", "Engine", "Route", "dds", "log_captured", "log_what_it_said", "matched",
    "matched_endpoint", "misfit", "shown", "steady_ns", "type_hash_install",
]  # fmt: skip

MADE_FOR = "11.0"
"""The releases of cyclonedds whose layout the engine knows."""
with needing_dds("`rtmw node`"):
    KNOWS_DATAGRAMS = version("cyclonedds").startswith(f"{MADE_FOR}.")
"""Does the DDS library lay received datagrams out as dds.h says? That cannot be tried; other releases do without."""


def misfit(what: str) -> RtmwError:
    """The error to raise when the DDS library is not the one that the engine was made for."""
    return RtmwError(
        f"the node's engine is made for cyclonedds {MADE_FOR} and does not fit {version('cyclonedds')}, which is "
        f"installed: {what}; install {MADE_FOR}"
    )


_wheel: Any = import_module("cyclonedds.__library__")
import_module("cyclonedds.internal")  # checks the library, and says what is wrong with it

dds = ctypes.CDLL(str(_wheel.library_path), mode=ctypes.RTLD_GLOBAL)
"""Cyclone DDS."""
make_linkable()

try:
    from rtmw.net.dds._engine import DataEvent, Engine, Route, matched, matched_endpoint, shown
except ImportError as error:
    raise misfit(str(error)) from error

steady_ns = Engine.steady_ns
"""The clock by which nodes date what they send each other: nanoseconds since 1970, and never set."""


_HEAD: Final = re.compile(r"[0-9.]+ \[[0-9]*\] *")
"""Time and domain, with which the DDS library begins a line."""


@contextmanager
def log_captured() -> Generator[None]:
    """A DDS library that begins to log meanwhile does not write to standard error from then on: strangers can make it
    write without end. `log_what_it_said` has its lines."""
    Engine.capture_log(True)
    try:
        yield
    finally:
        Engine.capture_log(False)


def log_what_it_said(log: logging.Logger) -> None:
    """Log the lines of the DDS library since the last call. To be called ten times a second."""
    lines, more = Engine.captured()
    for number, line in enumerate(lines, 1):
        stands_for = 1 + more if number == len(lines) else 1
        log.warning("the DDS library says: %s", _HEAD.sub("", line, count=1), extra=many(stands_for))


def type_hash_install() -> str | None:
    """Let each topic have a type of its own (type_hash.c). To be called before there is any Topic.

    Returns what is different in this DDS library, so that it cannot be; None: it is done.
    """
    layer = ctypes.CDLL(import_module("cyclonedds._clayer").__file__)
    try:
        table = ctypes.addressof(ctypes.c_char.in_dll(layer, "ddspy_sertype_ops"))
    except ValueError:
        return "its table of functions of types is hidden"
    return None if Engine.install_hash(table) else "it lays out struct ddsi_sertype_ops differently"
