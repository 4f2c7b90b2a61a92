"""Reasons for which a connection, a session or a stream ends: codes for programs, words for people."""

from __future__ import annotations

import ssl
from enum import IntEnum

from rtmw.errors import RtmwError, SessionError
from rtmw.net.security.errors import NotTrusted
from rtmw.net.security.tls_errors import tls_in_words


class Code(IntEnum):
    """Codes of BYE and RESET, and of the errors here. From 256 on they are the service's."""

    CLOSED = 1
    """A program closed the session or the stream."""
    PROTOCOL = 2
    """The peer broke a rule of docs/formats/session.md."""
    VERSION = 3
    """The two speak no version in common."""
    SUPERSEDED = 4
    """A newer incarnation of the node is here."""
    REPLACED = 5
    """A newer connection carries the session."""
    LEASE = 6
    """Nothing was heard of the peer for the lease."""
    SILENT = 7
    """Nothing was heard on this connection for half the lease; the session may go on over another one."""
    DAMAGED = 8
    """The CRC of a frame or a hello is wrong."""
    REFUSED = 9
    """Not allowed, or too many; the words say what."""
    FORGOTTEN = 10
    """The peer does not know the session any more; it began another one."""
    ITSELF = 11
    """The node has reached itself."""
    EXPIRED = 12
    """A certificate of the connection is no longer valid."""


def named(code: int) -> str:
    """A code as people read it."""
    return Code(code).name if code in set(Code) else str(code)


class Violation(Exception):
    """The peer broke a rule: the session ends. Never leaves this package."""

    def __init__(self, words: str, code: Code = Code.PROTOCOL) -> None:
        super().__init__(words)
        self.code = code


class NotGreeted(SessionError):
    """A connection has not said who it is; `cause` is the label of a counter."""

    def __init__(self, cause: str, message: str, code: Code = Code.REFUSED) -> None:
        super().__init__(message, code)
        self.cause = cause


def in_words(error: Exception, cause: str) -> tuple[str, str]:
    """Why a connection came to nothing: a cause, which counters have as label, and a sentence that says what to do.
    `cause`: of what says nothing better."""
    is_hung_up = isinstance(error, ConnectionError) and not str(error)  # of asyncio, in a handshake of TLS
    if isinstance(error, ssl.SSLError) or is_hung_up:
        return tls_in_words(error)
    if isinstance(error, NotTrusted | NotGreeted):
        return error.cause, str(error)
    if isinstance(error, SessionError):
        return named(error.code).lower(), str(error)
    if isinstance(error, RtmwError):
        return cause, str(error)
    if isinstance(error, TimeoutError):
        return "timeout", "nobody answered in time"
    return cause, (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
