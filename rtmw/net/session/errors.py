"""Reasons for which a connection, a session or a stream ends: codes for programs, words for people.

Of a TLS handshake that failed the words say what OpenSSL found at this end, or what the alert of the peer says.
"""

from __future__ import annotations

import ssl
from datetime import UTC, datetime
from enum import IntEnum
from typing import Final

from rtmw.clock import CLOCK
from rtmw.errors import RtmwError, SessionError
from rtmw.net.security import CAUSES, NotTrusted

_CLOCKS: Final = "its clock or this host's is wrong; this host's says {now}"
_VERIFIED: Final = {
    9: ("not yet valid", f"the peer's certificate is not yet valid: {_CLOCKS}"),
    10: ("expired", f"the peer's certificate has expired ({_CLOCKS}, if it should not): renew it on the peer's host"),
    7: ("unknown authority", "the peer's certificate is not signed by the authority that it names: an authority of "
        "the same name, but with another key, has signed it; compare fingerprints with rtmw node keys show"),
    85: ("unfit certificate", "in the peer's certificate the key id of its authority is missing, so nobody looks who "
        "has signed it: sign it with rtmw node keys sign, or with the extension authorityKeyIdentifier"),
    86: ("unfit certificate", "in the certificate of the peer's authority its own key id is missing: rtmw node keys "
        "init makes one that has it, or the extension subjectKeyIdentifier"),
    47: ("unknown authority", "the peer's name is of another site than that of the authority that has signed it"),
}  # fmt: skip
"""Codes of X509_verify_cert (x509_vfy.h) with a cause of rtmw.net.security."""
_UNKNOWN: Final = (
    "unknown authority",
    "the peer's certificate is signed by another authority than those in ca.pem: compare fingerprints with rtmw node "
    "keys show",
)
_UNFIT: Final = (
    "unfit certificate",
    "the peer's certificate, or that of its authority, is not made as it has to be: rtmw node keys makes others",
)
_WITHOUT_SIGNER: Final = (2, 18, 19, 20, 21, 29, 30, 31)
"""Codes that say: it is signed by none of those that are trusted. All further ones say that a certificate is unfit."""

_ALERTS: Final = {
    "CERTIFICATE_REQUIRED": "the peer wants a certificate, and this end has shown none",
    "CERTIFICATE_EXPIRED": "the peer says that this node's certificate has expired: rtmw node keys renew, or its clock "
    "is wrong; this host's says {now}",
    "UNKNOWN_CA": "the peer does not trust the authority of this node's certificate: its ca.pem lacks it; compare "
    "fingerprints with rtmw node keys show",
    "DECRYPT_ERROR": "the peer knows an authority of this name, but with another key: compare fingerprints with "
    "rtmw node keys show",
    "BAD_CERTIFICATE": "the peer refuses this node's certificate: a clock may be wrong, this host's says {now}; "
    "its log has the reason",
    "CERTIFICATE_UNKNOWN": "the peer refuses this node's certificate; its log has the reason",
    "UNSUPPORTED_CERTIFICATE": "the peer refuses this node's certificate; its log has the reason",
    "ACCESS_DENIED": "the peer refuses this node's certificate; its log has the reason",
    "PROTOCOL_VERSION": "the peer does not speak TLS 1.3, or refuses what this end speaks",
}
_LOCAL: Final = {
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": ("no certificate", "the peer has shown no certificate"),
    "UNSUPPORTED_PROTOCOL": ("no TLS 1.3", "the peer offers only TLS before 1.3"),
    "WRONG_VERSION_NUMBER": ("no TLS", "what came is no TLS: something else speaks at the other end"),
    "HTTP_REQUEST": ("no TLS", "what came is a request of HTTP: something else speaks at the other end"),
    "NO_SHARED_CIPHER": ("no TLS 1.3", "the peer offers no cipher that this end takes"),
}

assert {cause for cause, _ in _VERIFIED.values()} <= set(CAUSES)


def tls_in_words(error: Exception, now: float | None = None) -> tuple[str, str]:
    """A cause, a few words that counters have as label, and a sentence that says what to do.

    `error`: what the handshake or, in TLS 1.3, the first read of a client has raised: a client learns only then that
    the server has refused its certificate.
    """
    cause, text = _found(error)
    at = datetime.fromtimestamp(CLOCK.wall() if now is None else now, UTC)
    return cause, text.replace("{now}", at.strftime("%Y-%m-%d %H:%M:%S UTC"))


def _found(error: Exception) -> tuple[str, str]:
    if isinstance(error, ssl.SSLCertVerificationError):
        otherwise = _UNKNOWN if error.verify_code in _WITHOUT_SIGNER else _UNFIT
        cause, text = _VERIFIED.get(error.verify_code, otherwise)
        return cause, f"{text} (OpenSSL: {error.verify_message})"
    is_hung_up = isinstance(error, ConnectionError) and not str(error)  # of asyncio, which has no number for it
    if is_hung_up or isinstance(error, ssl.SSLZeroReturnError | ssl.SSLEOFError):
        return "closed", "the peer closed the connection during the handshake; its log has the reason"
    if isinstance(error, ssl.SSLError):
        reason = str(error.reason or "")
        for alert, text in _ALERTS.items():
            if reason.endswith(f"ALERT_{alert}"):
                return "refused by the peer", text
        if reason in _LOCAL:
            return _LOCAL[reason]
        return "TLS", f"the handshake failed: {reason.lower().replace('_', ' ') or error}"
    if isinstance(error, TimeoutError):
        return "timeout", "the peer did not complete the handshake in time"
    if isinstance(error, OSError):
        return "closed", f"the connection broke during the handshake: {error.strerror or error}"
    return "TLS", f"the handshake failed: {error}"


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
