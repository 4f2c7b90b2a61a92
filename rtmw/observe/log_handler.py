"""LogHandler: the records of Python's `logging` on a topic, as structs.

A handler attaches to the domain by itself: it goes on when the program closes its own Domain, and until `logging`
closes its handlers as the interpreter ends. A child of fork() attaches anew with its first record.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from typing import Final

from rtmw.domain import Domain, environment_domain
from rtmw.errors import RtmwError
from rtmw.notebook import ShownByFields
from rtmw.observe.views import program
from rtmw.publisher import Publisher
from rtmw.qos import Reliability

__all__ = ["LogHandler", "LogHandlerStats", "LogLine"]

MESSAGE_MOST: Final = 8192
EXCEPTION_MOST: Final = 32768
NAME_MOST: Final = 256
"""Characters of a message, of an exception, and of each other text. Of an exception and a file the end is kept."""
RETRY_S: Final = 1.0
"""Seconds after which a handler that could not attach tries it again."""


@dataclass(slots=True)
class LogLine:
    """What a LogHandler publishes: one record of `logging`."""

    __idl_typename__ = "rtmw.LogLine"

    time: float
    """When the record was made: seconds since 1970, UTC."""
    level: int
    level_name: str
    logger: str
    message: str
    """With its arguments; up to 8,192 characters."""
    exception: str
    """The traceback of an exception, and the stack of `stack_info`; the last 32,768 characters. Empty: none."""
    program: str
    pid: int
    file: str
    line: int
    dropped: int
    """Lines that this handler has dropped since the one before."""


@dataclass(frozen=True)
class LogHandlerStats(ShownByFields):
    """Counters of a LogHandler since it was made."""

    published: int
    """Lines that it published."""
    dropped: int
    """Records of which no line could be published: there was no room, or it is closed; and those that rtmw itself has
    logged meanwhile."""
    misfits: int
    """Published lines whose arguments do not fit the message, or whose exception has no text."""
    why: str
    """Why the last one was dropped; empty: none was."""


class LogHandler(logging.Handler):
    """Publishes each record of `logging` on a topic, as a LogLine. It never waits, and raises nothing into the program.

    - `topic`: as of Publisher; `rtmw log-lines` shows those of its domain under `log/` without being told. Any number
      of programs may use one topic.
    - `level`: as of `logging.Handler`.
    - `domain`: a number, or a Domain, of which the number is taken; None: the environment's RTMW_DOMAIN, else 0.
    - `priority`, `lifetime`, `reliability`, `depth`, `history`: as of Publisher.

    It keeps the last 64 lines for late subscribers. A formatter is used for exceptions only.

    Errors: those of Publisher.
    """

    def __init__(
        self,
        topic: str,
        *,
        level: int | str = logging.NOTSET,
        domain: int | Domain | None = None,
        priority: int = 1,
        lifetime: float | None = None,
        reliability: Reliability = Reliability.ADAPTIVE,
        depth: int = 64,
        history: int = 64,
    ) -> None:
        self.topic = topic
        """The topic that was given."""
        number = domain.id if isinstance(domain, Domain) else domain
        self._number = environment_domain() if number is None else number
        self._made: Callable[[Domain], Publisher[LogLine]] = lambda opened: Publisher(
            topic, LogLine, domain=opened, priority=priority, lifetime=lifetime, reliability=reliability,
            depth=depth, history=history, max_blocking=0.0,
        )  # fmt: skip
        self._published = self._dropped = self._misfits = self._untold = 0
        self._why = ""
        self._retry_s = 0.0
        self._is_emitting = self._is_closed = False
        self._emitter = os.getpid()
        self._domain: Domain | None = None
        super().__init__(level)
        self._open()

    def _open(self) -> Publisher[LogLine]:
        domain = Domain(self._number)
        self._publisher = self._made(domain)
        self._domain = domain
        self._exhausted = 0
        """Lines that this publisher was refused for lack of memory."""
        self._pid = os.getpid()
        self._program = _text(program(domain.region.names().get(self._pid, "?")), NAME_MOST)
        return self._publisher

    def emit(self, record: logging.LogRecord) -> None:
        """Publish a record. What cannot be published is counted, and the next line says how many there were."""
        if self._emitter != (pid := os.getpid()):  # a child of fork(): the parent tells of what it has dropped
            self._emitter, self._untold, self._is_emitting = pid, 0, False
        if self._is_emitting and str(record.name).partition(".")[0] == "rtmw":
            return self._drop("rtmw logged it while it published another one")
        outer, self._is_emitting = self._is_emitting, True
        try:
            publisher = self._current()
            line = self._line(record)
            if not publisher.publish(line):
                return self._drop(self._refusal(publisher))
            self._published += 1
            self._untold -= line.dropped
        except Exception as error:
            self._drop(f"{type(error).__name__}: {error}" if isinstance(error, RtmwError) else type(error).__name__)
        finally:
            self._is_emitting = outer

    def _refusal(self, publisher: Publisher[LogLine]) -> str:
        """Says why the publisher has refused a line: which of its counters has grown."""
        before, self._exhausted = self._exhausted, publisher.stats().exhausted
        if self._exhausted > before:
            return "no memory could be had: the pool is full of messages that somebody holds or still has to read"
        return "a RELIABLE subscriber's queue has no room"

    def _drop(self, why: str) -> None:
        self._dropped += 1
        self._untold += 1
        self._why = why

    def _current(self) -> Publisher[LogLine]:
        """The publisher; a new one in a child of fork(), and when this process was taken for dead."""
        if self._is_closed or (self._domain is not None and self._domain.is_usable):
            return self._publisher
        if monotonic() >= self._retry_s:
            self._retry_s = monotonic() + RETRY_S
            return self._open()
        return self._publisher

    def _line(self, record: logging.LogRecord) -> LogLine:
        return LogLine(
            record.created,
            record.levelno,
            _text(record.levelname, NAME_MOST),
            _text(record.name, NAME_MOST),
            _text(self._message(record), MESSAGE_MOST),
            _end(self._exception(record), EXCEPTION_MOST),
            self._program,
            self._pid,
            _end(record.pathname, NAME_MOST),
            record.lineno,
            self._untold,
        )

    def _message(self, record: logging.LogRecord) -> str:
        try:
            return record.getMessage()
        except Exception as error:
            self._misfits += 1
            text = record.msg if isinstance(record.msg, str) else type(record.msg).__name__
            return f"{text} (with arguments that do not fit: {type(error).__name__})"

    def _exception(self, record: logging.LogRecord) -> str:
        text = record.exc_text or ""
        if record.exc_info and not text:
            try:
                text = (self.formatter or _FORMATTER).formatException(record.exc_info)
            except Exception as error:
                self._misfits += 1
                text = f"an exception whose text cannot be made: {type(error).__name__}"
        return "\n".join(filter(None, (text, record.stack_info)))

    def stats(self) -> LogHandlerStats:
        """Counters since it was made."""
        return LogHandlerStats(self._published, self._dropped, self._misfits, self._why)

    def close(self) -> None:
        """Publish no more, as `logging.shutdown` has it at the end of the interpreter. Later records are dropped."""
        self.acquire()
        try:
            self._is_closed = True
            if self._domain is not None and self._domain.is_usable:
                self._domain.close()
        finally:
            self.release()
        super().close()

    def __repr__(self) -> str:
        return f"<rtmw.LogHandler {self.topic!r} {logging.getLevelName(self.level)}>"


_FORMATTER: Final = logging.Formatter()


def _text(text: str, most: int) -> str:
    """A text as it can travel, and at most so long."""
    if len(text) <= most and text.isascii() and "\0" not in text:
        return text
    cut = f" … ({len(text)} characters)" if len(text) > most else ""
    whole = f"{text[: most - len(cut)]}{cut}"
    return whole.encode("utf-8", "replace").decode().replace("\0", "?")


def _end(text: str, most: int) -> str:
    """The end of a text, likewise."""
    if len(text) <= most:
        return _text(text, most)
    cut = f"({len(text)} characters) … "
    return _text(cut + text[len(cut) - most :], most)
