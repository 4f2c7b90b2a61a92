"""Certificates for etcd on loopback: an authority, and one certificate for both sides."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID


def named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def write_certificates(folder: Path) -> None:
    """`ca.pem`, `node.pem` and `node.key`."""
    authority, node = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())

    def signed(name: str, key: ec.EllipticCurvePrivateKey, extension: x509.ExtensionType) -> bytes:
        now = datetime.now(UTC)
        builder = x509.CertificateBuilder(named("authority"), named(name), key.public_key())
        builder = builder.serial_number(x509.random_serial_number())
        builder = builder.not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))
        made = builder.add_extension(extension, critical=False).sign(authority, hashes.SHA256())
        return made.public_bytes(Encoding.PEM)

    here = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
    key = node.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (folder / "ca.pem").write_bytes(signed("authority", authority, x509.BasicConstraints(ca=True, path_length=None)))
    (folder / "node.pem").write_bytes(signed("node", node, here))
    (folder / "node.key").write_bytes(key)
