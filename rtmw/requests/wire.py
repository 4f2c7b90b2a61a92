"""What requests and replies are on the bus (docs/requests.md): their topics, their structs, and how long one is valid.

Service and Client share these, and nothing else.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from dataclasses import dataclass, make_dataclass, replace
from functools import cache, partial
from operator import attrgetter, methodcaller
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from rtmw import shm
from rtmw.clock import CLOCK
from rtmw.domain import Domain
from rtmw.errors import (
    LimitReached,
    MessageError,
    RtmwError,
    TopicNameError,
    TypeMismatch,
    UnsupportedType,
    ValueMismatch,
)
from rtmw.profiles import REQUEST
from rtmw.publisher import Publisher
from rtmw.qos import check_seconds
from rtmw.subscriber import Subscriber
from rtmw.text.patterns import has_mqtt_levels
from rtmw.types import MessageType, resolve, shown_name, uint32, uint64

if TYPE_CHECKING:
    from typing_extensions import Buffer as Lender

    from rtmw.types.message_type import Buffer

T = TypeVar("T")

CANCEL: Final = 1
"""Flag of a request: nobody waits for this call any more."""
LAST: Final = 2
"""Flag of a reply: no other follows to this call."""
FAILED: Final = 4
"""Flag of a reply, with LAST: there is no value; `error` says why."""
SERVER: Final = 8
"""Flag of a reply to all clients: who publishes it serves from now on; `error` names the program."""

UNREAD_MOST: Final = 1024
"""Requests that wait in the queue of a server, and replies that wait for a client process."""
PUBLISHES: Final[dict[str, Any]] = {**REQUEST.publisher, "lifetime": None}
"""What is left of the call's timeout is the lifetime of each message."""
SUBSCRIBES: Final[dict[str, Any]] = {**REQUEST.subscriber, "depth": UNREAD_MOST}


class Within:
    """A call that a handler serves. Tasks that the handler begins have it, too, and may go on when it is over."""

    end: float
    """Until when it is waited for, on the monotonic clock; infinite: without a limit."""
    is_over = False


serving: Final[ContextVar[Within | None]] = ContextVar("serving", default=None)
"""Set within a handler."""
_serving: Final = serving.get


def check_name(name: object) -> None:
    """TopicNameError: topics of such a service could have no names; what else is none, says who opens them."""
    longest = reply_topic(str(name), (1 << 64) - 1)
    if not isinstance(name, str) or not name or not shm.is_topic_name(longest) or has_mqtt_levels(name):
        raise TopicNameError(
            f"{name!r} cannot be the name of a service: it is the beginning of the names of its topics, such as "
            "NAME/request; 1 to 168 bytes of UTF-8 can, without control characters, `*`, `?` and `[`, and without "
            "levels that are `#` or `+`"
        )


def request_topic(name: str) -> str:
    return f"{name}/request"


def server_topic(name: str) -> str:
    """Where the server says that it is there."""
    return f"{name}/reply/server"


def reply_topic(name: str, client: int) -> str:
    return f"{name}/reply/{client:x}"


Message = tuple[int, int, int, str, Any]
"""Client, call, flags, error, and a packed value; None: it has no value. A tuple is quicker made than a struct."""


@dataclass(frozen=True, slots=True)
class Envelope:
    """The struct that carries values of one type in one direction."""

    kind: Any
    """Its MessageType, which endpoints take for a type. Its values are Messages."""
    packed: Callable[[Any], Any]
    """A value as its struct holds it. TypeMismatch, ValueMismatch: it cannot travel."""
    unpacked: Callable[[Any], Any] | None = None
    """A value as programs get it; None: as its struct holds it."""


def envelope(direction: str, type: Any) -> Envelope:
    """`direction`: Request or Reply. `type`: what a Publisher takes, or the envelope. UnsupportedType."""
    if isinstance(type, Envelope):
        return type
    return _envelope(direction, type, shown_name(resolve(type).name))


