"""A site for a test: an authority, and folders of keys of nodes that it has signed."""

from __future__ import annotations

import os
import socket
import ssl
import threading
from dataclasses import dataclass, field
from pathlib import Path

from rtmw.net.security import certificates as c
from rtmw.net.security.certificates import AUTHORITIES, NODE
from rtmw.net.security.identity import Identity
from rtmw.net.security.names import parse_name

WAIT_S = 60.0


@dataclass
class Site:
    """One authority; `folder` holds a folder for each node."""

    folder: Path
    name: str = "plant"
    now: float | None = None
    """When the authority was made, in seconds since the epoch; default: now."""
    key: c.Key = field(default_factory=c.new_key)

    def __post_init__(self) -> None:
        self.authority = c.make_authority(self.name, self.key, self.now)

    def keys(self, name: str, now: float | None = None, days: float = c.NODE_DAYS) -> Path:
        """A folder of keys for this name, signed at `now` (default: of the clock) for so many days."""
        node = parse_name(name)
        folder = self.folder / f"{self.name}-{node.node}"
        folder.mkdir(mode=0o700, parents=True)
        key = c.new_key()
        certificate = c.make_certificate(node, key.public_key(), (self.authority, self.key), now, days)
        put(folder / NODE, c.key_pem(key) + c.pem([certificate]))
        put(folder / AUTHORITIES, c.pem([self.authority]))
        return folder

    def node(self, name: str, now: float | None = None, days: float = c.NODE_DAYS) -> Identity:
        """An identity as it was loaded at `now`."""
        return Identity.load(self.keys(name, now, days), now=now)


def put(path: Path, data: bytes) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(data)


@dataclass
class End:
    """What one end of a handshake has come to: the peer's certificate, or an error."""

    certificate: bytes | None = None
    error: Exception | None = None


def handshake(server: ssl.SSLContext, client: ssl.SSLContext) -> tuple[End, End]:
    """Both ends of a real handshake over loopback, server first. The server says a byte, as a session says hello: a
    client of TLS 1.3 learns only from its first read that it was refused."""
    ends = (End(), End())
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(WAIT_S)

        def serve() -> None:
            _run(ends[0], lambda: _answer(listener, server))

        thread = threading.Thread(target=serve)
        thread.start()
        _run(ends[1], lambda: _connect(listener.getsockname(), client))
        thread.join(WAIT_S)
        assert not thread.is_alive()
    return ends


def _run(end: End, act: object) -> None:
    assert callable(act)
    try:
        end.certificate = act()
    except OSError as error:  # ssl.SSLError is one
        end.error = error


def _answer(listener: socket.socket, context: ssl.SSLContext) -> bytes | None:
    plain, _ = listener.accept()
    plain.settimeout(WAIT_S)
    with plain, context.wrap_socket(plain, server_side=True) as secure:
        secure.sendall(b"h")
        secure.recv(1)
        return secure.getpeercert(binary_form=True)


def _connect(address: tuple[str, int], context: ssl.SSLContext) -> bytes | None:
    plain = socket.create_connection(address, timeout=WAIT_S)
    with plain, context.wrap_socket(plain) as secure:
        if not secure.recv(1):
            raise ssl.SSLEOFError("closed")
        secure.sendall(b"h")
        return secure.getpeercert(binary_form=True)
