"""DDS policies by which a writer and a reader meet or not (DDS 1.4, 2.2.3; XTypes 1.3, 7.6.3.1), and which of them keep
two apart: what one side asks for, and the other offers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rtmw.net.dds.partitions import meet
from rtmw.units import duration

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
