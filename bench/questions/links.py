"""What does a message cost between two hosts, by link, by DDS and by other systems, in four sizes?

A play asks one system all of it, so a column of the table is one system. The hosts are two domains of this machine with
a node each, which meet over loopback: by DDS, by a link without TLS (`insecure = true`), or by one with keys and rules,
whose TLS comes from the system's OpenSSL or from a newer one.
zenoh goes from program to program, peer to peer, without its shared memory, over TCP or TLS with verified certificates
of both sides. NATS has a server on each host, one a leaf of the other, over TCP or TLS with the same certificates.

For each size, both programs sleep until a message comes:
- half a round trip: the message is written in full and read in full.
- one way, flat out, nothing lost: what one message takes, from the first that arrives to the last.
- processor time of a message: what all processes together took meanwhile, and what nodes or servers took of it.
1,024 messages of 1 MiB are a GiB, so that 1,000 µs of processor time a message are 1.02 s a GiB.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from bench.cases import RTMW, Case, Figures
from bench.numbers import spread
from bench.peers import LINK_TCP, LINK_TLS, LINK_TLS_NEWER, NATS, NATS_TLS, ZENOH_TCP, ZENOH_TLS
from bench.pingpong import STOP, Line, close_line, follow, greet, met, next_batch, open_line, ping_wait, pong_wait
from bench.role import Role
from bench.siblings import processor_s
from bench.stage import Part, Stage, Way

TITLE = "From host to host by links, nodes over DDS and others"
UNIT = "µs"
ROUNDS = 3
WAYS = (RTMW, LINK_TCP, LINK_TLS, LINK_TLS_NEWER, ZENOH_TCP, ZENOH_TLS, NATS, NATS_TLS)
SIZES = {"64 B": 64, "1 KiB": 1 << 10, "64 KiB": 1 << 16, "1 MiB": 1 << 20}
BATCH = {"64 B": 20, "1 KiB": 20, "64 KiB": 10, "1 MiB": 5}
LARGEST = "1 MiB"
WHOLE, CARRYING = f"processor time, {LARGEST}", f"of it in nodes or servers, {LARGEST}"
FLOW = 0
"""The stamp of a flow's messages."""


def trip(size: str) -> str:
    return f"half round trip, {size}"


def one_way(size: str) -> str:
    return f"one way, {size}"


SYSTEMS = (*map(trip, SIZES), *map(one_way, SIZES), WHOLE, CARRYING)
"""Rows of the table: one play answers all."""


def cases(quick: bool) -> Sequence[Case]:
    options = {"seconds": 0.3 if quick else 0.5, "waits": True, "spin": 0.0, "whole": True, "reliable": True}
    return [Case(way, (way,), options) for way in WAYS]


def measure(stage: Stage, system: str, case: Case) -> dict[str, Figures]:
    return asked(stage, "links", system, case, Way.between(system))


def asked(stage: Stage, question: str, system: str, case: Case, way: Way) -> dict[str, Figures]:
    parts = [Part(name, case.options) for name in ("near", "far")]
    trips, flows = stage.play(question, system, parts, way=way)
    found: dict[str, Figures] = {}
    for name, percentiles in trips.items():
        found[trip(name)] = Figures(percentiles["p50"], percentiles)
    for name, flow in flows.items():
        lost = trips[name]["sent"] - flow["seen"]
        rate = f"{SIZES[name] / flow['us'] * 1e6 / 2**20:,.1f} MiB/s" + (f", {lost} lost" if lost else "")
        found[one_way(name)] = Figures(flow["us"], note=rate)
    found[WHOLE] = Figures(flows[LARGEST]["all_us"])
    if flows[LARGEST]["carrying_us"]:
        found[CARRYING] = Figures(flows[LARGEST]["carrying_us"])
    return found


def opened(role: Role, name: str, near: bool) -> Line:
    """Both directions for messages of one size."""
    size = SIZES[name]
    return open_line(replace(role, name=f"{role.name}of{size}", options=role.options | {"size": size}), near)


def near(role: Role) -> dict[str, dict[str, float]]:
    """Percentiles of half round trips in µs, and how many messages of the flow were `sent`, by size."""
    found: dict[str, dict[str, float]] = {}
    for name in SIZES:
        line = opened(role, name, near=True)
        greet(line)
        found[name] = round_trips(line, BATCH[name], role.options["seconds"])
        found[name]["sent"] = pour(line, role.options["seconds"])
        close_line(line)
    role.tell("over")
    return found


def round_trips(line: Line, count: int, seconds: float) -> dict[str, float]:
    arguments = (line.send, line.body(0), line.back.receive, line.read, count)
    next_batch(line)
    ping_wait(*arguments)  # warm-up
    times, end = list[float](), time.monotonic() + seconds
    while not times or time.monotonic() < end:
        next_batch(line)
        times += ping_wait(*arguments)
    close_line(line)
    return spread(times)


def pour(line: Line, seconds: float) -> int:
    sent, body, end = 0, line.body(FLOW), time.monotonic() + seconds
    while time.monotonic() < end:
        line.send(body)
        sent += 1
    return sent


def far(role: Role) -> dict[str, dict[str, Any]]:
    """What came of each flow, by size."""
    found: dict[str, dict[str, Any]] = {}
    for name in SIZES:
        line = opened(role, name, near=False)
        met(line)
        while follow(line):
            pong_wait(line.send, line.body(0), line.back.receive, line.read, BATCH[name])
        found[name] = drained(line)
    role.hear()  # what is still on its way would be lost if this process ended
    return found


def drained(line: Line) -> dict[str, Any]:
    """µs a message that came behind the first one: of the clock, of all processors, and of those that carried it."""
    receive, read, seen = line.back.receive, line.back.read, 0
    read(receive())
    before, begun = processor_s(), time.monotonic()
    while read(receive())[0] != STOP:
        seen += 1
    spans = (time.monotonic() - begun, *(now - then for now, then in zip(processor_s(), before, strict=True)))
    line.say(STOP)
    line.back.take()  # systems with an event loop send while they are called
    names = ("us", "all_us", "carrying_us")
    return {"seen": seen + 1} | {name: 1e6 * span / max(1, seen) for name, span in zip(names, spans, strict=True)}
