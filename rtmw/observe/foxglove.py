"""Topics of a domain in Foxglove: a server of its WebSocket protocol, on the library foxglove-sdk.

Each topic that is meant and has a type with a schema is a channel. A topic is subscribed on the bus only while a client
shows its channel, TIMELY, so no publisher waits. The library keeps a bounded backlog for each client; a client that is
too slow for it loses the oldest messages. While nobody looks, the domain is only looked at, without one of its places.
"""

from __future__ import annotations

import logging
import queue
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from rtmw import shm
from rtmw.clock import CLOCK
from rtmw.closing import Closing
from rtmw.domain import Domain
from rtmw.errors import DomainNotFound, RtmwError, needed
from rtmw.observe.views import by_topic
from rtmw.qos import Reliability
from rtmw.recording.schemas import SchemaText, remark_of, schema_of
from rtmw.recording.versions import some
from rtmw.subscriber import Subscriber, WaitSet
from rtmw.text.addresses import bracketed
from rtmw.text.patterns import Topics, topics_of
from rtmw.types import carried_type, resolve
from rtmw.types.text import Json

LOOK_S: Final = 0.25
"""Seconds between looks for topics that have come, gone or changed their type."""
_WAIT_S: Final = 0.05
"""Seconds to wait for messages before it is looked who shows what."""
_TURN: Final = 256
"""Messages of a topic before the next has its turn."""
_HISTORY: Final = 1 << 16
"""All that publishers keep for late subscribers."""
_SCHEMAS: Final = ("omgidl", "ros2msg")
"""Encodings of schemas that Foxglove reads."""
_JSON: Final = resolve(Json).description


@dataclass(frozen=True)
class FoxgloveOptions:
    """What is shown, and where."""

    domain: int
    patterns: tuple[str, ...] = ()
    """Names and patterns of topics; none: all but rtmw's own."""
    place: tuple[str, int] = ("127.0.0.1", 8765)
    """Address and port; port 0: any that is free."""
    tls: tuple[Path, Path] | None = None
    """Files with certificate and key, in PEM."""
    ros2: bool = False
    """Schemas in the language of ROS 2 instead of IDL."""
    backlog: int = 1024
    """Messages that wait for a client; then its oldest are dropped."""


@dataclass
class _Channel:
    """A topic with a type, as clients see it."""

    topic: str
    type: int
    """The number of the type in the region; a type that is given up and made again has another one."""
    description: bytes
    opened: Any
    """The library's channel."""
    viewers: set[int] = field(default_factory=set[int])
    subscriber: Subscriber[Any] | None = None

    def subscribe(self, domain: Domain) -> Subscriber[Any]:
        """Opens a subscriber, with all that publishers keep for late subscribers. Raises RtmwError."""
        kind: Any = Json if self.description == _JSON else carried_type(self.description)
        how: Any = {"domain": domain, "reliability": Reliability.TIMELY, "depth": 1024, "history": _HISTORY}
        return Subscriber(self.topic, kind, **how)

    def send(self, sample: shm.Sample[Any], client: int | None = None) -> None:
        """Sends a message to this client, which the library has as the sink of its number, or to all of the channel."""
        payload = sample.value.text.encode() if self.description == _JSON else bytes(sample)
        self.opened.log(payload, log_time=sample.source_time_ns, sink_id=client)


