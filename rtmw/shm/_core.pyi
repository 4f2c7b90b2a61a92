"""The C core as Python sees it; see _core.h and rtmw.h."""

from collections.abc import Callable, Iterable, Iterator
from types import EllipsisType, GenericAlias, TracebackType
from typing import Any, Generic, Self, TypeVar, final

from typing_extensions import Buffer, disjoint_base

_T = TypeVar("_T")
_S = TypeVar("_S", bound=Subscriber[Any])

BAD_LOAN: int
BAD_QOS: int
BAD_TIMES: int
DAMAGED: int
DEADLINE: int
DENIED: int
FORKED: int
BAD_NAME: int
CLOSED: int
GRANULES_A_PAGE: int
SMALLEST_POOL: int
LARGEST_POOL: int
RESERVE_WHOLE: int
RESERVE_MOST: int
LAPSED: int
LAYOUT_VERSION: int
LOOK_UP_NS: int
NOT_FOUND: int
NO_ENDPOINT_SLOT: int
NO_LOCKS: int
OTHER_TIME: int
NO_MEMORY: int
NO_PARTICIPANT_SLOT: int
NO_TOPIC_SLOT: int
NO_TYPE_SLOT: int
OBSERVER: int
PAGE: int
SWEPT: int
SYSTEM: int
TIMEOUT: int
TOO_LARGE: int
TYPE_ANY: int
TYPE_RAW: int
VERSION: int
WRONG_TYPE: int

@final
class Region:
    def __init__(self, domain: int, look_on: bool = False, is_tool: bool = False, /) -> None: ...
    @property
    def pool_bytes(self) -> int: ...
    @property
    def reserve(self) -> float: ...
    @property
    def nonce(self) -> int: ...
    @property
    def mapped_bytes(self) -> int: ...
    @property
    def capacity(self) -> dict[str, int]: ...
    @property
    def topic_count(self) -> int: ...
    @property
    def slot(self) -> int | None:
        """This process's slot among the participants; None: it only looks on."""

    def pid_at(self, slot: int, /) -> int:
        """The process that has this slot of the participants; 0: none."""

    def lock_memory(self) -> None: ...
    def is_current(self) -> bool:
        """Not made before a fork(), and not swept by another process."""

    def check_current(self) -> None:
        """ForkedError or SweptError if it is not."""

    def fileno(self) -> int: ...
    def drain(self) -> None: ...
    def topics(self) -> list[tuple[int, str, int, tuple[tuple[int, int], ...]]]: ...
    def contents(self) -> dict[int, tuple[int, int, tuple[int, ...]]]: ...
    def topic_life(self, name: str, /) -> int:
        """0: there is no topic of this name."""

    def publishers(
        self, topic: int = 0, /
    ) -> list[tuple[int, int, int, int, int, int, int, int, int, int, int, int, int, bool]]: ...
    def subscribers(
        self, topic: int = 0, /
    ) -> list[
        tuple[
            int,
            int,
            int,
            int,
            int,
            tuple[int, ...],
            tuple[int, ...],
            list[tuple[int, int, int]],
            tuple[int, int, int, int, int, bool, bool],
        ]
    ]: ...
    def names(self) -> dict[int, str]: ...
    def participants(self) -> list[tuple[int, int, str, bool, int, int]]: ...
    def types(self) -> dict[int, tuple[str, bytes]]:
        """Name and description by life: no other type ever has the same number."""

    def identity(self, publisher: int, /) -> int:
        """Returns the identity by which samples show a publisher, on each host. `publisher`: its identity in tables,
        queues and events of the region."""

    def endpoints_fingerprint(self) -> int:
        """Another number as soon as an endpoint has come, gone or got other limits (inspect.c)."""

    def participants_fingerprint(self) -> int:
        """Another number as soon as a program has attached or detached."""

    def queue(
        self, topic: int, most: int = 64, /
    ) -> list[tuple[int, int, int, int, int, int, int, list[int], bytes, int]]: ...
    def trace(self, topic: int, on: bool, /) -> bool: ...
    def trace_next(self) -> int: ...
    def events(
        self, at: int, known: int, /
    ) -> tuple[list[tuple[str, int, int, int, int, int, int, int, int, int]], int, int, int]: ...
    def clear(self, topic: str, /) -> int:
        """Forget what a topic keeps for late subscribers; how many messages that was."""

    def sweep_from_last_slot(self) -> None: ...
    def sweep(self) -> int:
        """Clean up after participants that have died; how many there were."""

    def sweep_parked(self) -> int:
        """End subscriptions that are parked and whose time is over; how many there were."""

    def examine(self, fix: bool, /) -> tuple[int, int, int, int, int, int, int, int, int, int, int, list[str]]: ...

