"""The DDS side of flow control between nodes: the topic on which they ask each other to pause (flow.c)."""

from __future__ import annotations

import logging
from importlib.metadata import version
from typing import Any

from rtmw.net.dds.cyclone import DataReader, DataWriter, DomainParticipant, Policy, Qos, Topic, make_idl_struct, types
from rtmw.net.dds.library import MADE_FOR, Engine, misfit

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
