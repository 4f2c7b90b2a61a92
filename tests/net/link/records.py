"""Records of TLS 1.3 at the peer of a connection, made with HMAC and AES-GCM alone (RFC 8446, sections 5 and 7.3)."""

from __future__ import annotations

import hmac
import socket
import ssl
import struct
from pathlib import Path
from threading import Thread

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from rtmw.net.link.library import Connection, Context
from tests.net.link.ends import PATIENCE, tcp_pair, wait_until

ALERT, HANDSHAKE, DATA = 21, 22, 23
SUITE = "TLS_AES_256_GCM_SHA384"
"""Which Python's client likes best."""


class Keys:
    """Of one direction."""

    def __init__(self, secret: bytes) -> None:
        self._begin(secret)

    def _begin(self, secret: bytes) -> None:
        self._secret, self.number = secret, 0
        self._cipher, self._iv = AESGCM(self._expand(b"key", 32)), self._expand(b"iv", 12)

    def _expand(self, label: bytes, size: int) -> bytes:
        label = b"tls13 " + label
        info = struct.pack(">HB", size, len(label)) + label + b"\0\1"
        return hmac.digest(self._secret, info, "sha384")[:size]

    def update(self) -> None:
        self._begin(self._expand(b"traffic upd", 48))

    def _nonce(self) -> bytes:
        number = int.from_bytes(self._iv, "big") ^ self.number
        self.number += 1
        return number.to_bytes(12, "big")

    def seal(self, inner: bytes) -> bytes:
        header = struct.pack(">BHH", DATA, 0x0303, len(inner) + 16)
        return header + self._cipher.encrypt(self._nonce(), inner, header)

    def open(self, record: bytes) -> bytes:
        return self._cipher.decrypt(self._nonce(), record[5:], record[:5])


class Peer:
    """Has shaken hands with a connection, whose server end this is."""

    def __init__(self, server: Context, client: ssl.SSLContext, log: Path) -> None:
        one, other = tcp_pair()
        client.keylog_filename = str(log)
        self.connection = Connection(other.fileno(), server)
        other.close()
        end = client.wrap_socket(one, do_handshake_on_connect=False)
        thread = Thread(target=end.do_handshake)
        thread.start()
        wait_until(lambda: self.connection.handshake() == "done")
        thread.join()
        cipher = end.cipher()
        assert cipher
        assert cipher[0] == SUITE
        self.socket = socket.socket(fileno=end.detach())
        self.socket.settimeout(PATIENCE)
        secrets = dict(line.split()[::2] for line in log.read_text().splitlines() if not line.startswith("#"))
        self.out = Keys(bytes.fromhex(secrets["CLIENT_TRAFFIC_SECRET_0"]))
        self.back = Keys(bytes.fromhex(secrets["SERVER_TRAFFIC_SECRET_0"]))

    def close(self) -> None:
        self.connection.close()
        self.socket.close()

    def send(self, content: bytes, kind: int = DATA, padding: int = 0) -> None:
        self.socket.sendall(self.out.seal(content + bytes([kind]) + bytes(padding)))

    def receive(self) -> tuple[bytes, int]:
        """What the next record has, and its type."""
        header = self._exactly(5)
        inner = self.back.open(header + self._exactly(int.from_bytes(header[3:], "big")))
        return inner[:-1], inner[-1]

    def _exactly(self, size: int) -> bytes:
        got = b""
        while len(got) < size:
            part = self.socket.recv(size - len(got))
            assert part, "the connection has ended"
            got += part
        return got
