"""Certificates of nodes and of the authorities (CAs) that sign them (X.509, P-256, SHA-256), and their folder.

A node's certificate has one URI, its name, and is signed by an authority directly. An authority signs names of its own
site only: its certificate says so (name constraints), and OpenSSL holds to it in each handshake.

The files of a node's folder of keys:

    node.pem       the private key and the certificate of this node: one file, so that both change at once
    ca.pem         the authorities whose nodes are trusted, the newest first
    ca.key         the private key of the newest authority: on the host that signs, and nowhere else
    pending.key    the private key of a certificate that was requested and is not here yet
    request.pem    that request, to be carried to the host that signs; no secret

The folder has mode 0700, each file 0600. A file with a private key that others can read is refused.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from rtmw.clock import CLOCK
from rtmw.disk import DISK, Disk
from rtmw.errors import MISSING, NotInstalled
from rtmw.net.security import KeysError, NotTrusted
from rtmw.net.security.names import SCHEME, Name, parse_name
from rtmw.text.units import duration

try:
    from cryptography import x509
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
except ModuleNotFoundError as error:
    use = "a node with keys of its own"
    raise NotInstalled(MISSING.format(package="cryptography", use=use, extra="link")) from error

DAY_S: Final = 86400.0
NODE_DAYS: Final = 90.0
AUTHORITY_DAYS: Final = 3653.0
EARLIER_S: Final = 300.0
"""A certificate is valid from a little before it was signed: clocks of hosts differ."""
WARN_PART: Final = 1 / 3
"""Part of its lifetime: with less than this left, a certificate is to be renewed."""

Certificate = x509.Certificate
Key = ec.EllipticCurvePrivateKey


@dataclass(frozen=True)
class Facts:
    """The facts of a certificate that people and metrics are told; times in seconds since the epoch."""

    name: str
    """The name of a node, `rtmw://site/node`, or the common name of an authority."""
    serial: str
    """Hexadecimal, as `revoked` of the settings has it."""
    valid_from: float
    expires: float
    fingerprint: str
    """SHA-256 of the certificate."""

    def warning(self, now: float) -> str | None:
        """Why it cannot be used, or should be renewed; None: all is well."""
        invalid = invalid_now(self.valid_from, self.expires, now)
        if invalid:
            return invalid[1]
        if self.expires - now < (self.expires - self.valid_from) * WARN_PART:
            return f"expires in {duration(self.expires - now)}, less than a third of its lifetime"
        return None


def invalid_now(valid_from: float, expires: float, now: float) -> tuple[str, str] | None:
    """Why a certificate of these times is not valid: a cause of errors.py, and words that follow its name."""
    if now >= expires:
        return "expired", f"expired {duration(now - expires)} ago"
    if now < valid_from:
        ahead = duration(valid_from - now)
        return "not yet valid", f"is not yet valid for {ahead}: a clock is wrong, this host's says {clock_text(now)}"
    return None


def clock_text(now: float) -> str:
    """A time as people compare it: in UTC, to the second."""
    return datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def facts(certificate: Certificate) -> Facts:
    """The facts of a node's certificate or an authority's. Raises NotTrusted for a node's certificate without a
    name."""
    return Facts(
        name=common_name(certificate) if is_authority(certificate) else str(name_of(certificate)),
        serial=f"{certificate.serial_number:x}",
        valid_from=certificate.not_valid_before_utc.timestamp(),
        expires=certificate.not_valid_after_utc.timestamp(),
        fingerprint=fingerprint(certificate),
    )


def fingerprint(certificate: Certificate) -> str:
    """SHA-256 of the whole certificate, hexadecimal in pairs."""
    return certificate.fingerprint(hashes.SHA256()).hex(":")


def key_fingerprint(request: x509.CertificateSigningRequest) -> str:
    """SHA-256 of the public key that a request is for."""
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    digest = hashes.Hash(hashes.SHA256())
    digest.update(request.public_key().public_bytes(serialization.Encoding.DER, form))
    return digest.finalize().hex(":")


def common_name(certificate: Certificate) -> str:
    """The common name of the subject; empty if it has none."""
    found = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(found[0].value) if found else ""


def is_authority(certificate: Certificate) -> bool:
    """May it sign others?"""
    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except (x509.ExtensionNotFound, ValueError):
        return False


def name_of(signed: Certificate | x509.CertificateSigningRequest) -> Name:
    """The one name of a node in it. Raises NotTrusted where there is none, or several, or it is malformed."""
    try:
        found = signed.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        uris = found.get_values_for_type(x509.UniformResourceIdentifier)
    except (x509.ExtensionNotFound, ValueError):
        uris = []
    ours = [uri for uri in uris if uri.startswith(SCHEME)]
    if len(ours) != 1:
        has = ", ".join(ours) or "none"
        raise NotTrusted("no name", f"a certificate must have one URI rtmw://SITE/NODE; this one has {has}")
    try:
        return parse_name(ours[0])
    except ValueError as error:
        raise NotTrusted("no name", str(error)) from None


def issuer_of(certificate: Certificate, authorities: Sequence[Certificate]) -> Certificate | None:
    """The authority among these that has signed it; by the signature, not by the name."""
    for authority in authorities:
        try:
            certificate.verify_directly_issued_by(authority)
        except (InvalidSignature, ValueError, TypeError):
            continue
        return authority
    return None


def says_key_of_signer(certificate: Certificate) -> bool:
    """Does it have the key id of its authority? OpenSSL refuses it otherwise."""
    return any(isinstance(one.value, x509.AuthorityKeyIdentifier) for one in certificate.extensions)


def new_key() -> Key:
    """Makes a key on the curve P-256."""
    return ec.generate_private_key(ec.SECP256R1())


def key_pem(key: Key) -> bytes:
    """The private key as PKCS 8, not encrypted: a node starts with nobody there to type a passphrase."""
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    return key.private_bytes(encoding, form, serialization.NoEncryption())


def pem(certificates: Sequence[Certificate]) -> bytes:
    """The certificates in PEM, one block each."""
    return b"".join(one.public_bytes(serialization.Encoding.PEM) for one in certificates)


def der(certificate: Certificate) -> bytes:
    """The certificate in DER, as a handshake carries it."""
    return certificate.public_bytes(serialization.Encoding.DER)


def from_der(der: bytes | None) -> Certificate:
    """What a peer has shown in a handshake. Raises NotTrusted."""
    if der is None:
        raise NotTrusted("no certificate", "the peer has shown no certificate")
    try:
        return x509.load_der_x509_certificate(der)
    except ValueError as error:
        raise NotTrusted("no certificate", f"what the peer has shown is no certificate: {error}") from None


def make_authority(site: str, key: Key, now: float | None = None, days: float = AUTHORITY_DAYS) -> Certificate:
    """Signed by itself; for names of this site only."""
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"rtmw authority of {site}")])
    of_site = x509.NameConstraints([x509.UniformResourceIdentifier(site)], None)
    return (
        _builder(subject, subject, key.public_key(), CLOCK.wall() if now is None else now, days)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(key_cert_sign=True, crl_sign=True), critical=True)
        .add_extension(of_site, critical=True)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )


def site_of(authority: Certificate) -> str | None:
    """The site whose names an authority may sign; None: it is not limited to one."""
    try:
        permitted = authority.extensions.get_extension_for_class(x509.NameConstraints).value.permitted_subtrees
    except x509.ExtensionNotFound:
        return None
    sites = [one.value for one in permitted or () if isinstance(one, x509.UniformResourceIdentifier)]
    return sites[0] if len(sites) == 1 else None


def make_request(name: Name, key: Key) -> x509.CertificateSigningRequest:
    """The request that a node asks an authority to sign; it holds no secret."""
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name.node)])
    builder = x509.CertificateSigningRequestBuilder().subject_name(subject)
    return builder.add_extension(_uri(name), critical=False).sign(key, hashes.SHA256())


def make_certificate(
    name: Name,
    public: ec.EllipticCurvePublicKey,
    authority: tuple[Certificate, Key],
    now: float | None = None,
    days: float = NODE_DAYS,
) -> Certificate:
    """Makes a certificate for a node, with which it connects and is connected to. It never outlives its authority."""
    issuer, key = authority
    now = CLOCK.wall() if now is None else now
    days = min(days, (issuer.not_valid_after_utc.timestamp() - now) / DAY_S)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name.node)])
    purposes = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
    return (
        _builder(subject, issuer.subject, public, now, days)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(digital_signature=True), critical=True)
        .add_extension(purposes, critical=False)
        .add_extension(_uri(name), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )


def _builder(
    subject: x509.Name, issuer: x509.Name, public: ec.EllipticCurvePublicKey, now: float, days: float
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(datetime.fromtimestamp(now - EARLIER_S, UTC))
        .not_valid_after(datetime.fromtimestamp(now + days * DAY_S, UTC))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
    )


def _uri(name: Name) -> x509.SubjectAlternativeName:
    return x509.SubjectAlternativeName([x509.UniformResourceIdentifier(str(name))])


def _usage(*, digital_signature: bool = False, key_cert_sign: bool = False, crl_sign: bool = False) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=digital_signature,
        key_cert_sign=key_cert_sign,
        crl_sign=crl_sign,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


NODE: Final = "node.pem"
AUTHORITIES: Final = "ca.pem"
AUTHORITY_KEY: Final = "ca.key"
PENDING_KEY: Final = "pending.key"
REQUEST: Final = "request.pem"
LARGEST: Final = 1 << 20
"""Bytes of a file of keys or certificates."""
TRUST: Final = f"rtmw node keys install FILE --trust, with the {AUTHORITIES} of the host that signs"
"""What to do where it is not known whom to trust."""
_KEY_BLOCK: Final = re.compile(rb"-----BEGIN ([A-Z0-9 ]*)PRIVATE KEY-----.*?-----END \1PRIVATE KEY-----", re.DOTALL)


def make_folder(folder: Path) -> None:
    """Makes a folder with mode 0700. If it is there, nobody else may write to it. Raises KeysError."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise KeysError(f"{folder}: cannot be made: {error.strerror}") from error
    check_folder(folder)


