"""How long does a message take to a coroutine? Half a round trip of 64 bytes, both sides in an event loop of uvloop.

rtmw: `await anext(subscriber)` and `publish`. `socketpair`: two programs without any middleware, each with a reader on
its end of one Unix stream socket, that receive 64 bytes and send 64: what the event loop and the kernel cost.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Sequence
from typing import Any

from bench.cases import RTMW, SOCKETPAIR, Case, Figures
from bench.numbers import spread
from bench.peers import read_stamp
from bench.role import Role
from bench.stage import Part, Stage

TITLE = "Half round trip, asyncio on uvloop"
UNIT = "µs"
BODY = bytes(64)
WARM = 100

clock = time.perf_counter_ns


def cases(quick: bool) -> Sequence[Case]:
    rounds = {"rounds": 4000 if quick else 10000}
    where = {"two processors": (0, 1), "one processor": (0, 0)}
    return [Case(name, (RTMW, SOCKETPAIR), {**rounds, "pinned": pinned}) for name, pinned in where.items()]


def measure(stage: Stage, system: str, case: Case) -> dict[str, Figures]:
    what = "socket" if system == SOCKETPAIR else "bus"
    pinned = [stage.processors[which] for which in case.options["pinned"]]
    parts = [Part(f"{what}_{side}", case.options, cpu) for side, cpu in zip(("near", "far"), pinned, strict=True)]
    found = spread(stage.play("asyncio_", system, parts)[0])
    return {system: Figures(found["p50"], found)}


def halves(times: list[int]) -> list[float]:
    """Half round trips in µs from the clock after each round trip, without the warm-up."""
    return [(after - before) / 2000 for before, after in zip(times[WARM:], times[WARM + 1 :], strict=False)]


def bus_near(role: Role) -> list[float]:
    return run(role, bus_ping(role))


def bus_far(role: Role) -> None:
    run(role, bus_pong(role))


def run(role: Role, what: Any) -> Any:
    import uvloop

    role.pin()
    return uvloop.run(what)


def endpoints(role: Role, out: str, back: str) -> tuple[Any, Any]:
    import rtmw

    subscriber = rtmw.Subscriber(back, domain=role.domain)
    publisher = rtmw.Publisher(out, domain=role.domain)
    if not publisher.wait_for_subscribers(timeout=10):
        raise RuntimeError("the other process did not come")
    return publisher, subscriber


async def bus_ping(role: Role) -> list[float]:
    publisher, subscriber = endpoints(role, "out", "back")
    publish, following, times = publisher.publish, subscriber.__anext__, [clock()]
    for _ in range(role.options["rounds"]):
        publish(BODY)
        read_stamp(await following())
        times.append(clock())
    return halves(times)


async def bus_pong(role: Role) -> None:
    publisher, subscriber = endpoints(role, "back", "out")
    publish, following = publisher.publish, subscriber.__anext__
    for _ in range(role.options["rounds"]):
        read_stamp(await following())
        publish(BODY)


def connection(role: Role, near: bool) -> socket.socket:
    """An end of a connected pair of Unix sockets."""
    path = f"{role.place}/pair"
    if near:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(path)
            server.listen()
            role.tell("listening")
            return server.accept()[0]
    role.hear()
    end = socket.socket(socket.AF_UNIX)
    end.connect(path)
    return end


async def exchange(end: socket.socket, rounds: int, begins: bool) -> list[int]:
    """The clock after each message, of `rounds` that came."""
    end.setblocking(False)
    loop, times = asyncio.get_running_loop(), [clock()]
    done = loop.create_future()

    def readable() -> None:
        end.recv(64)
        times.append(clock())
        if not begins or len(times) <= rounds:
            end.send(BODY)
        if len(times) > rounds:
            done.set_result(None)

    loop.add_reader(end, readable)
    if begins:
        end.send(BODY)
    await done
    loop.remove_reader(end)
    return times


def socket_near(role: Role) -> list[float]:
    return halves(run(role, exchange(connection(role, near=True), role.options["rounds"], begins=True)))


def socket_far(role: Role) -> None:
    run(role, exchange(connection(role, near=False), role.options["rounds"], begins=False))
