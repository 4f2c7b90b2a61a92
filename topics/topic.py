"""A topic as a thing: its name, its type and the QoS that both sides start from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Generic, Protocol, TypeVar

import rtmw

T = TypeVar("T")


class Kind(Protocol):
    """QoS of one kind of information: one of `rtmw.profiles`."""

    @property
    def publisher(self) -> dict[str, Any]: ...

    @property
    def subscriber(self) -> dict[str, Any]: ...


@dataclass(frozen=True, eq=False)
class Topic(Generic[T]):
    """What a publisher and a subscriber must agree on."""

    name: str
    type: type[T]
    kind: Kind

    @property
    def publisher_qos(self) -> Mapping[str, Any]:
        """Keywords for `rtmw.Publisher`; read-only."""
        return MappingProxyType(self.kind.publisher)

    @property
    def subscriber_qos(self) -> Mapping[str, Any]:
        """Keywords for `rtmw.Subscriber`; read-only."""
        return MappingProxyType(self.kind.subscriber)

    def publisher(self, **qos: Any) -> rtmw.Publisher[T]:
        """A publisher with the topic's QoS; keywords (also `domain`) replace it one by one."""
        return rtmw.Publisher(self.name, self.type, **{**self.kind.publisher, **qos})

    def subscriber(self, **qos: Any) -> rtmw.Subscriber[T]:
        """A subscriber with the topic's QoS; keywords (also `domain`) replace it one by one."""
        return rtmw.Subscriber(self.name, self.type, **{**self.kind.subscriber, **qos})
