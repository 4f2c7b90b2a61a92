"""Errors that OpenSSL has reported to C, as the exceptions that Python's ssl has for them: tls_errors.py has the
words."""

from __future__ import annotations

import ssl

from rtmw.net.link.library import TlsError

__all__ = ["ssl_error"]


def ssl_error(error: TlsError) -> ssl.SSLError:
    """For `rtmw.net.security.tls_errors.in_words`."""
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
