"""Why there is no link, in words and as the label of a counter."""

from __future__ import annotations

from rtmw.errors import RtmwError, SessionError
from rtmw.net.link.library import TlsError
from rtmw.net.link.tls import ssl_error
from rtmw.net.security.errors import NotTrusted
from rtmw.net.security.tls_errors import in_words as tls_in_words
from rtmw.net.session.errors import named


def in_words(error: Exception, cause: str) -> tuple[str, str]:
    """A cause and a sentence. `cause`: of what says nothing better."""
    if isinstance(error, TlsError):
        return tls_in_words(ssl_error(error))
    if isinstance(error, NotTrusted):
        return error.cause, str(error)
    if isinstance(error, SessionError):
        return named(error.code).lower(), str(error)
    if isinstance(error, RtmwError):
        return cause, str(error)
    if isinstance(error, TimeoutError):
        return "timeout", "nobody answered in time"
    return cause, (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
