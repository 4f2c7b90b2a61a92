"""How topics of rtmw look in DDS: their names, their partitions, and the policies by which endpoints meet or not.

Topics and types are called as here, or as ROS 2 calls them (`Names`).

Nodes write and read in a DDS partition of their own, plain programs are served in the default one. So a sample for
nodes may have what no plain program knows (trailer.h), while a plain program reads the same topic; and a sample for
plain programs is just what its type says. A topic that nobody but nodes reads has no writer for plain programs. A node
of a version that knew no partitions is a plain program to this one, which reads what that node sends with trailers all
the same.

A writer and a reader meet, or not, by their policies (DDS 1.4, 2.2.3; XTypes 1.3, 7.6.3.1): by what one side asks for,
and the other offers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase

from rtmw.units import duration


@dataclass(frozen=True)
class Names:
    """ROS 2 puts `rt/` before topic names, and `dds_::` and `_` around the last part of type names."""

    ros2: bool = False

    def topic(self, name: str) -> str:
        """The DDS topic of a topic of the bus."""
        return f"rt/{name}" if self.ros2 else name

    def local(self, dds_topic: str) -> str | None:
        """The topic of the bus, or None for a DDS topic that is none: of ROS 2's services, say."""
        if not self.ros2:
            return dds_topic
        return dds_topic[3:] if dds_topic.startswith("rt/") else None

    def type(self, name: str) -> str:
        """The DDS type of a type of the bus."""
        if not self.ros2:
            return name
        package, _, last = name.rpartition("::")
        return f"{package}::dds_::{last}_" if package else f"dds_::{last}_"

    def local_type(self, dds_type: str) -> str:
        if not self.ros2 or "dds_::" not in dds_type:
            return dds_type
        return dds_type.replace("dds_::", "").removesuffix("_")


NODES = "rtmw nodes"
"""Where nodes write and read what crosses between them."""
DEFAULT = ""


def meet(some: Iterable[str], others: Iterable[str]) -> bool:
    """Do two endpoints have a partition in common? None at all is the default one. A name with * or ? is a pattern for
    names of the other side that have neither (DDS 1.4, 2.2.3.13)."""
    ours, theirs = tuple(some) or (DEFAULT,), tuple(others) or (DEFAULT,)
    return any(_fits(one, other) or _fits(other, one) for one in ours for other in theirs)


def _fits(pattern: str, name: str) -> bool:
    if not _is_pattern(pattern):
        return pattern == name
    return not _is_pattern(name) and fnmatchcase(name, pattern)


def _is_pattern(name: str) -> bool:
    return "*" in name or "?" in name


FOR_EVER_NS = (1 << 63) - 1
RELIABLE = 1
TRANSIENT_LOCAL = 1
"""DDS' numbers of these kinds."""

_RELIABILITIES = ("BEST_EFFORT", "RELIABLE")
_DURABILITIES = ("VOLATILE", "TRANSIENT_LOCAL", "TRANSIENT", "PERSISTENT")
_OWNERSHIPS = ("SHARED", "EXCLUSIVE")
_LIVELINESSES = ("AUTOMATIC", "MANUAL_BY_PARTICIPANT", "MANUAL_BY_TOPIC")
_ORDERS = ("BY_RECEPTION_TIMESTAMP", "BY_SOURCE_TIMESTAMP")
_SCOPES = ("INSTANCE", "TOPIC", "GROUP")
_REPRESENTATIONS = {0: "XCDR1", 1: "XML", 2: "XCDR2"}


@dataclass(frozen=True, slots=True)
class Policies:
    """The policies that a writer offers, or that a reader asks for. The defaults are those of DDS."""

    partitions: tuple[str, ...] = ()
    """Names and patterns; none: the default partition."""
    reliability: int = 0
    durability: int = 0
    deadline_ns: int = FOR_EVER_NS
    latency_ns: int = 0
    ownership: int = 0
    liveliness: int = 0
    lease_ns: int = FOR_EVER_NS
    order: int = 0
    scope: int = 0
    is_coherent: bool = False
    is_ordered: bool = False
    representations: tuple[int, ...] = ()
    """Data representations; of a writer's, only the first counts. None: the endpoint does not say."""


@dataclass(frozen=True)
class Mismatch:
    """A policy in which two endpoints do not fit."""

    policy: str
    offered: str
    asked: str

    def of_reader(self) -> str:
        """The mismatch in words, of a reader elsewhere."""
        if self.policy == "reliability":
            return "asks for RELIABLE; what is published here is TIMELY"
        if (self.policy, self.asked) == ("durability", "TRANSIENT_LOCAL"):
            return "asks for kept messages (TRANSIENT_LOCAL); no publisher here has a history"
        return f"asks for {self.policy} {self.asked}; {self.offered} is offered here"

    def of_writer(self) -> str:
        """The mismatch in words, of a writer elsewhere."""
        return f"offers {self.policy} {self.offered}; {self.asked} is asked for here"


def mismatches(writer: Policies, reader: Policies) -> Iterator[Mismatch]:
    """Yields each policy that keeps the writer and the reader apart."""
    if not meet(writer.partitions, reader.partitions):
        yield Mismatch("partition", _listed(writer.partitions), _listed(reader.partitions))
    for policy, names, offered, asked in (
        ("reliability", _RELIABILITIES, writer.reliability, reader.reliability),
        ("durability", _DURABILITIES, writer.durability, reader.durability),
        ("liveliness", _LIVELINESSES, writer.liveliness, reader.liveliness),
        ("destination order", _ORDERS, writer.order, reader.order),
        ("presentation", _SCOPES, writer.scope, reader.scope),
    ):
        if asked > offered:
            yield Mismatch(policy, _kind(names, offered), _kind(names, asked))
    for policy, longest, asked_ns in (
        ("deadline", writer.deadline_ns, reader.deadline_ns),
        ("latency budget", writer.latency_ns, reader.latency_ns),
        ("liveliness lease", writer.lease_ns, reader.lease_ns),
    ):
        if asked_ns < longest:
            yield Mismatch(policy, _seconds(longest), _seconds(asked_ns))
    if writer.ownership != reader.ownership:
        yield Mismatch("ownership", _kind(_OWNERSHIPS, writer.ownership), _kind(_OWNERSHIPS, reader.ownership))
    for policy, offered_too, asked_too in (
        ("presentation, coherent access", writer.is_coherent, reader.is_coherent),
        ("presentation, ordered access", writer.is_ordered, reader.is_ordered),
    ):
        if asked_too and not offered_too:
            yield Mismatch(policy, "no", "yes")
    if writer.representations and reader.representations and writer.representations[0] not in reader.representations:
        yield Mismatch(
            "data representation", _encodings(writer.representations[:1]), _encodings(reader.representations)
        )


def _kind(names: tuple[str, ...], kind: int) -> str:
    return names[kind] if 0 <= kind < len(names) else f"kind {kind}"


def _seconds(ns: int) -> str:
    return "none" if ns >= FOR_EVER_NS else str(duration(ns / 1e9)) if ns else "0 s"


def _listed(partitions: tuple[str, ...]) -> str:
    return ", ".join(repr(name) if name else "the default one" for name in partitions or ("",))


def _encodings(ids: tuple[int, ...]) -> str:
    return " or ".join(_REPRESENTATIONS.get(one, f"kind {one}") for one in ids)
