"""A client of a node's links, made of docs/formats/link-format.md and link-control.md alone, that need not be honest.

It connects to a node without keys, over loopback, and has no bus behind it. A thread answers pings and takes controls.
"""

from __future__ import annotations

import base64
import json
import os
import random
import socket
import struct
import threading
import time
import zlib
from contextlib import suppress
from typing import Any

from tests.net.link.format import HEADER, ack, control, frame

PATIENCE = 30.0
AT_ONCE = 100
"""Controls that are written together."""
SAY, RESUME, ACK, CONTROL, PING, PONG, BYE = 1, 2, 3, 4, 8, 9, 10


def described(document: dict[str, Any]) -> str:
    """The description of a type."""
    return base64.b64encode(zlib.compress(json.dumps(document).encode(), 9)).decode()


def numpy_type(name: str, members: int = 1) -> str:
    rows = [[f"{name}{number}", "<f8"] for number in range(members)]
    return described({"kind": "numpy", "name": f"numpy:{{{name}}}", "dtype": rows, "shape": []})


BYTES = described({"kind": "bytes", "name": "bytes"})


class Client:
    """Until `close`."""

    def __init__(self, port: int, reads: bool = True) -> None:
        """`reads`: False: it does all of the greeting, and never reads again."""
        node = os.urandom(16).hex()
        hello = {
            "is": "hello", "node": node, "incarnation": time.time_ns(), "lowest": 1, "highest": 1, "host": "client",
            "pid": 1, "domain": 1, "region": f"client {node}", "site": 0, "hops": 1,
        }  # fmt: skip
        self.heard: list[dict[str, Any]] = []
        self.why_over = ""
        self.acknowledged = self.said = self._opened = 0
        self._may_say = 256
        self._sending, self._left = threading.Lock(), [b"", b""]
        self._both = [socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) for _ in range(2)]
        attempt = random.getrandbits(60)
        for channel, part in enumerate(("urgent", "bulk")):
            self._send(frame(SAY, json.dumps(hello).encode()), channel)
            assert self._next(channel)[0] == SAY
            join = {"is": "join", "attempt": attempt, "part": part, "line": 0}
            self._send(frame(SAY, json.dumps(join).encode()), channel)
        assert [self._next(channel)[0] for channel in range(2)] == [SAY, SAY]
        self._send(ack(0, 256, []) + frame(RESUME, b""))
        self._threads = [threading.Thread(target=self._read, args=(channel,), daemon=True) for channel in range(2)]
        for thread in self._threads if reads else ():
            thread.start()

    def close(self) -> None:
        for one in self._both:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            if thread.ident is not None:
                thread.join()
        for one in self._both:
            one.close()

    def say(self, *messages: dict[str, Any] | bytes, waits: bool = True) -> None:
        """Controls. `waits`: no more of them than the other end has room for."""
        until = time.monotonic() + PATIENCE
        for at in range(0, len(messages), AT_ONCE):
            part = messages[at : at + AT_ONCE]
            while waits and not self.why_over and self.said + len(part) > self._may_say:
                assert time.monotonic() < until, "controls are not taken"
                time.sleep(0.0005)
            data = b""
            for message in part:
                self.said += 1
                text = message if isinstance(message, bytes) else json.dumps(message).encode("utf-8", "surrogatepass")
                data += control(self.said, text)
            self._send(data)

    def open(self, topic: str, description: str = BYTES, **changes: Any) -> int:
        """Ask for a route; its number."""
        self._opened = int(changes.get("route", self._opened + 1))
        asked = {
            "is": "open", "route": self._opened, "topic": topic, "reliability": "RELIABLE", "priority": 3, "depth": 8,
            "history": 0, "lifetime_ns": 0, "description": description,
        }  # fmt: skip
        self.say({**asked, **changes})
        return self._opened

    def answer(self, route: int) -> dict[str, Any] | None:
        """The last answer about a route; None: there is none yet."""
        found = [one for one in self.heard if one["is"] == "answer" and one["route"] == route]
        return found[-1] if found else None

    def send(self, data: bytes, channel: int = 0) -> None:
        """Frames as they are. 0: on the urgent connection; 1: on the other one."""
        with suppress(OSError):
            self._send(data, channel)

    def _send(self, data: bytes, channel: int = 0) -> None:
        with self._sending:
            self._both[channel].sendall(data)

    def _next(self, channel: int) -> tuple[int, int, bytes]:
        """Kind, route and body of the next frame. Raises EOFError."""
        while True:
            data = self._left[channel]
            length, kind, _, route = HEADER.unpack_from(data) if len(data) >= HEADER.size else (0, 0, 0, 0)
            if length and len(data) >= length:
                self._left[channel] = data[length:]
                return kind, route, data[HEADER.size : length - 4]
            more = self._both[channel].recv(1 << 16)
            if not more:
                raise EOFError
            self._left[channel] += more

    def _read(self, channel: int) -> None:
        try:
            while True:
                self._take(channel, *self._next(channel))
        except (OSError, EOFError) as error:
            self.why_over = self.why_over or repr(error)

    def _acknowledge(self, route: int, room: int, number: int) -> None:
        if route == 0:
            self.acknowledged, self._may_say = number, number + room

    def _take(self, channel: int, kind: int, route: int, body: bytes) -> None:
        if kind == PING:
            self.send(frame(PONG, body + struct.pack("<Q", time.monotonic_ns())), channel)
        elif kind == ACK:
            self._acknowledge(route, *struct.unpack_from("<QQ", body))
        elif kind == CONTROL:
            self.heard.append(json.loads(body[8:]))
            self.send(ack(0, 256, [struct.unpack_from("<Q", body)[0]]))
        elif kind == BYE:
            self.why_over = body[2:].decode(errors="replace")
