"""Commands on keys of nodes: make, request, sign, install, renew, show. `rtmw node keys` says it.

A private key never leaves its host. Each change of a folder is one rename, or a sequence that can be run again after
a crash at any place: the certificate that was valid stays valid until another one has its name.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from rtmw.net.security import KeysError, NotTrusted
from rtmw.net.security import certificates as files
from rtmw.net.security.certificates import (
    NODE_DAYS,
    Certificate,
    Facts,
    Key,
    common_name,
    facts,
    fingerprint,
    invalid_now,
    is_authority,
    issuer_of,
    key_fingerprint,
    key_pem,
    make_authority,
    make_certificate,
    make_request,
    name_of,
    new_key,
    pem,
    site_of,
)
from rtmw.net.security.identity import facts_of, read_node
from rtmw.net.security.names import Name


@dataclass(frozen=True)
class Shown:
    """A row of `show`."""

    what: str
    facts: Facts
    warning: str | None


@dataclass(frozen=True)
class Signed:
    """The result of `sign`."""

    name: str
    key_fingerprint: str
    """Fingerprint of the public key that was asked for. `request` has shown the same to its owner."""
    path: Path


def init(folder: Path, name: Name, now: float, days: float = NODE_DAYS) -> Facts:
    """The first host of a site: its authority, a key, and a certificate. Raises KeysError where there are keys."""
    files.make_folder(folder)
    if (folder / files.NODE).exists():
        raise KeysError(f"{folder} has keys of a node already: rtmw node keys show, or renew")
    if not (folder / files.AUTHORITY_KEY).exists() and (folder / files.AUTHORITIES).exists():
        raise KeysError(f"{folder} trusts an authority of another host: rtmw node keys request {name}")
    if not (folder / files.AUTHORITIES).exists():
        _make_authority(folder, name.site, [], now)
    return _sign_own(folder, name, now, days)


def request(folder: Path, name: Name) -> tuple[Path, str]:
    """Make a key, unless one waits already, and ask for its certificate. The file to be signed, and the fingerprint
    of its key. May be repeated."""
    files.make_folder(folder)
    pending = folder / files.PENDING_KEY
    if not pending.exists():
        files.write(pending, key_pem(new_key()))
    asked = make_request(name, files.read_key(pending))
    path = folder / files.REQUEST
    files.write(path, asked.public_bytes(serialization.Encoding.PEM))
    return path, key_fingerprint(asked)


def sign(folder: Path, path: Path, output: Path | None, now: float, days: float = NODE_DAYS) -> Signed:
    """Sign a request, on the host with the authority. The file that is written, `NODE.pem` unless another is named,
    has the certificate and the authorities to trust; no secret. Raises KeysError."""
    files.check_folder(folder)
    authority, key = read_authority(folder)
    asked = _read_request(path)
    name = _name_in(path, asked)
    public = asked.public_key()
    if not isinstance(public, ec.EllipticCurvePublicKey) or not isinstance(public.curve, ec.SECP256R1):
        raise KeysError(
            f"{path}: its key is of another kind; keys of nodes are of P-256: rtmw node keys request {name}"
        )
    _check_site(name, authority)
    certificate = make_certificate(name, public, (authority, key), now, days)
    output = output or Path(f"{name.node}.pem")
    files.write(output, pem([certificate, *files.read_authorities(folder)]))
    return Signed(str(name), key_fingerprint(asked), output)


def install(folder: Path, path: Path, now: float, *, trust: bool = False) -> list[Facts]:
    """Take in what `sign` has written: the certificate of the key that waits here, and the authorities to trust in
    place of those before. `trust`: also authorities that are not trusted yet, although this folder trusts some.

    Returns the certificates that are in the folder now. A file with authorities only changes nothing but trust. Raises
    KeysError, and then nothing has changed.
    """
    files.check_folder(folder)
    found = files.read_certificates(path)
    authorities = [one for one in found if is_authority(one)]
    own = [one for one in found if not is_authority(one)]
    if not authorities or len(own) > 1:
        raise KeysError(f"{path} is not what rtmw node keys sign writes: a certificate, and the authorities to trust")
    _check_trust(folder, path, authorities, trust)
    combined = _combined(folder, path, own[0], authorities, now) if own else None
    files.write(folder / files.AUTHORITIES, pem(authorities))
    if combined is not None:
        files.write(folder / files.NODE, combined)
        for name in (files.PENDING_KEY, files.REQUEST):
            (folder / name).unlink(missing_ok=True)
    return [facts(one) for one in own + authorities]


def renew(folder: Path, now: float, days: float = NODE_DAYS) -> Facts | None:
    """Another certificate, with another key, in place of the one here: on the host that signs at once. Elsewhere None:
    a request was made, and what is here stays until its certificate is installed."""
    certificate, _ = read_node(folder)
    path = folder / files.NODE
    name = _name_in(path, certificate)
    if (folder / files.AUTHORITY_KEY).exists():
        return _sign_own(folder, name, now, days)
    request(folder, name)
    return None


def renew_authority(folder: Path, now: float) -> Facts:
    """Another authority, which signs from now on; the one before stays trusted, and all that it has signed."""
    files.check_folder(folder)
    before, _ = read_authority(folder)
    site = site_of(before)
    if site is None:
        raise KeysError(f"{folder / files.AUTHORITIES}: the authority is of no site; it was not made by rtmw node keys")
    valid = [one for one in files.read_authorities(folder) if invalid_now(*_times(one), now) is None]
    return facts(_make_authority(folder, site, valid, now))


def show(folder: Path, now: float) -> Iterator[Shown]:
    """Certificates here, with what is to be done about them. Raises KeysError, also for files open to others."""
    files.check_folder(folder)
    signing = _signing(folder)
    if (folder / files.NODE).exists():
        own, authorities = read_node(folder)
        told = facts_of(folder / files.NODE, own)
        warning = told.warning(now)
        if issuer_of(own, authorities) is None:
            warning = f"no authority in {files.AUTHORITIES} has signed it: install what rtmw node keys sign has written"
        yield Shown("this node", told, warning)
    elif not (folder / files.PENDING_KEY).exists():
        raise KeysError(f"there are no keys in {folder}: make some with rtmw node keys init or request")
    if (folder / files.AUTHORITIES).exists():
        for one in files.read_authorities(folder):
            what = "authority, signs here" if signing == one.public_key() else "authority"
            told = facts(one)
            yield Shown(what, told, told.warning(now))


def pending(folder: Path) -> tuple[str, str] | None:
    """Name and fingerprint of the key of the request that waits to be signed. Raises KeysError."""
    if not (folder / files.PENDING_KEY).exists() or not (folder / files.REQUEST).exists():
        return None
    files.read_key(folder / files.PENDING_KEY)
    path = folder / files.REQUEST
    asked = _read_request(path)
    return str(_name_in(path, asked)), key_fingerprint(asked)


def read_authority(folder: Path) -> tuple[Certificate, Key]:
    """The authority that signs here, and its key. Raises KeysError where this host signs nothing."""
    path = folder / files.AUTHORITY_KEY
    if not path.exists():
        raise KeysError(f"there is no {path}: requests are signed on the host where rtmw node keys init was run")
    key = files.read_key(path)
    for one in files.read_authorities(folder):
        if one.public_key() == key.public_key():
            return one, key
    raise KeysError(f"{path} is the key of no authority in {folder / files.AUTHORITIES}: take both from a backup")


def _signing(folder: Path) -> object | None:
    path = folder / files.AUTHORITY_KEY
    return files.read_key(path).public_key() if path.exists() else None


def _make_authority(folder: Path, site: str, before: list[Certificate], now: float) -> Certificate:
    """The certificate first: with the key of the authority before, which it still holds, the folder can sign until
    the new key is there. In a folder without one the key comes first, for it fits nothing yet."""
    key = new_key()
    made = make_authority(site, key, now)
    steps = [(files.AUTHORITIES, pem([made, *before])), (files.AUTHORITY_KEY, key_pem(key))]
    for name, data in steps if before else steps[::-1]:
        files.write(folder / name, data)
    return made


def _sign_own(folder: Path, name: Name, now: float, days: float) -> Facts:
    authority, signing = read_authority(folder)
    _check_site(name, authority)
    key = new_key()
    certificate = make_certificate(name, key.public_key(), (authority, signing), now, days)
    files.write(folder / files.NODE, key_pem(key) + pem([certificate]))
    return facts(certificate)


def _check_site(name: Name, authority: Certificate) -> None:
    site = site_of(authority)
    if site is not None and site != name.site:
        raise KeysError(f"the authority here is of site {site}, and signs no name of another: {name}")


def _check_trust(folder: Path, path: Path, authorities: list[Certificate], trust: bool) -> None:
    """Raises KeysError for an authority that this folder does not trust, although it trusts some."""
    if trust or not (folder / files.AUTHORITIES).exists():
        return
    known = {fingerprint(one) for one in files.read_authorities(folder)}
    for one in authorities:
        if fingerprint(one) not in known:
            raise KeysError(
                f"{path} brings an authority that {folder / files.AUTHORITIES} does not have: {common_name(one)}, "
                f"{fingerprint(one)}; compare that with rtmw node keys show on its host, and install with --trust"
            )


def _combined(folder: Path, path: Path, own: Certificate, authorities: list[Certificate], now: float) -> bytes:
    """The content that NODE is to hold. Raises KeysError where this certificate cannot be used here."""
    waiting = folder / files.PENDING_KEY
    if not waiting.exists():
        raise KeysError(f"no key waits in {folder} for a certificate: rtmw node keys request, or renew")
    key = files.read_key(waiting)
    if own.public_key() != key.public_key():
        raise KeysError(f"{path} is for another key than the one that waits in {folder}: sign {folder / files.REQUEST}")
    told = facts_of(path, own)
    invalid = invalid_now(told.valid_from, told.expires, now)
    if invalid:
        raise KeysError(f"{path}: the certificate of {told.name} {invalid[1]}")
    if issuer_of(own, authorities) is None:
        raise KeysError(f"{path}: none of its authorities has signed its certificate; sign the request again")
    return key_pem(key) + pem([own])


def _read_request(path: Path) -> x509.CertificateSigningRequest:
    try:
        asked = x509.load_pem_x509_csr(files.read(path, secret=False))
        is_whole = asked.is_signature_valid
    except ValueError:
        raise KeysError(f"{path} is no request: take the {files.REQUEST} that rtmw node keys request makes") from None
    if not is_whole:
        raise KeysError(f"{path} is damaged, or its sender does not have the key: rtmw node keys request, again")
    return asked


def _name_in(path: Path, signed: Certificate | x509.CertificateSigningRequest) -> Name:
    try:
        return name_of(signed)
    except NotTrusted as error:
        raise KeysError(f"{path}: {error}") from None


def _times(certificate: Certificate) -> tuple[float, float]:
    return certificate.not_valid_before_utc.timestamp(), certificate.not_valid_after_utc.timestamp()
