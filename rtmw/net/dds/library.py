"""Loads cyclonedds and the node's engine, C that calls the DDS library of its wheel and our own core by name, and opens
it.

Neither brings a file to link with. So the names of both are made global, and the engine finds them there.

The hints of cyclonedds describe neither its policies nor its IDL types, and call what it makes of them unknown. So its
names are Any here, and everything that leaves rtmw.net has types of ours. Its listeners are not used: the DDS library
calls them while it holds locks of its own, for which a thread that has the interpreter may be waiting (events.c).

`open_engine` has the engine of a node (engine.h) open while the node runs. `FlowControl` is its topic on which nodes
ask each other to pause (flow.c).
"""

from __future__ import annotations

import ctypes
import errno
import logging
import os
import re
from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module
from importlib.metadata import version
from typing import Any, Final

from rtmw.domain import Domain
from rtmw.errors import RtmwError, needing_dds
from rtmw.net.process import NodeError
from rtmw.net.settings import Settings
from rtmw.shm import beside, foreign, make_beside, make_linkable
from rtmw.text.daemon_log import many

__all__ = [
    "KNOWS_DATAGRAMS",
    "DDSException",
    "DataEvent",
    "DomainParticipant",
    "Engine",
    "Route",
    "dds",
    "log_captured",
    "log_what_it_said",
    "matched",
    "matched_endpoint",
    "shown",
    "steady_ns",
    "type_hash_install",
]


with needing_dds("`rtmw node`"):
    from cyclonedds.core import DDSException
    from cyclonedds.domain import DomainParticipant

_qos: Any = import_module("cyclonedds.qos")
_idl: Any = import_module("cyclonedds.idl")

Policy: Any = _qos.Policy
Qos: Any = _qos.Qos
Topic: Any = import_module("cyclonedds.topic").Topic
_sub: Any = import_module("cyclonedds.sub")
_pub: Any = import_module("cyclonedds.pub")
DataReader: Any = _sub.DataReader
DataWriter: Any = _pub.DataWriter
DdsPublisher: Any = _pub.Publisher
DdsSubscriber: Any = _sub.Subscriber
DdsDomain: Any = import_module("cyclonedds.domain").Domain
builtin: Any = import_module("cyclonedds.builtin")
types: Any = import_module("cyclonedds.idl.types")
make_idl_struct: Any = _idl.make_idl_struct
make_idl_union: Any = _idl.make_idl_union
make_idl_enum: Any = _idl.make_idl_enum
make_idl_bitmask: Any = _idl.make_idl_bitmask
get_types_for_typeid: Any = import_module("cyclonedds.dynamic").get_types_for_typeid
TypeIdentifier: Any = import_module("cyclonedds.idl._typesupport.DDS.XTypes").TypeIdentifier

_clayer: Any = import_module("cyclonedds._clayer")
_ANY_STATE = 0x7F


def take_payloads(reader: Any, most: int) -> list[tuple[bytes, Any]]:
    """The bytes and the SampleInfo of samples. A DataReader's own `take` decodes them, and loses all for a bad one."""
    taken: Any = _clayer.ddspy_take(reader._ref, _ANY_STATE, most)
    return [] if isinstance(taken, int) else taken


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
    """Let each topic have a type of its own (abi_check.c). To be called before there is any Topic.

    Returns what is different in this DDS library, so that it cannot be; None: it is done.
    """
    layer = ctypes.CDLL(import_module("cyclonedds._clayer").__file__)
    try:
        table = ctypes.addressof(ctypes.c_char.in_dll(layer, "ddspy_sertype_ops"))
    except ValueError:
        return "its table of functions of types is hidden"
    return None if Engine.install_hash(table) else "it lays out struct ddsi_sertype_ops differently"


_NO_ROOM: Final = (errno.ENOSPC, errno.ENOMEM, errno.EFBIG)
POOL_SHARE: Final = 8
"""The part of the pool that DDS may hold at a time of what is on its way."""


@contextmanager
def open_engine(domain: Domain, settings: Settings) -> Generator[Engine]:
    """Raises NodeError."""
    path = beside(domain.id, domain.region.nonce, "carried")
    try:
        make_beside(path, domain.id)
        engine = Engine(settings.domain, settings.max_rate, domain.pool // POOL_SHARE, path, settings.wire_domain)
    except OSError as error:
        why = "make room for 256 KiB there" if error.errno in _NO_ROOM else _in_the_way(path)
        raise NodeError(
            f"{path}, in which nodes leave to the next one how far they came, cannot be made: "
            f"{os.strerror(error.errno or 0)}; {why}"
        ) from error
    try:
        yield engine
    finally:
        engine.close()


def _in_the_way(path: str) -> str:
    return foreign(path) or "it belongs to a user that the domain is not open to; that user or root can remove it"


log = logging.getLogger("rtmw.node")

_FLOW_TOPIC = "rtmw/flow"

Flow: Any = make_idl_struct("Flow", "rtmw::Flow", {"topic": types.uint64, "paused": types.uint32})


def _public_calls_only(difference: str) -> str:
    return (
        f"cyclonedds {version('cyclonedds')} is not built as rtmw expects: {difference}; so the node uses its public "
        "calls alone, which copy each message once more, and does not count samples that are not of their type; "
        f"install cyclonedds {MADE_FOR}"
    )


class FlowControl:
    """Keeps what the engine tells and hears with. To be kept until the engine is closed."""

    def __init__(self, engine: Engine, participant: DomainParticipant, difference: str | None) -> None:
        """`difference`: of type_hash_install. Raises RtmwError when the DDS library carries nothing; this is the first
        writer of a node that could tell."""
        quality = Qos(Policy.Reliability.BestEffort, Policy.History.KeepAll, Policy.IgnoreLocal.Participant)
        topic = Topic(participant, _FLOW_TOPIC, Flow)
        self._writer: Any = DataWriter(participant, topic, qos=quality)
        self._reader: Any = DataReader(participant, topic, qos=quality)
        nothing = Flow(0, 0).serialize()  # of no topic: a node that hears it does nothing
        if difference is None and not engine.abi_check(self._writer._ref, nothing):
            difference = "it lays out struct ddsi_serdata differently"
        self.public_calls_only = _public_calls_only(difference) if difference else None
        """Why the engine uses those alone, for people; None: the DDS library is as the engine expects."""
        if difference:
            if not engine.public_calls(self._writer._ref, nothing):
                raise misfit(difference)
            log.warning("%s", self.public_calls_only)
        engine.flow(self._writer._ref, self._reader._ref)
        self._engine = engine

    def refusals(self) -> dict[str, int]:
        """Notes of others that were not heeded, by cause: malformed, from who does not read the topic, too many."""
        return {f"{_FLOW_TOPIC}, {cause}": count for cause, count in self._engine.counters().items() if count}