def check_folder(folder: Path) -> None:
    """Raises KeysError where it is missing, or open to others."""
    try:
        found = folder.stat()
    except FileNotFoundError:
        raise KeysError(f"there is no folder {folder}: make keys with rtmw node keys init or request") from None
    except PermissionError as error:
        raise KeysError(_closed(folder)) from error
    except OSError as error:
        raise KeysError(f"{folder}: {error.strerror}") from error
    if not stat.S_ISDIR(found.st_mode):
        raise KeysError(f"{folder} is no folder: name the folder that holds {NODE} and {AUTHORITIES}")
    if found.st_mode & 0o077:
        mode = stat.S_IMODE(found.st_mode)
        raise KeysError(f"{folder} is open to others (mode {mode:04o}): chmod 700 {folder}")
    if not os.access(folder, os.R_OK | os.X_OK, effective_ids=True):
        raise KeysError(_closed(folder))


def read(path: Path, *, secret: bool) -> bytes:
    """A file of at most LARGEST bytes; one with a secret must be ours, and nobody else's to read. Raises KeysError."""
    try:
        with open(path, "rb", opener=_opened) as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise KeysError(f"{path} is no file")
            if secret:
                _check_owner(path, found)
            text = file.read(LARGEST + 1)
    except PermissionError as error:
        raise KeysError(_closed(path)) from error
    except OSError as error:
        raise KeysError(f"{path}: {error.strerror}") from error
    if len(text) > LARGEST:
        raise KeysError(f"{path} has more than {LARGEST} bytes: that is no file of keys or certificates")
    return text