class FoxgloveServer(Closing):
    """Serves a domain, which need not be there yet. `tell` is given sentences for whoever runs it.

    Used by one thread. Errors: NotInstalled, TopicNameError, RtmwError for an address or certificate that cannot be.
    """

    def __init__(self, options: FoxgloveOptions, tell: Callable[[str], None]) -> None:
        self._options, self._topics, self._tell = options, topics_of(options.patterns or "*"), tell
        self._library = needed("foxglove", "foxglove-sdk", "foxglove", "rtmw foxglove")
        logging.getLogger("foxglove").setLevel(logging.CRITICAL)  # a client that goes is no news
        self._events: queue.SimpleQueue[tuple[int, int, bool, int]] = queue.SimpleQueue()
        """Client, channel, whether it shows it, and the source time of the last message that was sent before: the
        client has not got it."""
        self._sent_ns: dict[int, int] = {}
        """Source time of the last message of each channel."""
        self._context = self._library.Context()
        self._server = self._started()
        self.url = f"ws{'s' if options.tls else ''}://{bracketed(options.place[0])}:{self._server.port}"
        self._looking: Domain | None = None
        self._bus: Domain | None = None
        self._region: int | None = None
        self._seen: tuple[int, int] | None = None
        self._channels: dict[str, _Channel] = {}
        """Channels that are open, by topic."""
        self._unshown: dict[str, str] = {}
        """Topics without a schema that Foxglove reads, and why."""
        self._told: set[tuple[str, str]] = set()
        self.missed = 0
        """Messages that its subscribers did not get, of topics that were shown."""

    def _started(self) -> Any:
        options, (address, port) = self._options, self._options.place
        start, name = self._library.start_server, f"rtmw domain {options.domain}"
        how: Any = {"context": self._context, "message_backlog_size": options.backlog}
        cert, key = (None, None) if options.tls is None else map(_pem, options.tls, ("CERTIFICATE", "PRIVATE KEY"))
        try:
            return start(name=name, host=address, port=port, tls_cert=cert, tls_key=key, server_listener=self, **how)
        except RuntimeError as error:
            why = str(error).removeprefix("FoxgloveError: ")
            place = f"{bracketed(address)}:{port}"
            place += f" with {options.tls[0]} and {options.tls[1]}" if options.tls else ""
            raise RtmwError(f"Foxglove cannot be served at {place}: {why}") from error

    def run(self, is_over: Callable[[], bool]) -> None:
        """Serves until it is over."""
        next_s = 0.0
        while not is_over():
            if CLOCK.monotonic() >= next_s:
                self._look()
                next_s = CLOCK.monotonic() + LOOK_S
            self._hear(0.0 if self._bus is not None else LOOK_S)
            shown = {one.subscriber: one for one in self._channels.values() if one.subscriber is not None}
            if shown:
                self._send(shown)
            elif self._bus is not None:
                self._bus.close()  # gives its place in the domain back
                self._bus = None

    def close(self) -> None:
        self._leave()
        self._server.stop()

    # ---- the topics of the domain ----

    def _look(self) -> None:
        """Makes channels of topics that came, and of new types of topics; those of topics that went are closed."""
        number, life = self._options.domain, shm.region_of(self._options.domain)
        if life != self._region:
            self._leave()
            self._region = life
        if self._looking is None and life is not None:
            with suppress(DomainNotFound):
                self._looking = Domain(number, observe=True)
        if self._looking is None:
            return
        region = self._looking.region
        seen = region.endpoints_fingerprint(), region.topic_count
        if seen != self._seen:
            self._seen = seen
            self._follow(_types(region, self._topics), region.types())
        if self._unshown:  # told again and again, for a client may have come
            level = self._library.StatusLevel.Warning
            self._server.publish_status(f"Not shown: {_listed(self._unshown)}", level, id="rtmw")

    def _follow(self, types: dict[str, set[int]], described: dict[int, tuple[str, bytes]]) -> None:
        for topic in [topic for topic in self._channels if topic not in types]:
            self._close(topic)
        self._unshown.clear()
        for topic, lives in types.items():
            known = self._channels.get(topic)
            if lives and (known is None or known.type not in lives):
                self._open(topic, max(lives), described)
        if new := dict(self._unshown.items() - self._told):
            self._told.update(new.items())
            self._tell(f"not shown: {_listed(new)}")

    def _open(self, topic: str, life: int, described: dict[int, tuple[str, bytes]]) -> None:
        """Makes the channel of a topic, instead of that of its type before."""
        self._close(topic)
        description = described[life][1] if life in described else resolve(bytes).description
        how: Any = {"ros2": self._options.ros2, "optional": False}  # which Foxglove's reader of IDL passes over
        text = schema_of(description, **how)
        if description == _JSON:
            text = SchemaText(text.name, "jsonschema", b'{"type": "object"}', "json")
        elif text.encoding not in _SCHEMAS:
            why = remark_of(description, **how)
            self._unshown[topic] = why or "bytes and numpy arrays have no schema that Foxglove reads"
            return
        schema = self._library.Schema(name=text.name, encoding=text.encoding, data=text.data)
        how = {"schema": schema, "message_encoding": text.message_encoding, "context": self._context}
        self._channels[topic] = _Channel(topic, life, description, self._library.Channel(topic, **how))

    def _close(self, topic: str) -> None:
        channel = self._channels.pop(topic, None)
        if channel is not None:
            self._unsubscribe(channel)
            self._sent_ns.pop(channel.opened.id(), None)
            channel.opened.close()

    def _leave(self) -> None:
        """Forgets the domain: it was removed, or the server ends."""
        for topic in [*self._channels]:
            self._close(topic)
        for domain in filter(None, (self._bus, self._looking)):
            domain.close()
        self._bus = self._looking = self._seen = None

    # ---- what clients show ----

    def on_subscribe(self, client: Any, channel: Any) -> None:
        """Called in threads of the library."""
        self._events.put((client.id, channel.id, True, self._sent_ns.get(channel.id, 0)))

    def on_unsubscribe(self, client: Any, channel: Any) -> None:
        self._events.put((client.id, channel.id, False, 0))

    def _hear(self, seconds: float) -> None:
        """Subscribes to what is shown now, and ends what no longer is. Waits so long for news."""
        with suppress(queue.Empty):
            while True:
                client, number, shows, after_ns = self._events.get(timeout=seconds)
                seconds = 0.0
                for channel in self._channels.values():
                    if channel.opened.id() == number:  # else it was closed meanwhile
                        self._note(channel, client, shows, after_ns)

    def _note(self, channel: _Channel, client: int, shows: bool, after_ns: int) -> None:
        (channel.viewers.add if shows else channel.viewers.discard)(client)
        try:
            if shows and channel.subscriber is None:
                self._bus = self._bus or Domain(self._options.domain, create=False)
                channel.subscriber = channel.subscribe(self._bus)
            elif shows and self._bus is not None:
                with channel.subscribe(self._bus) as kept:  # for a client that shows it after others
                    for sample in iter(kept.take, None):
                        if sample.source_time_ns > after_ns:
                            break
                        channel.send(sample, client)
            elif not channel.viewers:
                self._unsubscribe(channel)
        except RtmwError as error:  # the domain is full, or was removed just now
            self._tell(f"{channel.topic} is not shown: {error}")

    def _unsubscribe(self, channel: _Channel) -> None:
        if channel.subscriber is not None:
            self.missed += channel.subscriber.stats().missed
            channel.subscriber.close()
            channel.subscriber = None

    def _send(self, shown: dict[Subscriber[Any], _Channel]) -> None:
        for subscriber in WaitSet(*shown).wait(_WAIT_S):
            channel = shown[subscriber]
            for sample in subscriber.take_many(_TURN):
                self._sent_ns[channel.opened.id()] = sample.source_time_ns
                channel.send(sample)


