"""Inputs for link_fuzz.c: what real lines and golden files carry. `python -m tests.torture.wire.link_corpus FOLDER`.

An input is a byte 0, and frames, each behind a byte that says over which connection: 1 the urgent one, 0 the bulk one.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterator
from pathlib import Path

import rtmw
from rtmw import Reliability
from tests.conftest import free_number
from tests.net.link.ends import PATIENCE, End, Ends, Wire, wait_until
from tests.net.link.make_golden import GOLDEN

URGENT, BULK = b"\1", b"\0"
SIZES = (0, 20, 3000, 20_000, 70_000)
LONGEST = 60_000


def frames_of(data: bytes) -> Iterator[bytes]:
    """Whole frames."""
    while len(data) >= 8 and len(data) >= (length := struct.unpack_from("<H", data)[0]):
        yield data[:length]
        data = data[length:]


def inputs_of(urgent: bytes, bulk: bytes) -> Iterator[bytes]:
    """What both connections carried in one direction, first the one and then the other, and in turn."""
    first = [URGENT + one for one in frames_of(urgent)]
    second = [BULK + one for one in frames_of(bulk)]
    yield b"\0" + b"".join(first + second)[:LONGEST]
    turns = [one for pair in zip(first, second, strict=False) for one in pair]
    yield b"\0" + b"".join(turns)[:LONGEST]


def carried(here: rtmw.Domain, there: rtmw.Domain) -> Iterator[bytes]:
    """What a line says to its peer that has the routes of link_fuzz.c: 1 and 2 come in, 4 and 5 go out."""
    ends = Ends(End(here), End(there))
    ends.route("one")
    ends.route("two", Reliability.TIMELY)
    ends.route("three")
    ends.route("four", back=True)
    ends.route("five", Reliability.TIMELY, back=True)
    for turn in range(2):  # the second one resumes
        urgent, bulk = Wire(), Wire()
        ends.join(urgent, bulk)
        ends.up(turn + 1)
        ends.here.line.say(b"a control")
        with (
            rtmw.Subscriber("one", domain=there, reliability=Reliability.RELIABLE, depth=100) as subscriber,
            rtmw.Publisher("one", domain=here, reliability=Reliability.RELIABLE) as publisher,
            rtmw.Publisher("two", domain=here, reliability=Reliability.TIMELY) as other,
            rtmw.Publisher("four", domain=there, reliability=Reliability.RELIABLE) as back,
        ):
            for number, size in enumerate(SIZES * 2):
                assert publisher.publish(bytes(size), priority=number % 8, lifetime=60.0 if number % 2 else None)
                other.publish(bytes(size // 10), priority=number % 5)
                back.publish(b"what is acknowledged")
            for _ in SIZES * 2:
                subscriber.receive(timeout=PATIENCE)
        ends.there.await_news("control", turn + 1)
        wait_until(ends.routes[0].delivered)
        yield from inputs_of(bytes(urgent.seen[0]), bytes(bulk.seen[0]))
        ends.here.line.cut("the turn is over")
        ends.here.await_news("down", turn + 1)
        ends.there.await_news("down", turn + 1)
    ends.close()


def write(folder: Path) -> int:
    """How many inputs were written."""
    numbers = free_number(), free_number()
    inputs = list(inputs_of((GOLDEN / "urgent").read_bytes(), (GOLDEN / "bulk").read_bytes()))
    try:
        with rtmw.Domain(numbers[0], pool="8M") as here, rtmw.Domain(numbers[1], pool="8M") as there:
            inputs += carried(here, there)
    finally:
        for number in numbers:
            rtmw.Domain.unlink(number)
    folder.mkdir(parents=True, exist_ok=True)
    for number, data in enumerate(inputs):
        (folder / f"carried_{number}").write_bytes(data)
    return len(inputs)


if __name__ == "__main__":
    print(write(Path(sys.argv[1])), "inputs")