@cache
def _envelope(direction: str, type: Any, shown: str) -> Envelope:
    from rtmw.types.idl_type import members_type

    word = "".join(one if one.isalnum() else "_" for one in shown)
    members = [("client", uint64), ("call", uint64), ("flags", uint32), ("error", str), ("value", _member(type) | None)]
    made = make_dataclass(direction, members, namespace={"__idl_typename__": f"rtmw.{direction}_{word}"})
    kind = members_type(made, partial(_refused, resolve(type)))
    if type is not dict:
        return Envelope(kind, _packed(shown))
    from rtmw.types.text import Json, read_json, written

    return Envelope(kind, lambda value: Json(written(value)), lambda json: read_json(json.text))


def _refused(kind: MessageType, message: Message, error: Exception) -> Exception:
    """The error for a message that cannot be encoded, in the words of its value's own type."""
    try:
        if kind.encode is not None:
            kind.encode(message[-1])
    except RtmwError as told:
        return told
    return ValueMismatch(f"{shown_name(kind.name)}: the value cannot be encoded: {error}")


def described(description: bytes) -> Envelope:
    """The envelope that a topic carries, for a program without its classes: values are given as JSON has them."""
    from rtmw.types.plain import maker

    kind, make = maker(description)
    members = "client", "call", "flags", "error", "value"
    encode, decode, parts = kind.encode, kind.decode, attrgetter(*members)
    assert encode is not None
    assert decode is not None

    def encoded(message: Message) -> Buffer:
        try:
            return encode(make(dict(zip(members, message, strict=True))))
        except MessageError as error:
            raise type(error)(str(error).replace(f"{shown_name(kind.name)}.value", "the value")) from error

    def decoded(data: Lender) -> Message:
        read: Message = parts(decode(data))
        return read

    return Envelope(replace(kind, encode=encoded, decode=decoded, in_place=None), _packed(shown_name(kind.name)))


def _packed(name: str) -> Callable[[Any], Any]:
    def packed(value: Any) -> Any:
        if value is None:
            raise TypeMismatch(f"expected a value of {name}, found None")
        return value

    return packed


def _member(type: Any) -> Any:
    """The type of the member `value`."""
    if type is dict:
        from rtmw.types.text import Json

        return Json
    from rtmw.types.numpy_type import dtype_of

    dtype = dtype_of(type)
    if dtype is None:
        return type
    if dtype.shape or dtype.names or not dtype.isnative or dtype.kind not in "iuf":
        raise UnsupportedType(
            f"{dtype} cannot be a request or a reply; give a dtype of plain numbers, or a class with an array"
        )
    from numpy.typing import NDArray

    made: Any = NDArray
    return made[dtype.type]


_HEAD: Final = struct.Struct("<4xQQII")
"""What begins a message: behind the four bytes of CDR's head client, call, flags, and the size of the error with its
zero. So much is known of a message whose value its class refuses, or whose type is another one."""


def head_of(data: memoryview) -> tuple[int, int, int, int]:
    """Returns zeros, which are of nobody, for a message that is too short to have any."""
    return _HEAD.unpack_from(data) if len(data) >= _HEAD.size else (0, 0, 0, 0)


def announced(sample: shm.Sample[Any]) -> str | None:
    """The program that says by this message of `server_topic` that it serves. None: the message does not say so, or
    somebody else has published it, as a replay does."""
    client, _, flags, size = head_of(sample.data)
    if flags != SERVER or client != sample.publisher:
        return None
    return str(sample.data[_HEAD.size :][: max(size - 1, 0)], "utf-8", "replace")


def publisher(topic: str, envelope: Envelope, domain: Domain, **options: Any) -> Publisher[Any]:
    """Returns an endpoint that carries the structs of an envelope."""
    made: Any = Publisher(topic, envelope.kind, domain=domain, **options)
    return cast("Publisher[Any]", made)


def subscriber(topic: str, envelope: Envelope, domain: Domain, **options: Any) -> Subscriber[Any]:
    """Returns an endpoint that carries the structs of an envelope."""
    made: Any = Subscriber(topic, envelope.kind, domain=domain, **options)
    return cast("Subscriber[Any]", made)


