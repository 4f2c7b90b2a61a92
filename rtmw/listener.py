"""Listener: calls back for each message of a subscriber, from a thread of its own (requirement P7)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from inspect import isasyncgenfunction, iscoroutine, iscoroutinefunction
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from rtmw import shm
from rtmw.closing import Closing
from rtmw.errors import ClosedError, DeadlineMissed, LeaseExpired
from rtmw.matching import LongWait

if TYPE_CHECKING:
    import logging

T = TypeVar("T")


class Receiving(Protocol[T]):
    """The part of a subscriber that a listener needs."""

    @property
    def topic(self) -> str: ...

    @property
    def closed(self) -> bool: ...

    def receive(self, timeout: float | None = None) -> shm.Sample[T]: ...

    def _log_silence(self) -> None: ...


def _log() -> logging.Logger:
    """Imported when there is something to log: importing rtmw has to be quick."""
    import logging

    return logging.getLogger("rtmw")


def is_async(callback: object) -> bool:
    """Does calling it make a coroutine, or an asynchronous generator?"""
    function: Any = callback
    while isinstance(function, partial):
        function = function.func
    return any(iscoroutinefunction(one) or isasyncgenfunction(one) for one in (function, type(function).__call__))


def _check_callback(callback: object) -> None:
    """Raise TypeError for what cannot be called, or makes a coroutine, which a thread without an event loop would not
    await."""
    if not callable(callback):
        raise TypeError(f"listen cannot call {callback!r} back; give it a function of one sample")
    if is_async(callback):
        raise TypeError(
            f"listen calls back from a thread, and nothing there would await {callback!r}; in a coroutine use "
            "`async for sample in subscriber`, or give listen a function that is not async"
        )


class Listener(Closing, Generic[T]):
    """Made by `Subscriber.listen`. The callback runs in the listener's thread, one message at a time. It is a function
    that is not async: TypeError for another one.

    An exception of the callback is logged with its traceback and counted in `errors`; the listener goes on. That
    holds for SystemExit, too. A callback may close the listener or the subscriber.
    """

    def __init__(
        self,
        subscriber: Receiving[T],
        callback: Callable[[shm.Sample[T]], object],
        on_deadline: Callable[[], object] | None = None,
    ) -> None:
        _check_callback(callback)
        if on_deadline is not None:
            _check_callback(on_deadline)
        if subscriber.closed:
            raise ClosedError(f"{subscriber!r}: listen after close() would never call back")
        self.errors = 0
        """Exceptions that callbacks have raised."""
        self._subscriber = subscriber
        self._callback = callback
        self._on_deadline = on_deadline
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"rtmw {subscriber.topic}", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        waiting: LongWait | None = None
        while not self._stopped.is_set():
            try:
                sample = self._subscriber.receive(timeout=0.1)
            except TimeoutError:
                waiting = waiting or LongWait(self._subscriber._log_silence)
                waiting.look()
                continue
            except ClosedError:
                return
            except LeaseExpired as error:
                _log().warning("%s", error)
                continue
            except DeadlineMissed:
                sample = None
            waiting = None
            # Outside of the handlers, so that the traceback of a callback is its own alone.
            if sample is not None:
                self._deliver(sample)
            elif self._on_deadline is not None:
                self._call(self._on_deadline)
            del sample  # its memory comes back now, and not with the next message

    def _deliver(self, sample: shm.Sample[T]) -> None:
        self._call(lambda: self._callback(sample))

    def _call(self, function: Callable[[], object]) -> None:
        try:
            made = function()
            if iscoroutine(made):  # of a lambda, say
                made.close()
                raise TypeError("the callback gave a coroutine, which nothing awaits here; use `async for`")
        except BaseException as error:  # SystemExit too, with which Python ends a thread in silence
            self.errors += 1
            what = type(error).__name__
            _log().exception("rtmw: the listener of topic %r raised %s; it goes on", self._subscriber.topic, what)

    def close(self) -> None:
        """Stop calling back; waits for a callback that runs, unless called from it. The subscriber stays open."""
        self._stopped.set()
        if threading.current_thread() is not self._thread:
            self._thread.join()
