"""Identity of a node, trust, and rights of peers: certificates, a folder of keys, and one table of rights.

Three entry points:

1. `identity.Identity.load(folder, revoked)` reads the keys of this node. `server_context()` and `client_context()`
   give `ssl.SSLContext`s: TLS 1.3 only, a certificate of the peer is required, no session tickets.
2. `Identity.peer_of(der)` says who the peer with this verified certificate is, and until when its chain is valid;
   it raises `NotTrusted`. `Identity.fault(peer)` says the same of a peer whose session is open: None, or why the
   session must end. `session.errors.tls_in_words(error)` is the reason of a handshake that failed, for people.
3. `rules.Rights.verdict(peer, verb, subject, priority=, size=)` says whether a peer may, by which rule of which file
   and line, and with which ceilings. It is asked when a route opens, not for each message.

    names ─► certificates (and their files on disk) ─► identity (TLS contexts, peers) ─► keys (what commands do)
    tables ([link] and [[allow]] of a file) ─► rules (the table; verdicts, denials)
    health: what a node says of its keys

`import rtmw.net.security` needs nothing; certificates, identity and keys need `cryptography` (`rtmw[link]`).

Errors about keys, peers and rules:

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
