"""The identity of this node in memory, and those of its peers: TLS contexts, who somebody is, whether it may go on."""

from __future__ import annotations

import ssl
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from rtmw.clock import CLOCK
from rtmw.net.security import KeysError, NotTrusted
from rtmw.net.security.certificates import (
    AUTHORITIES,
    NODE,
    Certificate,
    Facts,
    check_folder,
    der,
    facts,
    from_der,
    invalid_now,
    is_authority,
    issuer_of,
    read_authorities,
    read_certificates,
    read_key,
    says_key_of_signer,
)
from rtmw.net.security.names import parse_name


@dataclass(frozen=True)
class Peer:
    """The peer at the other end of a session."""

    name: str
    """`rtmw://site/node`."""
    serial: int
    valid_from: float
    expires: float
    """When the first certificate of its chain expires, in seconds since the epoch."""
    fingerprint: str

    @property
    def node(self) -> str:
        """The last part of the name: `{node}` of a rule."""
        return parse_name(self.name).node


@dataclass(frozen=True)
class Identity:
    """Keys of this node, whom it trusts, and whose certificates it has been told to refuse.

    A value: a reload loads another one. For several threads.
    """

    folder: Path
    own: Facts
    authorities: tuple[Certificate, ...] = field(repr=False)
    revoked: frozenset[int] = frozenset()
    """Serial numbers."""

    @property
    def name(self) -> str:
        """`rtmw://site/node`."""
        return self.own.name

    @classmethod
    def load(cls, folder: Path | str, revoked: Iterable[int] = (), now: float | None = None) -> Identity:
        """Read `node.pem` and `ca.pem`. `now`: seconds since the epoch, for tests; else the clock of this host.

        Raises KeysError where files are missing, damaged or open to others, where key, certificate and authority do
        not belong together, and where the certificate is not valid now.
        """
        folder, now = Path(folder), CLOCK.wall() if now is None else now
        path = folder / NODE
        certificate, authorities = read_node(folder)
        own = facts_of(path, certificate)
        invalid = invalid_now(own.valid_from, own.expires, now)
        if invalid:
            todo = ": rtmw node keys renew" if invalid[0] == "expired" else ""
            raise KeysError(f"{path}: the certificate of {own.name} {invalid[1]}{todo}")
        if issuer_of(certificate, authorities) is None:
            raise KeysError(f"{path}: no authority in {folder / AUTHORITIES} has signed the certificate of {own.name}")
        if not says_key_of_signer(certificate):
            raise KeysError(
                f"{path}: in the certificate of {own.name} the key id of its authority is missing, so peers refuse it: "
                "sign it with rtmw node keys sign, or with the extension authorityKeyIdentifier"
            )
        return cls(folder, own, tuple(authorities), frozenset(revoked))

    def is_other(self, before: Identity | None) -> bool:
        """Is the certificate of this node, or whom it trusts, another than before? `fault` says who is revoked."""
        return before is None or (self.own, self.authorities) != (before.own, before.authorities)

    def server_context(self) -> ssl.SSLContext:
        """The TLS context of those who listen. Raises KeysError if the files have changed since, and do not fit any
        more."""
        context = self._context(ssl.PROTOCOL_TLS_SERVER)
        context.num_tickets = 0
        return context

    def client_context(self) -> ssl.SSLContext:
        """The TLS context of those who connect. It does not compare the name of the peer: `peer_of` says it."""
        return self._context(ssl.PROTOCOL_TLS_CLIENT)

    def _context(self, protocol: int) -> ssl.SSLContext:
        context = ssl.SSLContext(protocol)
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_3
        context.check_hostname = False  # nodes have names of their own, in a URI
        context.verify_mode = ssl.CERT_REQUIRED
        context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_STRICT
        context.options |= ssl.OP_NO_TICKET | ssl.OP_NO_COMPRESSION
        path = self.folder / NODE
        read_key(path)  # checks who can read it, and that it is not encrypted: OpenSSL would ask for a passphrase
        try:
            context.load_cert_chain(path)
        except (ssl.SSLError, OSError) as error:
            raise KeysError(f"{path}: OpenSSL cannot use it: {error}") from None
        context.load_verify_locations(cadata=b"".join(der(one) for one in self.authorities))
        return context

    def material(self) -> tuple[bytes, list[bytes]]:
        """The input of an OpenSSL outside of Python: the key and certificate of `node.pem`, and the authorities in DER.
        Raises KeysError, as `server_context` does."""
        path = self.folder / NODE
        read_key(path)
        return path.read_bytes(), [der(one) for one in self.authorities]

    def peer_of(self, der: bytes | None, now: float | None = None) -> Peer:
        """The peer with this certificate, which the handshake has verified: `getpeercert(binary_form=True)`.

        Raises NotTrusted. It does not trust the handshake alone: signature, validity and revocation are looked at.
        """
        certificate = from_der(der)
        found = facts(certificate)
        issuer = issuer_of(certificate, self.authorities)
        if issuer is None or is_authority(certificate):
            raise NotTrusted(
                "unknown authority", f"the certificate of {found.name} is signed by no authority in {AUTHORITIES}"
            )
        expires = min(found.expires, issuer.not_valid_after_utc.timestamp())
        peer = Peer(found.name, certificate.serial_number, found.valid_from, expires, found.fingerprint)
        fault = self._fault(peer, CLOCK.wall() if now is None else now)
        if fault is not None:
            raise NotTrusted(*fault)
        return peer

    def fault(self, peer: Peer, now: float | None = None) -> NotTrusted | None:
        """Why a session with this peer must end; None: it may go on. Ask at `peer.expires`, and after a reload."""
        found = self._fault(peer, CLOCK.wall() if now is None else now)
        return NotTrusted(*found) if found else None

    def _fault(self, peer: Peer, now: float) -> tuple[str, str] | None:
        if peer.serial in self.revoked:
            which = f"the certificate of {peer.name}, serial {peer.serial:x}"
            return "revoked", f"{which}, is revoked by the settings; rtmw node keys renew gives that node another"
        invalid = invalid_now(peer.valid_from, peer.expires, now)
        if invalid is None:
            return None
        todo = ": rtmw node keys renew, on its host" if invalid[0] == "expired" else ""
        return invalid[0], f"the certificate of {peer.name} {invalid[1]}{todo}"


def read_node(folder: Path) -> tuple[Certificate, list[Certificate]]:
    """The certificate of this node, and the authorities that it trusts. Raises KeysError."""
    check_folder(folder)
    path = folder / NODE
    if not path.exists():
        raise KeysError(f"there is no {path}: make keys with rtmw node keys init or request")
    again = "take it from a backup, or make another key: rtmw node keys request"
    key, certificates = read_key(path), read_certificates(path, secret=True, advice=again)
    if key.public_key() != certificates[0].public_key():
        raise KeysError(f"{path}: its private key and its certificate do not belong together")
    authorities = read_authorities(folder)
    if not all(is_authority(one) for one in authorities):
        raise KeysError(
            f"{folder / AUTHORITIES} has a certificate that is no authority's: whoever has its key would be trusted"
        )
    return certificates[0], authorities


def facts_of(path: Path, certificate: Certificate) -> Facts:
    """The facts of a certificate in this file. Raises KeysError for one without a name."""
    try:
        return facts(certificate)
    except NotTrusted as error:
        raise KeysError(f"{path}: {error}") from None
