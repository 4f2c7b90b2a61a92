"""Errors about keys, peers and rules.

RtmwError
└── SecurityError
    ├── KeysError       the folder of keys cannot be used, or a command on it
    ├── NotTrusted      this certificate is of nobody who may connect; `cause` is one of CAUSES
    └── RulesError      a table of the settings cannot be; the message names file, line and key
"""

from __future__ import annotations

from typing import Final

from rtmw.errors import RtmwError

CAUSES: Final = (
    "no certificate", "no name", "unknown authority", "unfit certificate", "expired", "not yet valid", "revoked",
)  # fmt: skip
"""Why a certificate is not trusted: the labels of counters."""


class SecurityError(RtmwError):
    """Base of the errors of keys, peers and rules."""


class KeysError(SecurityError):
    """The folder of keys cannot be used, or not for what was asked; what to do is said."""


class NotTrusted(SecurityError):
    """The certificate is of nobody who may connect; `cause` is one of CAUSES."""

    def __init__(self, cause: str, message: str) -> None:
        assert cause in CAUSES
        super().__init__(message)
        self.cause = cause


class RulesError(SecurityError):
    """A table of the settings cannot be; the message names file, line and key."""
