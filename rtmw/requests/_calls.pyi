"""The calls of a process to one service, and the taking of their replies; see _calls.c."""

from asyncio import AbstractEventLoop
from collections.abc import Callable
from typing import Any, final

from typing_extensions import disjoint_base

from rtmw.shm import Sample
from rtmw.subscriber import Subscriber

@final
class Call:
    """A call, and what has come of it."""

    @property
    def owner(self) -> Any: ...
    @property
    def number(self) -> int: ...
    @property
    def arrived(self) -> list[bytes | Sample[Any]] | None:
        """Replies of a stream that its caller has not got; None: it is no stream."""

    @property
    def value(self) -> Sample[Any] | None:
        """The last reply before the one that ends the call, of which the caller wants one value."""

    @property
    def end(self) -> float:
        """Until when it is waited for, on the monotonic clock."""

    @property
    def server(self) -> int: ...
    outcome: bytes | Sample[Any] | Exception | None
    """The reply that ends the call, or why none will come; None: the call is not over."""
    wake: Callable[[], object] | None
    """Wakes who waits for it, from any thread; None: nobody waits."""
    loop: AbstractEventLoop | None
    """That of the task which waits for it; None: a thread does."""

@disjoint_base
class Line:
    """The subclass has `look`, `raise_no_server`, `lose`, `give_up_unread` and `pass_on`."""

    def __init__(
        self,
        calls: dict[int, Call],
        receive: Callable[[float], Sample[Any]],
        take: Callable[[], Sample[Any] | None],
        servers: Subscriber[Any],
        id: int,
        unread_most: int,
        /,
    ) -> None: ...
    @property
    def id(self) -> int: ...
    @property
    def begun(self) -> int:
        """Calls that were begun; the number of the last one."""

    @property
    def late(self) -> int: ...
    @property
    def taker(self) -> int:
        """The thread that takes replies; 0: none."""
    server: int
    """The identity of who serves; 0: nobody."""
    holds_s: float
    """Until when the last look for the server holds, unless another one says that it serves."""
    next_look_s: float
    def begin(self, owner: Any, end: float, arrived: list[Any] | None, /) -> Call:
        """A call, which the caller puts into `calls`, and then publishes its request. `arrived`: an empty list, for a
        stream. NoServer."""

    def take(self, seconds: float, /) -> bool:
        """Give replies to their calls: all that are there, or with seconds the next one, which is waited for. False:
        another thread takes."""
