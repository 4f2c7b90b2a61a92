"""What two hosts need for TLS, made once a run: keys of nodes by rtmw's own commands, certificates for others."""

from __future__ import annotations

import datetime as dt
import ipaddress
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import cache
from pathlib import Path

SITE = "bench"
ADDRESSES = ("127.0.0.1", "10.79.0.1", "10.79.0.2")
"""At which hosts of a measurement are reached."""
AUTHORITY, CERTIFICATE, KEY = "ca.pem", "certificate.pem", "key.pem"

_folders = ExitStack()
"""As long as this process."""


def _folder() -> Path:
    return Path(_folders.enter_context(tempfile.TemporaryDirectory(prefix="rtmw-bench-keys-")))


@cache
def node_keys(environment: tuple[tuple[str, str], ...]) -> tuple[Path, Path]:
    """Folders of keys of two nodes, signed by one authority."""
    here, there, signed = (_folder() / name for name in ("here", "there", "signed.pem"))
    run = _Keys(dict(environment))
    run("init", "--folder", here, f"rtmw://{SITE}/here")
    run("request", "--folder", there, f"rtmw://{SITE}/there")
    run("sign", "--folder", here, there / "request.pem", "-o", signed)
    run("install", "--folder", there, signed)
    return here, there


class _Keys:
    """`rtmw node keys`."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment

    def __call__(self, *words: str | Path) -> None:
        command: Sequence[str] = (sys.executable, "-m", "rtmw", "node", "keys", *map(str, words))
        done = subprocess.run(command, env=self._environment, capture_output=True, text=True, timeout=30)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command[2:])}: {done.stderr.strip()}")


@cache
def certificates() -> Path:
    """A folder with an authority, and a key and a certificate of it for either host. P-256, as nodes have."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives import serialization as s
    from cryptography.hazmat.primitives.asymmetric import ec

    now, folder = dt.datetime.now(dt.UTC), _folder()
    root, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())

    def certificate(name: str, of: ec.EllipticCurvePrivateKey, extension: x509.ExtensionType) -> bytes:
        def named(text: str) -> x509.Name:
            return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)])

        made = x509.CertificateBuilder(
            named("bench authority"), named(name), of.public_key(), x509.random_serial_number()
        )
        made = made.not_valid_before(now - dt.timedelta(hours=1)).not_valid_after(now + dt.timedelta(days=1))
        signed = made.add_extension(extension, critical=False).sign(root, hashes.SHA256())
        return signed.public_bytes(s.Encoding.PEM)

    names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(one)) for one in ADDRESSES])
    form = (s.Encoding.PEM, s.PrivateFormat.PKCS8, s.NoEncryption())
    folder.joinpath(AUTHORITY).write_bytes(certificate("bench authority", root, x509.BasicConstraints(True, 0)))
    folder.joinpath(CERTIFICATE).write_bytes(certificate("bench host", key, names))
    folder.joinpath(KEY).write_bytes(key.private_bytes(*form))
    return folder
