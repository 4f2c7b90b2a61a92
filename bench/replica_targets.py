"""What the replicated log means to reach, beside clusters that sync on two of three members before they answer."""

from __future__ import annotations

from typing import Final

from bench.clusters import NATS, RABBITMQ
from bench.questions.replica_read import COPY, LOCAL
from bench.results import Key
from bench.target import Target, ours

NODES_IN_PYTHON: Final = (
    "two processors for four processes: master, two slaves and the program, all in Python. NATS has three servers in "
    "Go beside a program in Python"
)


def _beside(case: str, question: str = "replica_append", system: str = NATS) -> tuple[Key, ...]:
    return ((question, case, system),)


REPLICA_TARGETS = (
    *(
        Target(
            f"{wish}{what} of a replicated log over a connection: at least {factor:g} × {system}",
            ours("replica_read", case),
            factor,
            over=_beside(case, "replica_read", system),
            at_least=True,
        )
        for wish, what, case, factor, system in (
            ("", "`read_batches`", "read_batches", 0.5, COPY),
            ("", "a slave that catches up", "a slave catches up", 0.3, COPY),
            ("a wish: ", "`read`", "read", 0.5, LOCAL),
        )
    ),
    *(
        Target(
            f"{wish}records of 200 B that three members answer, {case}: at least {factor:g} × NATS",
            ours("replica_append", case),
            factor,
            over=_beside(case),
            at_least=True,
            limited_by=NODES_IN_PYTHON,
        )
        for wish, case, factor in (
            ("", "64 asyncio tasks", 1.5),
            ("", "64 threads", 1.0),
            ("", "16 asyncio tasks", 0.8),
            ("", "1 writer", 0.7),
            ("a wish: ", "64 asyncio tasks", 3.0),
            ("a wish: ", "16 asyncio tasks", 2.0),
            ("a wish: ", "1 writer", 1.5),
        )
    ),
    *(
        Target(
            f"{wish}answers come again after {name} of the master: at most as late as of {system}",
            ours("replica_switch", name),
            1.0,
            over=_beside(name, "replica_switch", system),
        )
        for wish, name, system in (
            ("", "SIGKILL", NATS),
            ("", "SIGSTOP", NATS),
            ("", "SIGSTOP", RABBITMQ),
            ("a wish: ", "SIGKILL", RABBITMQ),
        )
    ),
)
