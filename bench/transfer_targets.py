"""What transfers mean to reach, beside the log on which they stand."""

from __future__ import annotations

from bench.questions.transfer_between import DELIVERED, NATS, RABBITMQ
from bench.questions.transfer_file import TCP, TLS
from bench.questions.transfer_rate import APPENDS, BATCH, BATCHES, LOGGED, LOGGED_BATCHES, TOPIC
from bench.questions.transfer_resume import CUT, RSYNC
from bench.rsync import DAEMON, SSH
from bench.target import Target, ours

PYTHON = (
    "Python: letters of one turn share a frame, a batch of the log and an answer. The core bounds the rate, with some "
    "6.5 µs of processor time a letter, two thirds of it Python and the rest write and sync; the program takes some "
    "5.0 for a coroutine, a future and a Transfer, where tasks that only wait for each other cost 1.3. And 64 tasks "
    "wait for two hand-overs between processes, each by a system call"
)

IN_BATCHES = (
    "Python: some 1.3 µs a letter in the program and 1.6 in the core, and with LOG some 3 there: records are "
    "made in Python, where the log's append_many is C throughout. And a batch waits for two hand-overs between "
    "processes"
)

BETWEEN = (
    "processor time of Python in both cores, 120 to 150 µs a letter in each of them, and some 100 in both programs, "
    "on two processors: letters, reports, ends, takes and what is consumed go in runs, but runs are short, some seven "
    "letters a sync. So what is left is the work of a turn of a core, more than that of a letter"
)

TRANSFER_TARGETS = (
    *(
        Target(
            f"letters of 200 B with class LOG, accepted from {tasks:,} asyncio tasks: at least 0.7 × bare appends",
            ours("transfer_rate", case),
            0.7,
            over=(("transfer_rate", case, APPENDS),),
            at_least=True,
            limited_by=PYTHON,
        )
        for tasks, case in LOGGED.items()
    ),
    Target(
        f"letters of 200 B with class LOG, accepted in batches of {BATCH}: at least 0.7 × append_many of as many",
        ours("transfer_rate", LOGGED_BATCHES),
        0.7,
        over=(("transfer_rate", LOGGED_BATCHES, APPENDS),),
        at_least=True,
        limited_by=IN_BATCHES,
    ),
    Target(
        f"letters of 200 B with class NORMAL, accepted in batches of {BATCH}: at least 0.05 × a RELIABLE topic",
        ours("transfer_rate", BATCHES),
        0.05,
        over=(("transfer_rate", BATCHES, TOPIC),),
        at_least=True,
        limited_by=IN_BATCHES,
    ),
    Target(
        "letters of 200 B with class LOG, DELIVERED at another host: at least 2 × a work queue of NATS or RabbitMQ",
        ours("transfer_between", DELIVERED),
        2.0,
        over=tuple(("transfer_between", DELIVERED, peer) for peer in (NATS, RABBITMQ)),
        at_least=True,
        limited_by=BETWEEN,
    ),
    *(
        Target(
            f"a file from node to node over {case}: at least 0.8 × {peer}",
            ours("transfer_file", case),
            0.8,
            over=(("transfer_file", case, peer),),
            at_least=True,
        )
        for case, peer in ((TCP, DAEMON), (TLS, SSH))
    ),
    Target(
        "the first new byte of a file after a cut at 95 %: at most 0.2 × rsync --append-verify",
        ours("transfer_resume", CUT),
        0.2,
        over=(("transfer_resume", CUT, RSYNC),),
    ),
)
