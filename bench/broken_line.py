"""A line between two nodes on loopback that can be cut: whoever connects is passed on, as long as it is up."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress

BLOCK = 1 << 18


class BrokenLine:
    """To a port of loopback. Its threads end with the process."""

    def __init__(self, port: int) -> None:
        self._to, self.is_up = port, True
        self._ends = list[socket.socket]()
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """Nothing gets through from now on, until `mend`."""
        self.is_up = False
        for end in self._ends:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def mend(self) -> None:
        self.is_up = True

    def _accept(self) -> None:
        while True:
            here, _ = self._server.accept()
            if not self.is_up:
                here.close()
                continue
            try:
                there = socket.create_connection(("127.0.0.1", self._to))
            except OSError:
                here.close()
                continue
            self._ends += [here, there]
            for one, other in ((here, there), (there, here)):
                threading.Thread(target=_pass_on, args=(one, other), daemon=True).start()


def _pass_on(one: socket.socket, other: socket.socket) -> None:
    with suppress(OSError):
        while data := one.recv(BLOCK):
            other.sendall(data)
    for end in (one, other):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
