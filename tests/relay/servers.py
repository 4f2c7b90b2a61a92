"""Relays in processes of their own, agents that are sockets of the test, and a way between that is cut."""

from __future__ import annotations

import itertools
import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

import rtmw
from rtmw.relay import Frame, Row, Splitter
from rtmw.relay.frame import (
    MAGIC,
    SIZE_OF_HELLO,
    SIZE_OF_WELCOME,
    Hello,
    Kind,
    OwnSplitter,
    Packet,
    Welcome,
    address_of,
    encode,
)

PATIENCE: Final = 60.0
"""Seconds after which a test has failed; nothing is judged by them."""
SETTINGS: Final = """\
[relay]
listen = ["127.0.0.1:0", "unix:relay.sock"]
t1 = "2s"
t2 = "200ms"
n2 = 2

[[agent]]
name = "AODB"
from = "127.0.0.1"

[[agent]]
name = "GATE"
from = "127.0.0.1"

[[agent]]
name = "KEEP"
from = "127.0.0.1"
absent = "keep"

[[subject]]
address = "ALL"
group = ["GATE", "KEEP"]

[[allow]]
peer = "agent:AODB"
order = ["GATE/*", "KEEP/*", "ALL/*"]
deny = ["GATE/D"]

[[allow]]
peer = "agent:*"
order = ["AODB/I"]
"""
ALONE: Final = SETTINGS.replace('from = "127.0.0.1"', "uid = UID", 2).replace("UID", str(os.getuid()))
"""Whoever connects from 127.0.0.1 is KEEP; AODB and GATE are at the Unix socket."""
OPENED: Final[list[Peer | OwnPeer]] = []
"""By the test that runs."""
_STAMPS: Final = itertools.count(time.time_ns())


def stamp() -> bytes:
    return b"%022d" % next(_STAMPS)


class Ended(AssertionError):
    """The relay ended, and was to say something."""


class Relay:
    """A server; `kill` and `start` as one likes."""

    def __init__(self, folder: Path, settings: str = SETTINGS) -> None:
        self.folder, self.file = folder, folder / "node.toml"
        self.file.write_text(settings)
        self.lines: list[str] = []
        self.before: list[str] = []
        """What stands before its command."""
        self.process: subprocess.Popen[str] | None = None
        self.port = 0
        self.domain: int | None = None

    def start(self) -> None:
        command = [
            *self.before,
            sys.executable,
            "-m",
            "rtmw.relay",
            "--data",
            str(self.folder),
            "--config",
            str(self.file),
        ]
        command += [] if self.domain is None else ["--domain", str(self.domain)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        found = re.search(r"127\.0\.0\.1:(\d+)", self.until("relay at"))
        assert found is not None
        self.port = int(found[1])

    def unix(self) -> socket.socket:
        """Connected to its Unix socket."""
        found = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            found.connect(str(self.folder / "relay.sock"))
        except OSError:
            found.close()
            raise
        return found

    def until(self, words: str) -> str:
        """The next line of its log with these words."""
        assert self.process is not None
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line)
            if words in line:
                return line
        raise Ended(f"the relay ended, and never said {words!r}: {self.lines}")

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.communicate()
            self.process = None
        while OPENED:
            OPENED.pop().close()

    def end(self) -> int:
        """In order: its standard input closes."""
        assert self.process is not None
        self.process.communicate(timeout=PATIENCE)
        code, self.process = self.process.returncode, None
        return code

    def rows(self) -> list[Row]:
        with rtmw.Log(self.folder / "relay" / "record", Row) as log:
            return [record.value for record in log.read()]


class Peer:
    """An agent's connection. With `introduced` it says at once who it is, by a receipt for nothing."""

    def __init__(self, to: Relay | socket.socket, address: str, *, introduced: bool = True) -> None:
        """`to`: whom it connects to, or a socket that is connected."""
        self.address = address
        self.socket = to if isinstance(to, socket.socket) else socket.create_connection(("127.0.0.1", to.port))
        self.socket.settimeout(PATIENCE)
        OPENED.append(self)
        self.splitter = Splitter()
        self._frames: list[Frame] = []
        if introduced:
            self.send(Frame(address, "none", stamp(), "A", "I", bytes(25)))

    def send(self, frame: Frame) -> Frame:
        """The frame as the other end sees it."""
        raw = frame.encode()
        self.socket.sendall(raw)
        return Frame.decode(raw)

    def made(self, to: str, data: bytes, command: str = "I") -> Frame:
        return Frame(self.address, to, stamp(), "O", command, data)

    def order(self, to: str, data: bytes, command: str = "I") -> Frame:
        return self.send(self.made(to, data, command))

    def frames(self) -> Iterator[Frame]:
        """As they come; ends where the relay closes."""
        while True:
            while self._frames:
                yield self._frames.pop(0)
            data = self.socket.recv(65536)
            if not data:
                return
            self._frames += self.splitter.feed(data)

    def take(self) -> Frame:
        return next(self.frames())

    def confirm(self, frame: Frame) -> None:
        receipt = frame.receipt(stamp())
        self.send(Frame(self.address, receipt.destination, receipt.stamp, "A", "I", receipt.data))

    def is_closed(self) -> bool:
        """Waits for that."""
        try:
            return next(self.frames(), None) is None
        except OSError:
            return True

    def close(self) -> None:
        self.socket.close()


