"""Hosts at one bad cable, two or more: what goes through it comes later, in another order, twice, or not at all.

Each host is a network namespace whose interface is a TAP device, and this process carries each frame to all others.
"""

from __future__ import annotations

import fcntl
import heapq
import math
import os
import random
import select
import shutil
import struct
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from tests.net.hosts import Place
from tests.net.namespaces import INTERFACE, run_ip

_TUNSETIFF = 0x400454CA
_TAP, _NO_HEADER = 0x0002, 0x1000
_LARGEST_FRAME = 65536


@dataclass(frozen=True)
class Faults:
    """What happens to a frame."""

    delay_s: tuple[float, float] = (0.0, 0.0)
    """The least and the most; anew for each frame, so that they overtake each other."""
    lost: float = 0.0
    twice: float = 0.0
    damage: Callable[[bytes, random.Random], bytes] | None = None
    """What arrives of a frame."""
    bits_per_second: float = math.inf
    """What each direction carries."""
    queue: int = 0
    """Bytes that wait at the slow place of the cable at most; a frame that finds more is lost."""


class Cable:
    """Namespaces 0, 1 and so on, and the cable between them. `close` removes all of it."""

    def __init__(self, faults: Faults, seed: int = 1, ends: int = 2) -> None:
        self._prefix, self._faults, self._random = f"rtmw-{os.getpid()}-end", faults, random.Random(seed)
        self._made, self._ends = list[str](), list[int]()
        self._free_at = [0.0] * ends
        self.cut = set[tuple[int, int]]()
        """What goes from the first of two ends to the second is lost."""
        self._closing = threading.Event()
        self._carrier = threading.Thread(target=self._carry, daemon=True)
        self.carried = 0
        """Frames that went in."""
        self.loaded = [0] * ends
        """Bytes that each end has brought through the slow place."""
        try:
            for end in range(ends):
                self._plug(end)
        except OSError:
            self.close()
            raise
        self._carrier.start()

    def _plug(self, end: int) -> None:
        space, name = f"{self._prefix}{end}", f"rtmw{os.getpid() % 100000}e{end}"
        run_ip("netns", "add", space)
        self._made.append(space)
        device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        self._ends.append(device)
        fcntl.ioctl(device, _TUNSETIFF, struct.pack("16sH22x", name.encode(), _TAP | _NO_HEADER))
        run_ip("link", "set", name, "netns", space, "name", INTERFACE)
        run_ip("-n", space, "link", "set", "lo", "up")
        run_ip("-n", space, "addr", "add", f"{self.address(end)}/24", "dev", INTERFACE)
        run_ip("-n", space, "link", "set", INTERFACE, "up")

    @staticmethod
    def address(end: int) -> str:
        return f"10.78.0.{end + 1}"

    def place(self, end: int) -> Place:
        """Where the node of a host runs."""
        return Place(("ip", "netns", "exec", f"{self._prefix}{end}"), ("--interface", INTERFACE))

    def _carry(self) -> None:
        waiting: list[tuple[float, int, int, bytes]] = []
        while not self._closing.is_set():
            pause = min(0.1, max(0.0, waiting[0][0] - time.monotonic())) if waiting else 0.1
            for device in select.select(self._ends, [], [], pause)[0]:
                self._take_in(self._ends.index(device), waiting)
            while waiting and waiting[0][0] <= time.monotonic():
                _, _, to, frame = heapq.heappop(waiting)
                with suppress(OSError):  # its queue is full, or the host is being removed: lost, as on any cable
                    os.write(self._ends[to], frame)

    def _take_in(self, end: int, waiting: list[tuple[float, int, int, bytes]]) -> None:
        with suppress(BlockingIOError):
            frame = os.read(self._ends[end], _LARGEST_FRAME)
            leaves = self._leaves(end, len(frame))
            if leaves is None:
                return
            for to in range(len(self._ends)):
                if to != end and (end, to) not in self.cut:
                    self._pass_on(leaves, frame, to, waiting)

    def _pass_on(self, leaves: float, frame: bytes, to: int, waiting: list[tuple[float, int, int, bytes]]) -> None:
        if self._random.random() < self._faults.lost:
            return
        if self._faults.damage is not None:
            frame = self._faults.damage(frame, self._random)
        for _ in range(1 + (self._random.random() < self._faults.twice)):
            self.carried += 1
            heapq.heappush(waiting, (leaves + self._random.uniform(*self._faults.delay_s), self.carried, to, frame))

    def _leaves(self, end: int, size: int) -> float | None:
        """When a frame is through the slow place; None: it has found the queue full."""
        now, rate = time.monotonic(), self._faults.bits_per_second / 8
        begins = max(now, self._free_at[end])
        if begins > now and (begins - now) * rate + size > self._faults.queue:
            return None
        self._free_at[end] = begins + size / rate
        self.loaded[end] += size
        return self._free_at[end]

    def close(self) -> None:
        self._closing.set()
        if self._carrier.is_alive():
            self._carrier.join()
        while self._ends:
            os.close(self._ends.pop())
        while self._made:
            with suppress(OSError):
                run_ip("netns", "del", self._made.pop())


@lru_cache
def obstacle() -> str | None:
    """Why there is no cable on this machine; None: there is."""
    if shutil.which("ip") is None:
        return "network namespaces need `ip` (Debian: iproute2)"
    if not Path("/dev/net/tun").exists():
        return "TAP devices need /dev/net/tun"
    try:
        Cable(Faults()).close()
    except OSError as error:
        return f"a cable cannot be made here: {error}"
    return None
