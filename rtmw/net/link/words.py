"""Why there is no link, in words and as the label of a counter."""

from __future__ import annotations

import ssl

from rtmw.net.link.library import TlsError
from rtmw.net.session import errors


def in_words(error: Exception, cause: str) -> tuple[str, str]:
    """A cause and a sentence. `cause`: of what says nothing better."""
    return errors.in_words(ssl_error(error) if isinstance(error, TlsError) else error, cause)


def ssl_error(error: TlsError) -> ssl.SSLError:
    """What OpenSSL has reported to C, as the exception that Python's ssl has for it."""
    reason, code, words = error.args
    if reason == "UNEXPECTED_EOF_WHILE_READING":
        return ssl.SSLEOFError(ssl.SSL_ERROR_EOF, reason)
    if reason != "CERTIFICATE_VERIFY_FAILED":
        found = ssl.SSLError(ssl.SSL_ERROR_SSL, reason)
        found.reason = reason
        return found
    refused = ssl.SSLCertVerificationError(ssl.SSL_ERROR_SSL, reason)
    refused.reason, refused.verify_code, refused.verify_message = reason, code, words
    return refused
