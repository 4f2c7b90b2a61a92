"""How many messages a second go from the bus into a file? One process publishes flat out, RELIABLE, one records.

rtmw: a Recorder that asks for RELIABLE, with a buffer so small that it goes as fast as what writes. mcap: a subscriber
that hands what it takes, 256 messages at a time, to the Python writer of the MCAP project. Both write chunks of 1 MiB
with lz4. Large messages are noise, and go into memory (/dev/shm), so that it is not the disk that is measured, beside
`write`: the same bytes, written to a file there by a program that does nothing else. The rate is the median over
windows of 50 ms, in thousand messages.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from bench.cases import MCAP, RTMW, WRITE, Case, Figures
from bench.role import Role
from bench.stage import Part, Stage

TITLE = "Recording, from the bus to a file"
UNIT = "thousand messages/s"
WINDOW_S = 0.05
TAKEN = 256
BUFFER = 16 << 20
MEMORY = "/dev/shm"
MOST = 256 << 20
"""Bytes of a file in memory; then the next one begins, and the one before it goes."""


def cases(quick: bool) -> Sequence[Case]:
    seconds = 1.0 if quick else 2.0
    return [
        Case("64 B", (RTMW, MCAP), {"size": 64, "seconds": seconds, "batch": 256}),
        Case("1 MiB", (RTMW, WRITE), {"size": 1 << 20, "seconds": seconds / 2, "batch": 1, "folder": MEMORY}),
    ]


def measure(stage: Stage, system: str, case: Case) -> dict[str, Figures]:
    if system == WRITE:
        return {system: Figures(stage.play("recording", system, [Part("writes", case.options)])[0])}
    sink = "recorder" if system == RTMW else "by_hand"
    lost, rate = stage.play("recording", system, [Part("source", case.options), Part(sink, case.options)])
    return {system: Figures(rate, note=f"{lost} refused" if lost else "")}


def body(role: Role) -> bytes:
    size = role.options["size"]
    return os.urandom(size) if size > 1000 else bytes(range(size))


def folder(role: Role) -> tempfile.TemporaryDirectory[str]:
    """Where files go; it is gone at the end."""
    return tempfile.TemporaryDirectory(dir=role.options.get("folder", role.place), prefix="rtmw-bench-")


def source(role: Role) -> int:
    """How many were refused, for the bus was full too long."""
    import rtmw

    with (
        rtmw.Domain(role.domain) as domain,
        rtmw.Publisher(role.name, domain=domain, reliability=rtmw.Reliability.RELIABLE, max_blocking=5.0) as publisher,
    ):
        messages, refused = [body(role)] * role.options["batch"], 0
        role.tell("there")
        role.hear()
        end = time.monotonic() + role.options["seconds"]
        while time.monotonic() < end:
            refused += len(messages) - publisher.publish_many(messages)
        role.tell("over")
        return refused


def recorder(role: Role) -> float:
    import rtmw

    role.hear()
    options: Any = {"reliable": True, "buffer_bytes": BUFFER, "sync_every": None, "split_bytes": MOST, "keep": 1}
    with (
        folder(role) as place,
        rtmw.Domain(role.domain) as domain,
        rtmw.Recorder(role.name, Path(place, "run"), domain=domain, **options) as recorder,
    ):
        role.tell("go")
        return rate_of(lambda: recorder.stats().messages, role.options["seconds"])


def by_hand(role: Role) -> float:
    """What a program does that records without a recorder."""
    from mcap.writer import CompressionType, Writer

    import rtmw

    role.hear()
    seen, marks = 0, list[tuple[float, int]]()
    with (
        folder(role) as place,
        rtmw.Domain(role.domain) as domain,
        rtmw.Subscriber(role.name, domain=domain, reliability=rtmw.Reliability.RELIABLE, depth=1024) as subscriber,
        Path(place, "run.mcap").open("wb") as file,
    ):
        writer = Writer(file, chunk_size=1 << 20, compression=CompressionType.LZ4)
        writer.start()
        channel = writer.register_channel(role.name, "application/octet-stream", 0)
        role.tell("go")
        end = time.monotonic() + role.options["seconds"]
        while (now := time.monotonic()) < end:
            seen += take_in(writer, channel, subscriber)
            if not marks or now - marks[-1][0] >= WINDOW_S:
                marks.append((now, seen))
        writer.finish()  # type: ignore[no-untyped-call] # of the mcap package
    return rate(marks)


def take_in(writer: Any, channel: int, subscriber: Any) -> int:
    samples = subscriber.take_many(TAKEN)
    for sample in samples:
        writer.add_message(channel, time.time_ns(), bytes(sample), sample.source_time_ns, sample.sequence & 0xFFFFFFFF)
    return len(samples)


def writes(role: Role) -> float:
    """The file system alone, in thousand writes a second."""
    data, marks, written = body(role), list[tuple[float, int]](), 0
    with folder(role) as place, Path(place, "plain").open("wb", buffering=0) as file:
        end = time.monotonic() + role.options["seconds"]
        while (now := time.monotonic()) < end:
            file.write(data)
            written += 1
            if file.tell() > MOST:
                file.seek(0)
                file.truncate()
            if not marks or now - marks[-1][0] >= WINDOW_S:
                marks.append((now, written))
    return rate(marks)


def rate_of(count: Callable[[], int], seconds: float) -> float:
    """Of a counter that another thread moves."""
    marks: list[tuple[float, int]] = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        marks.append((time.monotonic(), count()))
        time.sleep(WINDOW_S)
    return rate(marks)


def rate(marks: list[tuple[float, int]]) -> float:
    """Thousands a second in the median window; the first one only warms up."""
    pairs = list(pairwise(marks[1:]))
    return median((later[1] - sooner[1]) / (later[0] - sooner[0]) for sooner, later in pairs) / 1000 if pairs else 0.0