def _types(region: shm.Region, meant: Topics) -> dict[str, set[int]]:
    """The types of each topic that is meant: those that its publishers have; without any, its subscribers; else those
    of messages that lie in its queues."""
    publishers = by_topic(shm.living(shm.publishers(region)))
    subscribers = by_topic(shm.living(shm.subscribers(region)))
    lying = region.contents()

    def of(life: int) -> set[int]:
        for rows in (publishers.get(life, ()), subscribers.get(life, ())):
            if types := {row.type for row in rows} - {shm.TYPE_ANY}:
                return types
        return {*lying.get(life, (0, 0, ()))[2]}

    return {row.name: of(row.life) for row in shm.topics(region) if meant.take(row.name)}


def _listed(unshown: dict[str, str]) -> str:
    """Topics by the reason for which they are not shown."""
    reasons: dict[str, list[str]] = {}
    for topic, why in unshown.items():
        reasons.setdefault(why, []).append(topic)
    return "; ".join(f"{some(topics)}: {why}" for why, topics in reasons.items())


def _pem(path: Path, what: str) -> bytes:
    """The content of a file that has this. The library names no file."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise RtmwError(f"{path} cannot be read: {error.strerror}") from error
    if f"-----BEGIN {what}-----".encode() not in content:
        advice = f"; openssl pkcs8 -topk8 -nocrypt -in {path} makes one of a key" if what == "PRIVATE KEY" else ""
        raise RtmwError(f"{path} has no {what} in PEM, which begins with -----BEGIN {what}-----{advice}")
    return content
