"""The DDS side of flow control between nodes: the topic on which they ask each other to pause (flow.c)."""

from __future__ import annotations

from typing import Any

from rtmw.net.dds.cyclone import DataReader, DataWriter, DomainParticipant, Policy, Qos, Topic, make_idl_struct
from rtmw.net.dds.cyclone import types as idl
from rtmw.net.dds.library import Engine, misfit

_TOPIC = "rtmw/flow"

Flow: Any = make_idl_struct("Flow", "rtmw::Flow", {"topic": idl.uint64, "paused": idl.uint32})


class FlowControl:
    """Keeps what the engine tells and hears with. To be kept until the engine is closed."""

    def __init__(self, engine: Engine, participant: DomainParticipant) -> None:
        """Raises RtmwError when the DDS library does not fit; this is the first writer of a node that could tell."""
        quality = Qos(Policy.Reliability.BestEffort, Policy.History.KeepAll, Policy.IgnoreLocal.Participant)
        topic = Topic(participant, _TOPIC, Flow)
        self._writer: Any = DataWriter(participant, topic, qos=quality)
        self._reader: Any = DataReader(participant, topic, qos=quality)
        nothing = Flow(0, 0).serialize()  # of no topic: who hears it does nothing
        if not engine.fits(self._writer._ref, nothing):
            raise misfit("it lays out struct ddsi_serdata differently")
        engine.flow(self._writer._ref, self._reader._ref)
        self._engine = engine

    def refusals(self) -> dict[str, int]:
        """Notes of others that were not heeded, by cause: malformed, from who does not read the topic, too many."""
        return {f"{_TOPIC}, {cause}": count for cause, count in self._engine.counters().items() if count}
