"""How long does a request with its answer take? A round trip of 64 bytes to a handler that gives back what it got.

Both processes poll for as long as that is worth it, which is what rtmw does by itself. `two topics by hand`: a request
and a reply of the same members, with the QoS of `profiles.REQUEST` and a timeout, on two topics of one client.
"""

from __future__ import annotations

import atexit
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import rtmw
from bench.cases import BY_HAND, RTMW, Case, Figures
from bench.numbers import spread
from bench.role import Role
from bench.stage import Part, Stage

TITLE = "A request and its answer, round trip"
UNIT = "µs"
PEERS = ("eclipse-zenoh", "pynng", "pyzmq")
IDLE = "64 B, and 99 clients that are idle"
"""They are of one process here, each with endpoints and a topic as a client process has them."""
TIMEOUT = 10.0
REQUEST = rtmw.profiles.REQUEST


@dataclass
class Body:
    """64 bytes."""

    a: float
    b: float
    c: float
    d: float
    e: float
    f: float
    g: float
    h: float


@dataclass
class Message:
    """What a program that does without a Service has to say itself."""

    client: rtmw.uint64
    call: rtmw.uint64
    body: Body


BODY, BYTES = Body(1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0), bytes(64)


def cases(quick: bool) -> Sequence[Case]:
    options = {"seconds": 0.3 if quick else 1.0}
    idle = Case(IDLE, (RTMW,), {**options, "idle": 99})
    return [Case("64 B", (RTMW, BY_HAND, *PEERS), options), idle]


def measure(stage: Stage, system: str, case: Case) -> dict[str, Figures]:
    parts = [Part(name, case.options, cpu) for name, cpu in zip(("near", "far"), stage.processors, strict=True)]
    result = stage.play("request", system, parts)[0]
    return {system: Figures(result["p50"], result)}


def near(role: Role) -> dict[str, float]:
    """The caller."""
    role.pin()
    assert role.hear() == "ready"
    ask = ASKS[role.peer](role)
    warm = time.perf_counter() + 0.2
    while time.perf_counter() < warm:
        ask()
    times, end = list[float](), time.perf_counter() + role.options["seconds"]
    while (began := time.perf_counter()) < end:
        ask()
        times.append((time.perf_counter() - began) * 1e6)
    role.tell("done")
    return spread(times)


def far(role: Role) -> None:
    """The server."""
    role.pin()
    ANSWERS[role.peer](role)


def path(role: Role) -> str:
    return f"ipc://{role.place}/{role.name}"


def ask_rtmw(role: Role) -> Callable[[], object]:
    idle = list[rtmw.Client[Body, Body]]()
    client = rtmw.Client(role.name, request=Body, reply=Body, domain=role.domain)
    assert client.wait(TIMEOUT)
    for _ in range(role.options.get("idle", 0)):
        other = rtmw.Client(role.name, request=Body, reply=Body, domain=rtmw.Domain(role.domain))
        idle.append(other)
        other.call(BODY, timeout=TIMEOUT)

    def ask() -> Body:
        return client.call(BODY, timeout=TIMEOUT)

    atexit.register(idle.clear)  # until then they live
    return ask


def answer_rtmw(role: Role) -> None:
    with rtmw.Service(role.name, lambda body: body, request=Body, reply=Body, domain=role.domain):
        role.tell("ready")
        role.hear()


def ask_by_hand(role: Role) -> Callable[[], object]:
    publisher = rtmw.Publisher(f"{role.name}/asked", Message, domain=role.domain, **REQUEST.publisher)
    subscriber = rtmw.Subscriber(f"{role.name}/answered", Message, domain=role.domain, **REQUEST.subscriber)
    assert publisher.wait_for_subscribers(timeout=TIMEOUT)
    number = 0

    def ask() -> Body:
        nonlocal number
        number += 1
        publisher.publish(Message(1, number, BODY), lifetime=TIMEOUT)
        reply = subscriber.receive(timeout=TIMEOUT).value
        assert reply.call == number
        return reply.body

    return ask


def answer_by_hand(role: Role) -> None:
    with (
        rtmw.Subscriber(f"{role.name}/asked", Message, domain=role.domain, **REQUEST.subscriber) as subscriber,
        rtmw.Publisher(f"{role.name}/answered", Message, domain=role.domain, **REQUEST.publisher) as publisher,
    ):

        def answer(sample: rtmw.Sample[Message]) -> None:
            asked = sample.value
            publisher.publish(Message(asked.client, asked.call, asked.body))

        with subscriber.listen(answer):
            role.tell("ready")
            role.hear()


def zenoh_session(role: Role, listens: bool) -> Any:
    from bench.peers import Channel
    from bench.peers.zenoh import UNIX, shared_session

    return shared_session(Channel(role.name, 64, role.place, role.domain, listens), UNIX)


def ask_zenoh(role: Role) -> Callable[[], object]:
    session = zenoh_session(role, listens=False)

    def ask() -> bytes:
        for reply in session.get(role.name, payload=BYTES, timeout=TIMEOUT):
            return bytes(reply.ok.payload)
        raise TimeoutError

    until = time.monotonic() + TIMEOUT
    while time.monotonic() < until:
        try:
            ask()
            return ask
        except TimeoutError:  # the queryable is not known yet
            time.sleep(0.05)
    raise TimeoutError


def answer_zenoh(role: Role) -> None:
    session = zenoh_session(role, listens=True)

    def answer(query: Any) -> None:
        query.reply(role.name, query.payload)

    queryable = session.declare_queryable(role.name, answer)
    role.tell("ready")
    role.hear()
    queryable.undeclare()


def ask_nng(role: Role) -> Callable[[], object]:
    pynng: Any = import_module("pynng")

    asking = pynng.Req0(dial=path(role), recv_timeout=int(TIMEOUT * 1000))

    def ask() -> bytes:
        asking.send(BYTES)
        return asking.recv()

    return ask


def answer_nng(role: Role) -> None:
    pynng: Any = import_module("pynng")

    serve_until_done(role, pynng.Rep0(listen=path(role)))


def ask_zmq(role: Role) -> Callable[[], object]:
    zmq: Any = import_module("zmq")

    asking = zmq.Context.instance().socket(zmq.REQ)
    asking.connect(path(role))

    def ask() -> bytes:
        asking.send(BYTES)
        return asking.recv()

    return ask


def answer_zmq(role: Role) -> None:
    zmq: Any = import_module("zmq")

    answering = zmq.Context.instance().socket(zmq.REP)
    answering.bind(path(role))
    serve_until_done(role, answering)


def serve_until_done(role: Role, answering: Any) -> None:
    """In a thread that ends with its process."""

    def serve() -> None:
        while True:
            answering.send(answering.recv())

    threading.Thread(target=serve, daemon=True).start()
    role.tell("ready")
    role.hear()


ASKS: dict[str, Callable[[Role], Callable[[], object]]] = {
    RTMW: ask_rtmw,
    BY_HAND: ask_by_hand,
    "eclipse-zenoh": ask_zenoh,
    "pynng": ask_nng,
    "pyzmq": ask_zmq,
}
ANSWERS: dict[str, Callable[[Role], None]] = {
    RTMW: answer_rtmw,
    BY_HAND: answer_by_hand,
    "eclipse-zenoh": answer_zenoh,
    "pynng": answer_nng,
    "pyzmq": answer_zmq,
}
