"""A line between two nodes on loopback that is cut: whoever connects is passed on, as long as it is up."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress

BLOCK = 1 << 18


class BrokenLine:
    """To a port of loopback; it cuts itself behind `limit` bytes, of both directions together. Its threads end with the
    process."""

    def __init__(self, port: int, limit: int) -> None:
        self._to, self._left = port, limit
        self._is_up, self._changing = True, threading.Lock()
        self._ends = list[socket.socket]()
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        self.was_cut = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def mend(self) -> None:
        self._is_up = True

    def _accept(self) -> None:
        while True:
            here, _ = self._server.accept()
            if not self._is_up:
                here.close()
                continue
            try:
                there = socket.create_connection(("127.0.0.1", self._to))
            except OSError:
                here.close()
                continue
            self._ends += [here, there]
            for one, other in ((here, there), (there, here)):
                threading.Thread(target=self._pass_on, args=(one, other), daemon=True).start()

    def _pass_on(self, one: socket.socket, other: socket.socket) -> None:
        with suppress(OSError):
            while granted := self._granted(data := one.recv(BLOCK)):
                other.sendall(data[:granted])
        for end in (one, other):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _granted(self, data: bytes) -> int:
        """How many of these bytes get through; the last one before the limit cuts the line."""
        with self._changing:
            if self.was_cut.is_set():
                return len(data) if self._is_up else 0
            granted = min(len(data), self._left)
            self._left -= granted
            if not self._left:
                self._cut()
            return granted

    def _cut(self) -> None:
        """Nothing gets through from now on, until `mend`."""
        self._is_up = False
        for end in self._ends:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        self.was_cut.set()
