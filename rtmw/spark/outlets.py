"""The publishers of a task: one a topic and type, which take payloads as they are."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from rtmw.closing import Closing
from rtmw.domain import Domain
from rtmw.errors import RtmwError, UnsupportedType
from rtmw.optional import needing_dds
from rtmw.publisher import Publisher
from rtmw.spark.delivery import Delivery
from rtmw.spark.rows import Source
from rtmw.types import MessageType, from_description, resolve

if TYPE_CHECKING:
    from rtmw.recording import Recording


log = logging.getLogger("rtmw")


@dataclass(frozen=True)
class Audience:
    """Who there was to take the messages of a topic."""

    subscribers: int
    refused: tuple[str, ...]
    """Why others are not matched, a sentence each."""


def by_topic(counted: Iterable[tuple[str, Audience]]) -> dict[str, Audience]:
    """The audience of each topic, which several publishers or tasks have counted."""
    found = dict[str, Audience]()
    for topic, one in counted:
        before = found.get(topic, Audience(0, ()))
        reasons = dict.fromkeys((*before.refused, *one.refused))
        found[topic] = Audience(max(before.subscribers, one.subscribers), tuple(reasons))
    return found


def say_unheard(audiences: Mapping[str, Audience], domain: int) -> None:
    """Warn of each topic whose messages nobody could take, and of each subscriber that was not matched."""
    for topic, audience in audiences.items():
        why = f": {'; '.join(audience.refused)}" if audience.refused else ""
        if not audience.subscribers:
            log.warning("nobody subscribed to topic %r in domain %d%s", topic, domain, why)
        elif why:
            log.warning("topic %r in domain %d has subscribers that are not matched%s", topic, domain, why)


def named_type(name: str) -> MessageType:
    """The type of "package.module:Class". UnsupportedType: there is none."""
    module, _, attribute = name.partition(":")
    if not attribute:
        raise UnsupportedType(f"type {name!r} is not possible; a type is named 'package.module:Class'")
    try:
        with needing_dds("this class"):
            return resolve(getattr(importlib.import_module(module), attribute))
    except (ImportError, AttributeError) as error:
        raise UnsupportedType(f"type {name!r} cannot be had: {error}; workers have to find its module") from error


class Outlets(Closing):
    """Opens what rows ask for, and keeps it open until the task ends."""

    def __init__(self, delivery: Delivery) -> None:
        self.delivery = delivery
        self._domain = Domain(delivery.domain)
        self._recordings: dict[str, Recording] = {}
        self._types: dict[Source, MessageType] = {}
        self._open: dict[tuple[str, int], Publisher[Any]] = {}

    def __len__(self) -> int:
        return len(self._open)

    def type_of(self, source: Source) -> MessageType:
        """The type of a source's messages; `bytes` if nothing says another."""
        type = self._types.get(source)
        if type is None:
            type = self._types[source] = self._find_type(source)
        return type

    def _find_type(self, source: Source) -> MessageType:
        if self.delivery.description is not None:
            return from_description(self.delivery.description)
        if self.delivery.type is not None:
            return named_type(self.delivery.type)
        path = self.delivery.recording or source.file
        return resolve(bytes) if path is None else self._recorded_type(path, source)

    def _recorded_type(self, path: str, source: Source) -> MessageType:
        from rtmw.recording import Recording

        if path not in self._recordings:
            self._recordings[path] = Recording(path)
        recording = self._recordings[path]
        topics, found = recording.topics(), dict[int, MessageType]()
        others = () if source.type is None else recording.channels.values()  # a topic that got another name
        for channel in topics.get(source.recorded or "") or topics.get(source.topic) or others:
            type = recording.message_type(channel) or resolve(bytes)
            found[type.identity] = type
        types = [type for type in found.values() if type.name == source.type] or [*found.values()]
        if len(types) != 1:
            names = [*dict.fromkeys(type.name for type in types)]
            what = f"{len(types)} {'versions of one type' if len(names) == 1 else 'types'}"
            raise UnsupportedType(
                f"{path} has {what} for topic {source.topic!r}{': ' if names else ''}{', '.join(names)}; "
                "name one with the option type='package.module:Class'"
            )
        return types[0]

    def of(self, source: Source) -> Publisher[Any]:
        """The publisher for a source's messages. RtmwError: subscribers were asked for, and have not come in time."""
        type = self.type_of(source)
        outlet = self._open.get((source.topic, type.identity))
        if outlet is None:
            outlet = self._open[source.topic, type.identity] = self._opened(source.topic, type)
            self._wait(outlet)
        return outlet

    def _opened(self, topic: str, type: MessageType) -> Publisher[Any]:
        """A publisher of payloads that are in the form of the type already."""
        as_it_is: Any = replace(type, encode=None, decode=None, in_place=None)
        publisher: Publisher[Any] = Publisher(
            topic,
            as_it_is,
            domain=self._domain,
            priority=self.delivery.priority or 0,
            lifetime=self.delivery.lifetime,
            reliability=self.delivery.reliability,
            max_blocking=self.delivery.max_blocking,
        )
        return publisher

    def _wait(self, outlet: Publisher[Any]) -> None:
        wanted, timeout = self.delivery.subscribers, self.delivery.timeout
        if wanted and not outlet.wait_for_subscribers(wanted, timeout):
            raise RtmwError(
                f"topic {outlet.topic!r} in domain {self.delivery.domain} has {outlet.subscribers} subscribers; "
                f"{wanted} were asked for, and have not come in {timeout:g} s"
            )

    def audience(self) -> dict[str, Audience]:
        """The audience of each topic, as it is now."""
        every = ((outlet.topic, outlet.stats()) for outlet in self._open.values())
        return by_topic((topic, Audience(stats.subscribers, stats.refused)) for topic, stats in every)

    def close(self) -> None:
        self._domain.close()
        for recording in self._recordings.values():
            recording.close()
