"""A crowd of processes that publish and take as fast as they can, to kill or stop at any instruction.

`serve` runs in a child of the test. It forks workers and signals them on command, so that none is started from cold
and only its own children are ever signalled. Every message carries its checksum, and every worker checks what it takes.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import zlib
from collections import deque

import rtmw
from rtmw import Reliability
from tests.bus import lease_of
from tests.child import Child, Spawn

TOPICS = ("crowd/1", "crowd/2")
SIZES = (0, 20, 100, 150, 700, 5_000, 20_000)
LONGEST = 60
"""Seconds after which a worker ends whatever happens."""


def message(size: int) -> bytes:
    payload = os.urandom(size)
    return zlib.crc32(payload).to_bytes(4, "little") + payload


def is_whole(data: memoryview) -> bool:
    return zlib.crc32(data[4:]) == int.from_bytes(data[:4], "little")


def publish(choice: random.Random, reliability: Reliability) -> None:
    """For ever: publish, publish many, and fill loans, some of which are dropped."""
    publishers = [rtmw.Publisher(name, reliability=reliability, max_blocking=0.01) for name in TOPICS]
    while True:
        publisher, data = choice.choice(publishers), message(choice.choice(SIZES))
        match choice.randrange(4):
            case 0:
                publisher.publish(data, priority=choice.randrange(8), lifetime=choice.choice((None, 0.001, 5.0)))
            case 1:
                publisher.publish_many([data] * 5)
            case 2:
                lend(publisher, data, choice.random() < 0.5)
            case _:
                publishers.remove(publisher)
                publisher.close()
                publishers.append(rtmw.Publisher(publisher.topic, reliability=reliability, max_blocking=0.01))


def lend(publisher: rtmw.Publisher[bytes], data: bytes, keep: bool) -> None:
    try:
        with publisher.loan(len(data)) as loan:
            with loan.data as view:
                view[:] = data
            if keep:
                loan.publish()
    except rtmw.PoolExhausted:
        pass


def subscribe(choice: random.Random, reliability: Reliability) -> None:
    """For ever: take, check, and hold a few; says so and ends when a message is not what was published."""
    kept: deque[rtmw.Sample[bytes]] = deque(maxlen=5)
    while True:
        subscriber = rtmw.Subscriber(
            choice.choice(TOPICS),
            reliability=reliability,
            depth=16,
            history=choice.choice((0, 5)),
            lease=lease_of(reliability, 0.05),
        )
        last = [0] * 8
        for _ in range(50):
            try:
                sample = subscriber.receive(timeout=0.05)
            except (TimeoutError, rtmw.LeaseExpired):
                continue
            if not is_whole(sample.data) or sample.sequence <= last[sample.priority]:
                os.write(2, f"damaged: {sample.topic} {sample.sequence} after {last[sample.priority]}\n".encode())
                os._exit(1)
            last[sample.priority] = sample.sequence
            kept.append(sample)
        subscriber.close()


def work(seed: int) -> None:
    choice = random.Random(seed)
    signal.alarm(LONGEST)
    job = publish if seed % 2 else subscribe
    job(choice, choice.choice(list(Reliability)))


def serve() -> None:
    """Commands, one a line: `start SEED` answers the pid; `kill PID`, `stop PID`, `cont PID` answer its last status."""
    workers: set[int] = set()
    try:
        for line in sys.stdin:
            command, number = line.split()
            print(start(int(number), workers) if command == "start" else send(command, int(number), workers))
    finally:
        for pid in list(workers):
            send("kill", pid, workers)


def start(seed: int, workers: set[int]) -> int:
    pid = os.fork()
    if pid == 0:
        try:
            work(seed)
        finally:
            os._exit(70)
    workers.add(pid)
    return pid


def send(command: str, pid: int, workers: set[int]) -> int:
    """Its exit status if it had ended by itself already, else minus the signal."""
    number = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP, "cont": signal.SIGCONT}[command]
    assert pid in workers
    os.kill(pid, number)
    if command == "cont":
        return -number
    _, status = os.waitpid(pid, os.WUNTRACED)
    if os.WIFSTOPPED(status):
        return -os.WSTOPSIG(status)
    workers.remove(pid)
    return os.waitstatus_to_exitcode(status)


class Crowd:
    """What a test does with the child that serves."""

    def __init__(self, spawn: Spawn) -> None:
        self._child: Child = spawn("from tests.system.crowd import serve; serve()")
        self.pids: list[int] = []
        self._seed = 0

    def _ask(self, command: str, number: int) -> int:
        self._child.send(f"{command} {number}")
        return int(self._child.line())

    def start(self) -> int:
        """Another worker: a publisher and a subscriber in turn, of each reliability."""
        self._seed += 1
        self.pids.append(self._ask("start", self._seed))
        return self.pids[-1]

    def kill(self, pid: int) -> None:
        self.pids.remove(pid)
        assert self._ask("kill", pid) == -signal.SIGKILL, "it had ended by itself"

    def stop(self, pid: int) -> None:
        assert self._ask("stop", pid) == -signal.SIGSTOP, "it had ended by itself"

    def cont(self, pid: int) -> None:
        self._ask("cont", pid)

    def end(self) -> None:
        """Kill all that are left."""
        for pid in list(self.pids):
            self.kill(pid)
        self._child.kill()