@disjoint_base
class Publisher(Generic[_T]):
    def __init__(
        self,
        region: Region,
        topic: str,
        type: tuple[str, int, bytes] | None,
        encode: Callable[[Any], Buffer] | Callable[[Any], Buffer | int] | None,
        write: Callable[[Any, memoryview], None] | None,
        reliability: int,
        priority: int,
        depth: int,
        history: int,
        lifetime: float | None,
        max_blocking: float | None,
    ) -> None: ...
    @property
    def topic(self) -> str: ...
    @property
    def subscribers(self) -> int: ...
    @property
    def identity(self) -> int: ...
    @property
    def closed(self) -> bool: ...
    def publish(
        self, value: _T, *, priority: int | None = None, lifetime: float | None = None, valid_until: float | None = None
    ) -> bool: ...
    def publish_many(self, values: Iterable[_T]) -> int: ...
    def loan(
        self, size: int, *, priority: int | None = None, lifetime: float | None = None, valid_until: float | None = None
    ) -> Loan: ...
    def close(self) -> None: ...
    def _try(
        self,
        seconds: float | None,
        value: _T,
        /,
        *,
        priority: int | None = None,
        lifetime: float | None = None,
        valid_until: float | None = None,
    ) -> bool | None:
        """Publish without waiting. None: a RELIABLE subscriber's queue is full, or the memory; nothing is counted, as
        the caller tries again within these seconds."""

    def _sleep(self, seconds: float | None, /) -> None:
        """Until what was refused last may have room, or for a slice of these seconds."""

    def _has_room(self, priority: int, /) -> bool:
        """Whether the queues have room for a message of this priority: else a try is in vain, and its encoding too."""

    def _forget(self) -> None: ...
    def _counters(self) -> tuple[int, int, int, int, int]: ...
    def _blockers(self) -> list[tuple[str, int, str, int, int, bool]]: ...
    def __class_getitem__(cls, item: Any, /) -> GenericAlias: ...

@final
class Loan:
    @property
    def data(self) -> memoryview: ...
    def publish(self) -> bool: ...
    def drop(self) -> None: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...

@disjoint_base
class Subscriber(Generic[_T]):
    _tells_after_ns: int
    """After so long a wait without limit calls `_log_silence()` of the subclass, and goes on; 0: it does not."""

    def __init__(
        self,
        region: Region,
        topic: str,
        type: tuple[str, int, bytes] | EllipsisType | None,
        decode: Callable[[Sample[Any]], Any] | Callable[[int, Sample[Any]], Any] | None,
        reliability: int,
        depth: int,
        history: int,
        min_interval: float | None,
        deadline: float | None,
        lease: float | None,
        spin: float | None,
    ) -> None: ...
    @property
    def topic(self) -> str: ...
    @property
    def identity(self) -> int: ...
    @property
    def closed(self) -> bool: ...
    def take(self) -> Sample[_T] | None: ...
    def take_many(self, limit: int) -> list[Sample[_T]]: ...
    def receive(self, timeout: float | None = None) -> Sample[_T]: ...
    def fileno(self) -> int: ...
    def close(self) -> None: ...
    def __iter__(self) -> Iterator[Sample[_T]]: ...
    def __next__(self) -> Sample[_T]: ...
    def _arm(self) -> bool: ...
    def _latency(self) -> list[tuple[int, int, int]]: ...
    def _deadline_left(self) -> float | None: ...
    def _look_in(self) -> float | None: ...
    def _counters(self) -> tuple[int, int, int, int, int, int, int, int, int, int]: ...
    def __class_getitem__(cls, item: Any, /) -> GenericAlias: ...

@final
class Sample(Generic[_T]):
    @property
    def value(self) -> _T: ...
    @property
    def data(self) -> memoryview: ...
    @property
    def topic(self) -> str: ...
    @property
    def type_name(self) -> str: ...
    @property
    def sequence(self) -> int: ...
    @property
    def priority(self) -> int: ...
    @property
    def source_time_ns(self) -> int: ...
    @property
    def expires_ns(self) -> int | None: ...
    @property
    def publisher(self) -> int: ...
    @property
    def _description(self) -> bytes | None: ...
    @property
    def _ends_ns(self) -> int:
        """CLOCK_MONOTONIC in nanoseconds; 0: never."""

    @property
    def _pid(self) -> int:
        """Process that published it; 0: of another host."""

    def release(self) -> None: ...
    def _repr_html_(self) -> str: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...
    def __class_getitem__(cls, item: Any, /) -> GenericAlias: ...

def wait_any(subscribers: tuple[_S, ...], timeout: float | None, /) -> list[_S]: ...
def control_bytes(pool: int, /) -> int: ...
def create(domain: int, pool: int, reserve: int, group: int, /) -> bool: ...
def is_topic_name(name: str, /) -> bool: ...
def names(domain: int, nonce: int, /) -> tuple[str, str]: ...
def explain(code: int, errno: int, /) -> str: ...