class OwnPeer:
    """The connection of an agent of this package, by hand."""

    def __init__(self, to: Relay | socket.socket, address: str, *, hello: Hello | None = None) -> None:
        self.address = address_of(address)
        self.socket = to if isinstance(to, socket.socket) else socket.create_connection(("127.0.0.1", to.port))
        self.socket.settimeout(PATIENCE)
        OPENED.append(self)
        self.hello = hello or Hello(self.address, 10.0, 3)
        self.socket.sendall(self.hello.encode())
        raw = b""
        while len(raw) < SIZE_OF_WELCOME and (data := self.socket.recv(SIZE_OF_WELCOME - len(raw))):
            raw += data
            if not raw.startswith(MAGIC[: len(raw)]):
                break
        self.refused, self._packets = "", list[Packet]()
        if raw.startswith(MAGIC):
            self.welcome = Welcome.decode(raw)
            self._splitter = OwnSplitter(self.welcome.crc)
        else:
            self._splitter = OwnSplitter()
            self._packets = self._splitter.feed(raw)
            self.refused = self.take().frame.body.decode()

    def send(self, packet: Packet) -> Packet:
        self.socket.sendall(encode(packet, self.welcome.crc))
        return packet

    def made(self, kind: Kind, to: str, data: bytes = b"") -> Packet:
        return Packet(kind, Frame(self.address, address_of(to), stamp(), b"O", b"I", data))

    def order(self, to: str, data: bytes, priority: int | None = None, lifetime: float = 0.0) -> Packet:
        return self.send(self.made(Kind.ORDER, to, data)._replace(priority=priority, lifetime=lifetime))

    def confirm(self, packet: Packet) -> None:
        receipt = packet.frame.receipt(stamp())
        self.send(Packet(Kind.RECEIPT, replace(receipt, source=self.address)))

    def take(self) -> Packet:
        while not self._packets:
            data = self.socket.recv(65536)
            if not data:
                raise EOFError
            self._packets += self._splitter.feed(data)
        return self._packets.pop(0)

    def said(self) -> tuple[Kind, str]:
        """The kind and the words of what comes next."""
        packet = self.take()
        return packet.kind, packet.frame.body.decode()

    def is_closed(self) -> bool:
        """Waits for that."""
        try:
            self.take()
        except (OSError, EOFError):
            return True
        return False

    def close(self) -> None:
        self.socket.close()


class Silent:
    """A program that welcomes agents at a Unix socket, and says nothing by itself."""

    def __init__(self, folder: Path) -> None:
        self.place = f"unix:{folder}/silent.sock"
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(f"{folder}/silent.sock")
        self._socket.listen()
        self.welcome = Welcome(0.001, 0, 1 << 20)

    def accept(self) -> socket.socket:
        found, _ = self._socket.accept()
        found.settimeout(PATIENCE)
        assert Hello.decode(found.recv(SIZE_OF_HELLO, socket.MSG_WAITALL)).address == b"AODB"
        found.sendall(self.welcome.encode())
        return found

    def packets(self, connection: socket.socket) -> Iterator[Packet]:
        splitter = OwnSplitter()
        while data := connection.recv(65536):
            yield from splitter.feed(data)

    def close(self) -> None:
        self._socket.close()


class Cut:
    """Between agents and a relay: the first connection is cut when so many bytes have gone through it."""

    def __init__(self, relay: Relay, bytes: int) -> None:
        self._relay, self._left = relay, bytes
        self.was_cut = False
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.place = f"127.0.0.1:{self._socket.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._socket.accept()
                far = self._relay.unix()
                for one, other in ((near, far), (far, near)):
                    threading.Thread(target=self._carry, args=(one, other), daemon=True).start()

    def _carry(self, one: socket.socket, other: socket.socket) -> None:
        with suppress(OSError):
            while data := one.recv(65536):
                if not self.was_cut:
                    data, self._left = data[: max(0, self._left)], self._left - len(data)
                other.sendall(data)
                if self._left <= 0 and not self.was_cut:
                    self.was_cut = True
                    break
            for sock in (one, other):
                sock.shutdown(socket.SHUT_RDWR)
        one.close()

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
