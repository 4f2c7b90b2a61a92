"""What the DDS domain shows: who writes and reads which topic, far away and near, but for what is this node's own."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

from rtmw.net.cyclone import DomainParticipant, InstanceState, Policy, builtin
from rtmw.net.wire import FOR_EVER_NS, MARK

_MOST = 1000
PACKS = 1
"""The version of packs that this node reads (pack.h)."""
TRAILERS = 2
"""The version of trailers that this node reads: 2 have a CRC (trailer.h); nodes that say none read 1."""


@dataclass(frozen=True)
class Endpoint:
    """A DDS writer or reader of somebody else."""

    guid: str
    participant: str
    topic: str
    type_name: str
    qos: Any
    type_id: Any
    """Of XTypes; None where the other side does not tell its types."""

    def policy(self, kind: Any) -> Any:
        """The policy of a kind, such as `Policy.Deadline`; None when it is the default."""
        return next((policy for policy in self.qos if isinstance(policy, kind)), None)

    @cached_property
    def note(self) -> bytes | None:
        """What a node's endpoint says of itself (wire.py); None for plain DDS programs."""
        given = self.policy(Policy.Userdata)
        return given.data[len(MARK) :] if given is not None and given.data.startswith(MARK) else None

    @property
    def is_reliable(self) -> bool:
        return self.policy(Policy.Reliability.Reliable) is not None

    @property
    def deadline_ns(self) -> int:
        """0: none."""
        given = self.policy(Policy.Deadline)
        return 0 if given is None or given.deadline >= FOR_EVER_NS else given.deadline

    @property
    def min_interval_ns(self) -> int:
        given = self.policy(Policy.TimeBasedFilter)
        return 0 if given is None else given.filter_time

    @property
    def priority(self) -> int:
        given = self.policy(Policy.TransportPriority)
        return 0 if given is None else min(max(given.priority, 0), 7)

    @property
    def history(self) -> int:
        """Messages that it keeps for late readers; 0 when it is volatile."""
        if not any(policy == Policy.Durability.TransientLocal for policy in self.qos):
            return 0
        kept = self.policy(Policy.DurabilityService)
        return kept.history.depth if kept is not None and isinstance(kept.history, Policy.History.KeepLast) else 1


def endpoint_of(shown: Any) -> Endpoint:
    """Of what DDS shows of a writer or reader: a built-in sample, or the data of one that is matched."""
    names = shown.topic_name, shown.type_name
    return Endpoint(str(shown.key), str(shown.participant_key), *names, shown.qos, shown.type_id)


class Endpoints:
    """Writers, or readers, by topic."""

    def __init__(self) -> None:
        self._all: dict[str, Endpoint] = {}
        self._of: dict[str, dict[str, Endpoint]] = {}

    def put(self, endpoint: Endpoint) -> None:
        """In place of what it was before."""
        self.drop(endpoint.guid)
        self._all[endpoint.guid] = endpoint
        self._of.setdefault(endpoint.topic, {})[endpoint.guid] = endpoint

    def drop(self, guid: str) -> None:
        gone = self._all.pop(guid, None)
        if gone is not None:
            self._of[gone.topic].pop(guid)
            if not self._of[gone.topic]:
                del self._of[gone.topic]

    def of(self, topic: str) -> list[Endpoint]:
        """Those of a DDS topic."""
        return [*self._of.get(topic, {}).values()]

    def __iter__(self) -> Iterator[Endpoint]:
        return iter(self._all.values())


@dataclass(frozen=True)
class Program:
    """A DDS participant of somebody else, by what it says of itself."""

    host: str = ""
    """Empty: it does not say."""
    pid: int = 0
    name: str = ""
    address: str = ""
    """Where it receives."""
    domain: int | None = None
    """Of rtmw; None: it is no node."""
    knows_packs: bool = False
    """A node that reads several messages out of one sample (pack.h)."""
    knows_crcs: bool = False
    """A node that reads samples with a CRC (trailer.h)."""

    @classmethod
    def of(cls, policies: Any) -> Program:
        """From the policies that it announces. What is not understood is left out: anybody may announce anything."""
        said = {policy.key: policy.value for policy in policies if isinstance(policy, Policy.Property)}
        given = next((policy.data for policy in policies if isinstance(policy, Policy.Userdata)), b"")
        host, pid, name = said.get("__Hostname", ""), said.get("__Pid", ""), said.get("__ProcessName", "")
        places = [place for place in said.get("__NetworkAddresses", "").split(",") if place.startswith("udp/")]
        address = places[-1].removeprefix("udp/").partition("@")[0] if places else ""
        node = _read(given[len(MARK) :]) if given.startswith(MARK) else {}
        domain = node.get("domain")
        return cls(
            host,
            int(pid) if pid.isdecimal() else 0,
            name,
            address,
            domain if isinstance(domain, int) else None,
            node.get("packs") == PACKS,
            node.get("trailers") == TRAILERS,
        )

    def __str__(self) -> str:
        place = f" on {self.host}" if self.host else ""
        if self.domain is not None:
            return f"the node of domain {self.domain}{place}"
        return f"{self.name or 'a DDS program'}{f' ({self.pid})' if self.pid else ''}{place}"


def describe_node(host: str, pid: int, domain: int) -> bytes:
    """What a node says of itself in the user data of its participant."""
    return json.dumps({"host": host, "pid": pid, "domain": domain, "packs": PACKS, "trailers": TRAILERS}).encode()


def _read(description: bytes) -> dict[str, Any]:
    try:
        found: Any = json.loads(description)
    except (ValueError, RecursionError):
        return {}
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


class Discovery:
    """Writers, readers and participants of others, as of the last `poll`."""

    def __init__(self, participant: DomainParticipant) -> None:
        self._own = str(participant.guid)
        self.writers, self.readers = Endpoints(), Endpoints()
        self.participants: dict[str, Program] = {}
        subscriptions: Any = builtin.BuiltinDataReader(participant, builtin.BuiltinTopicDcpsSubscription)
        self.reader_news: int = subscriptions._ref
        """The DDS entity that tells of readers."""
        self._sources: list[tuple[Any, Callable[[Any, bool], None]]] = [
            (builtin.BuiltinDataReader(participant, builtin.BuiltinTopicDcpsPublication), self._on_writer),
            (subscriptions, self._on_reader),
            (builtin.BuiltinDataReader(participant, builtin.BuiltinTopicDcpsParticipant), self._on_participant),
        ]

    def poll(self) -> bool:
        """Take in what is new. True when anything has changed."""
        changed = False
        for reader, on_sample in self._sources:
            for sample in reader.take(_MOST):
                changed = True
                on_sample(sample, sample.sample_info.instance_state == InstanceState.Alive)
        return changed

    def _keep(self, kept: Endpoints, sample: Any, is_alive: bool) -> None:
        guid = str(sample.key)
        if not is_alive:
            kept.drop(guid)
        elif str(sample.participant_key) != self._own:
            kept.put(endpoint_of(sample))

    def _on_writer(self, sample: Any, is_alive: bool) -> None:
        self._keep(self.writers, sample, is_alive)

    def _on_reader(self, sample: Any, is_alive: bool) -> None:
        self._keep(self.readers, sample, is_alive)

    def _on_participant(self, sample: Any, is_alive: bool) -> None:
        guid = str(sample.key)
        if not is_alive:
            self.participants.pop(guid, None)
        elif guid != self._own:
            self.participants[guid] = Program.of(sample.qos)

    def program(self, endpoint: Endpoint) -> Program:
        """Whose endpoint it is."""
        return self.participants.get(endpoint.participant, Program())
