"""Frames on the topics that all programs with transfers share, as any program of the domain may send them.

A core and a sender with an inbox go on meanwhile: each letter comes once, in order, and later programs join.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any, Final

import psutil

import rtmw
from rtmw import Reliability
from rtmw.publisher import OwnPublisher
from rtmw.transfer import frames
from rtmw.transfer.address import Address, Life
from rtmw.transfer.frames import CORE_QUEUE, CORE_TOPIC, EVENTS_TOPIC, Barrier, Frame, pack_frame, queue_of
from rtmw.transfer.header import Delivery, Header, Kind
from rtmw.transfer.messages import Core, Failed, Move, Run
from rtmw.transfer.records import Spooled, TransferId, TransferState
from tests.conftest import free_number
from tests.torture.wire.types_bounds import Harm, main
from tests.transfer.core_process import CoreProcess

PATIENCE: Final = 20.0
MOST_MEMORY: Final = 128 << 20
"""Bytes by which the core may grow."""
NUMBERS: Final = (0, 1, 2, 5, 255, 1 << 16, 1 << 31, (1 << 63) - 1, (1 << 64) - 1)
TEXTS: Final = ("", "other", "queues", "a@b", "@", "\x1b[2J", "\u202e", "../../etc", "x" * 200, "x" * 60_000, "{}")
"""None of them is the service of the inbox: a program of this domain may be its receiver as well."""


def attack(seed: int, seconds: float) -> str:
    counts, domain = Counter[str](), free_number(with_dds=False)
    with tempfile.TemporaryDirectory() as folder, rtmw.Domain(domain, pool="32M"):
        core = CoreProcess(domain, Path(folder))
        core.start()
        core.wait_until_ready()
        program = f"from tests.torture.wire.transfer_topics import pester; pester({domain}, {seed})"
        pipe = subprocess.PIPE
        hostile = subprocess.Popen([sys.executable, "-c", program], stdout=pipe, stdin=pipe, text=True)
        try:
            with rtmw.Sender("gauge", domain=domain) as sender, rtmw.Inbox("ingest", domain=domain) as inbox:
                before = _memory(core)
                assert hostile.stdin is not None
                hostile.stdin.write(f"{seconds}\n")
                hostile.stdin.flush()
                while hostile.poll() is None:
                    _exchange(sender, inbox, counts)
                    core.log()
                    if not core.alive:
                        raise Harm(f"the core ended: {core.said!r}")
                counts["frames"] = int(hostile.communicate()[0])
                _exchange(sender, inbox, counts)
            with rtmw.Sender("later", domain=domain) as sender, rtmw.Inbox("ingest", domain=domain) as inbox:
                _exchange(sender, inbox, counts)
            if _memory(core) - before > MOST_MEMORY:
                raise Harm(f"the core has {_memory(core) - before} bytes more")
        finally:
            hostile.kill()
            hostile.communicate()
            core.end()
            rtmw.Domain.unlink(domain)
    return ", ".join(f"{count} {what}" for what, count in counts.items())


def _memory(core: CoreProcess) -> int:
    return int(psutil.Process(core.process.pid).memory_info().rss)


def _exchange(sender: rtmw.Sender, inbox: rtmw.Inbox, counts: Counter[str]) -> None:
    """Ten letters, each of which comes once and in order; what the hostile program sends as itself is passed over."""
    mine = [b"%d" % (counts["letters"] + number) for number in range(10)]
    came: list[bytes] = []
    until = time.monotonic() + PATIENCE
    try:
        for body in mine:
            sender.send("ingest", body)
        while len(came) < len(mine) and time.monotonic() < until:
            letter = inbox.take(timeout=0.5)
            if letter is not None:
                if letter.sender == sender.name:
                    came.append(letter.body)
                letter.consume()
    except rtmw.RtmwError as error:
        raise Harm(f"after {counts['letters']} letters: {error}") from error
    if came != mine:
        raise Harm(f"of {mine} came {came}")
    counts["letters"] += len(mine)


# ---- the hostile program ----


def pester(domain: int, seed: int) -> None:
    """Send frames for as many seconds as standard input says, and say how many there were."""
    chance, sent = Random(seed), 0
    topics = [CORE_QUEUE] * 6 + [CORE_TOPIC, EVENTS_TOPIC] + [queue_of(slot) for slot in range(6)]
    reliable = Reliability.RELIABLE
    out = [
        OwnPublisher(topic, domain=domain, reliability=reliable, history=int(topic == CORE_TOPIC), max_blocking=0.01)
        for topic in topics
    ]
    until = time.monotonic() + float(sys.stdin.readline())
    with rtmw.Sender("hostile", domain=domain) as sender:  # a member, too, in whose name it may speak
        while time.monotonic() < until:
            with suppress(ValueError, OverflowError):  # no frame can say this
                sent += chance.choice(out).publish(_frame(chance, sender._life))
            time.sleep(0.0005)  # a full queue is another attack
        print(sent, flush=True)
        os._exit(0)  # what it said of itself is not taken back


def _frame(chance: Random, life: Life) -> bytes:
    kind: Any
    kind, form = chance.choice([*frames._KINDS.values()])
    if kind is Core or chance.random() < 0.3:  # who announces itself, and lives, is taken for a core
        pids = (1, chance.choice(NUMBERS[1:6]), *([life.pid] if kind is not Core else []))
        life = Life(chance.choice(pids), chance.choice(NUMBERS), chance.randrange(9))
    slot = chance.choice((0, 1, 2, 3, 126, 127, 65535))
    message = kind(*[_field(chance, code) for code in form])
    data = bytearray(pack_frame(Frame(life, slot, chance.choice(NUMBERS), message)))
    for _ in range(chance.choice((0, 0, 0, 1, 3))):
        data[chance.randrange(len(data))] = chance.randrange(256)
    return bytes(data[: chance.randrange(len(data))] if chance.random() < 0.05 else data)


def _field(chance: Random, code: str) -> Any:
    """By its letter in the table of frames."""
    number, text = chance.choice(NUMBERS), chance.choice(TEXTS)
    id = TransferId(chance.choice(("plant", "", "x")), number, chance.choice(NUMBERS))
    match code:
        case "1" | "2" | "4" | "8":
            return number % (1 << 8 * int(code)) if chance.random() < 0.5 else chance.randrange(6)
        case "t" | "w":
            return text
        case "h":
            return _header(chance)
        case "i":
            return id
        case "b":
            return chance.choice((b"", b"body", Spooled(text, number)))
        case "d" | "o":
            return chance.choice((b"", b"x", b"{}", bytes(32), bytes(1000)))
        case "N":
            return tuple(chance.choices(NUMBERS, k=chance.randrange(5)))
        case "R":
            header = _header(chance)
            return tuple(
                Run(header, (bytes(min(header.length, 1000)),) * chance.randrange(1, 4))
                for _ in range(chance.randrange(1, 3))
            )
        case "L":
            return ((number, 1, b"letter"),) * chance.randrange(1, 4)
        case "I":
            return (id,) * chance.randrange(4)
        case "M":
            return tuple(
                Move((id,) * chance.randrange(1, 4), chance.choice((None, *TransferState)), text)
                for _ in range(chance.randrange(4))
            )
        case "F":
            return tuple((number % 7, Failed(chance.randrange(4), text)) for _ in range(chance.randrange(4)))
    raise AssertionError(code)


def _header(chance: Random) -> Header:
    to = Address.parse(chance.choice(("ingest", "other", "ingest@nowhere", "other@plant")))
    return Header(
        to,
        chance.choice([*Kind]),
        chance.choice((0, 1, 5, 1 << 40)),
        delivery=chance.choice([*Delivery]),
        priority=chance.randrange(8),
    )


def _no_barrier() -> None:
    """What is no frame ends the thread that hears it."""
    Barrier.frame_of = lambda self, data, pid: frames.unpack_frame(data)  # type: ignore[method-assign]


MUTANTS: Final[dict[str, Callable[[], None]]] = {"no barrier": _no_barrier}
"""A program without what keeps harm out: the attack must see it."""

if __name__ == "__main__":
    main(attack, MUTANTS)