def _closed(path: Path) -> str:
    """Says why the kernel does not let this user read a file or folder, and what to do."""
    me = os.geteuid()
    try:
        found = path.stat()
    except OSError:  # a folder above it is closed
        return f"{path} cannot be reached by uid {me}, as whom this runs: run it as the user whose it is"
    if found.st_uid == me:
        return f"{path} cannot be read by its owner, uid {me}: chmod u+rwX {path}"
    whole = "-R " if stat.S_ISDIR(found.st_mode) else ""
    return (
        f"{path} cannot be read by uid {me}, as whom this runs: it is of uid {found.st_uid}. Run this as that user, "
        f"or chown {whole}{me} {path}"
    )


def _opened(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)  # a pipe in its place must not hold the node up


def _check_owner(path: Path, found: os.stat_result) -> None:
    if found.st_mode & 0o077:
        mode = stat.S_IMODE(found.st_mode)
        raise KeysError(f"{path} can be read by others (mode {mode:04o}): chmod 600 {path}")
    if found.st_uid not in (os.geteuid(), 0):
        raise KeysError(f"{path} belongs to another user (uid {found.st_uid}): chown {os.geteuid()} {path}")


def write(path: Path, data: bytes, disk: Disk = DISK) -> None:
    """Replaces the file as a whole, with mode 0600. It is on the disk when this returns. Raises KeysError."""
    try:
        disk.replace(path, data, 0o600)
    except OSError as error:
        raise KeysError(f"{path}: cannot be written: {error.strerror or error}") from error


def read_key(path: Path) -> Key:
    """The private key in a file, which may hold certificates, too. Raises KeysError; no message shows the key."""
    blocks = [found.group() for found in _KEY_BLOCK.finditer(read(path, secret=True))]
    if len(blocks) != 1:
        raise KeysError(
            f"{path} has {len(blocks)} private keys in PEM; it must have one: "
            + ("take it from a backup, or make another one" if not blocks else "delete those that are not of this node")
        )
    try:
        key = serialization.load_pem_private_key(blocks[0], password=None)
    except TypeError:
        raise KeysError(
            f"{path}: the private key is encrypted, and nobody is there to type its passphrase when a node starts: "
            f"openssl pkey -in {path}, and chmod 600 the result"
        ) from None
    except ValueError:
        raise KeysError(f"{path}: the private key is damaged: take it from a backup, or make another one") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise KeysError(f"{path}: the private key is of another kind; keys of nodes are of P-256")
    return key


def read_certificates(
    path: Path, *, secret: bool = False, advice: str = "take it from its host again"
) -> list[Certificate]:
    """All certificates of a file, in its order; at least one. `advice`: the next step where there are none. Raises
    KeysError."""
    data = read(path, secret=secret)
    try:
        return x509.load_pem_x509_certificates(data)
    except ValueError:  # its words are for programmers, and have an address in the web
        raise KeysError(f"{path} has no certificates in PEM that can be read: {advice}") from None


def read_authorities(folder: Path) -> list[Certificate]:
    """Authorities that are trusted, the newest first. Raises KeysError."""
    path = folder / AUTHORITIES
    if not path.exists():
        raise KeysError(f"there is no {path}, which says whom to trust: {TRUST}")
    return read_certificates(path, advice=TRUST)