def publishing(domain: Domain, topic: str) -> list[int]:
    """Returns the identities of those who publish on a topic and live."""
    region = domain.region
    life = region.topic_life(topic)
    return [region.identity(row.identity) for row in shm.living(shm.publishers(region, life))] if life else []


class Readers:
    """Who reads what a publisher publishes; a program that takes any type, as a recorder does, is none."""

    def __init__(self, publisher: Publisher[Any], kind: MessageType, domain: Domain) -> None:
        self._publisher, self._type, self._region = publisher, (kind.name, kind.description), domain.region
        self._life = self._region.topic_life(publisher.topic)
        self._looked: tuple[int, int] | None = None
        self._found = False

    def are_there(self) -> bool:
        """A server or client does, or the node that reads for it."""
        looked = self._publisher.subscribers, self._region.endpoints_fingerprint()
        if looked != self._looked:
            rows = shm.living(shm.subscribers(self._region, self._life)) if looked[0] else ()
            types = self._region.types() if rows else {}
            self._looked, self._found = looked, any(types.get(row.type) == self._type for row in rows)
        return self._found


def end_of(timeout: float | None, now: float) -> float:
    """Until when a call is waited for that begins now, on the monotonic clock. Within a handler no longer than the call
    is that it serves; where neither has a limit, for as long as REQUEST says: so services that call each other in a
    circle end."""
    within = _serving()
    if within is None and type(timeout) is float and timeout > 0.0:
        return now + timeout
    check_seconds("timeout", timeout)
    outer = None if within is None or within.is_over else within.end
    seconds: float | None = REQUEST.publisher["lifetime"] if timeout is None and outer == math.inf else timeout
    end = math.inf if seconds is None else now + seconds
    return end if outer is None else min(end, outer)


def left_of(end: float) -> float | None:
    """Seconds until then, as `lifetime` takes them: 0 is over at once, and None no limit."""
    left = end - monotonic()
    if left > 0.0:
        return left if left != math.inf else None
    return 0.0


def limit_reached(name: str, error: LimitReached) -> LimitReached:
    """The error with what a service needs of the domain."""
    return LimitReached(
        f"service {name!r} needs 2 topics, and one more for each process that has a Client of it; each Service takes "
        f"3 endpoints and one a client process, each client process 3: {error}"
    )


class InThread:
    """How a thread waits: in coroutines that never suspend, so that threads and tasks share what is built on these."""

    step = "__next__"
    """The method that a handler's generator has."""

    async def publish(self, publisher: Publisher[Any], message: Any, end: float) -> bool:
        return publisher.publish(message, lifetime=left_of(end))

    async def sleep(self, seconds: float) -> None:
        CLOCK.sleep(seconds)


class InLoop(InThread):
    """How a task of an event loop waits."""

    step = "__anext__"

    async def publish(self, publisher: Publisher[Any], message: Any, end: float) -> bool:
        return await publisher.publish_async(message, lifetime=left_of(end))

    async def arrival(self, subscriber: Subscriber[Any], seconds: float) -> None:
        """Return when something may be there. ClosedError."""
        from rtmw.waiting import wakeup  # where there is an event loop

        await wakeup(subscriber, subscriber._domain.region, seconds)

    async def sleep(self, seconds: float) -> None:
        from asyncio import sleep

        await sleep(seconds)


IN_THREAD: Final = InThread()
IN_LOOP: Final = InLoop()


_begin: Final = methodcaller("send", None)


def run(function: Callable[..., Coroutine[Any, Any, T]], *arguments: Any) -> T:
    """What a coroutine gives that never suspends. It is made and begun by one call of C: else a handler of a signal
    that raises between the two would leave a coroutine of which Python says that it was never awaited."""
    try:
        next(map(_begin, map(function, *zip(arguments))))
    except StopIteration as end:
        value: T = end.value
        return value
    raise RuntimeError("a coroutine of a thread was suspended")
