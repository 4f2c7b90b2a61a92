"""The folder of a node's keys, and how its files are read and written.

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
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from rtmw.disk import DISK, Disk
from rtmw.net.security.certificates import Certificate, Key
from rtmw.net.security.errors import KeysError

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
