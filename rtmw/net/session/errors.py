"""Reasons for which a connection, a session or a stream ends: codes for programs, words for people."""

from __future__ import annotations

from enum import IntEnum


class Code(IntEnum):
    """Codes of BYE and RESET, and of the errors here. From 256 on they are the service's."""

    CLOSED = 1
    """A program closed the session or the stream."""
    PROTOCOL = 2
    """The peer broke a rule of docs/session.md."""
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
