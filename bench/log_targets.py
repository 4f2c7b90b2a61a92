"""What the durable log means to reach, beside databases and beside the disk."""

from __future__ import annotations

from bench.cases import FDATASYNC, GROWING, PAGE_CACHE, PREPARED, RECORDING, RTMW, RTMW_BATCHES, RTMW_C
from bench.log_peers import LIBRARIES, PEERS
from bench.questions.log_delay import ALONE, BESIDE
from bench.results import Key
from bench.target import Target, ours


def log_peers(case: str) -> tuple[Key, ...]:
    return tuple(("log_append", case, peer) for peer in PEERS)


CHECKED = (
    "perf: of 40 ns a record a third is the kernel's, which copies out of the page cache, and a third the CRC's; the "
    "rest goes over heads and offsets"
)

ZEROS = (
    "by strace: three syncs, and zeros behind the last record, 256 KiB at a time, up to the reach of the watermark, "
    "4 to 8 MiB, which are written whatever the file has there"
)

TWICE = (
    "each byte is written twice, once as a zero of the next segment, and the zeros of the plain file are not in its "
    "figure. Of 12 alternating plays in C on a busy machine (2026-11-24) the best median of an append was 97 µs, as of "
    "the plain write, and the best rate 0.81 × its: the sync of a segment of zeros holds up an append by up to 20 ms"
)

TWO_SYNCS = (
    "an append waits for the sync that is under way and for its own. By the whole bench of 2026-11-24, when each "
    "batch took a watermark along, the log from C has 2.3 ×, of which 1.35 × are two median syncs. The median of "
    "group commit without a log is the same: of 14 alternating plays in C, on a machine with a load of 30, the third "
    "best median was 315 µs, that of the log 326 µs, the third best 90th of a hundred 441 and 540 µs. What Python "
    "adds is the interpreter: its 16 threads run one after the other, 14 µs an append, so 225 µs go by until each has "
    "had its turn. Under load this virtual machine also stands still for 8 to 18 ms in most tenths of a second, and "
    "16 appends with it"
)

BUSY = (
    "beside other programs, the scheduler: with several writers an append wakes the flusher and is woken by it, and "
    "each wake-up waits for a processor, as that of a bare fdatasync does. In single plays of a machine with a load of "
    "1 to 2 the log answered one writer 7,700 times a second, SQLite 6,600 times and JetStream 2,000 times; 64 threads "
    "39,000 times, redis 10,700 times"
)

LOG_TARGETS = (
    *(
        Target(
            f"records of 200 B that a log answers, {case}: at least {limit:g} × the best peer",
            ours("log_append", case),
            limit,
            over=log_peers(case),
            at_least=True,
            limited_by=BUSY,
        )
        for case, limit in (("1 writer", 0.95), ("16 threads", 2.0), ("64 threads", 1.5), ("64 asyncio tasks", 2.0))
    ),
    Target(
        "the same, 64 threads in C: at least 8 × the best peer with 64 threads in Python",
        ("log_append", "64 threads", RTMW_C),
        8.0,
        over=log_peers("64 threads"),
        at_least=True,
    ),
    *(
        Target(
            f"the 99th of a hundred appends of 16 threads: at most 3 × that of an fdatasync {where}",
            ours("log_delay", case),
            3.0,
            over=(("log_delay", case, FDATASYNC),),
            limited_by=TWO_SYNCS,
        )
        for where, case in (("beside them", BESIDE), ("that has the disk and the processors to itself", ALONE))
    ),
    *(
        Target(
            f"appends of 64 KiB: at least 0.8 × write and fdatasync of a file that {how}",
            ours("log_bulk", "1 writer"),
            0.8,
            over=(("log_bulk", "1 writer", plain),),
            at_least=True,
            limited_by=limited_by,
        )
        for how, plain, limited_by in (("grows", GROWING, ""), ("was filled with zeros before", PREPARED, TWICE))
    ),
    *(
        Target(
            f"{what}: at least 0.3 × a copy from the page cache",
            ("log_read", case, system),
            0.3,
            over=(("log_read", case, PAGE_CACHE),),
            at_least=True,
            limited_by=limited_by,
        )
        for what, case, system, limited_by in (
            ("opening a log that was killed, its last segment full of records", "recovery, segment full", RTMW, ZEROS),
            ("the same, its last segment empty", "recovery, segment empty", RTMW, ZEROS),
            ("reading a log in records of 64 KiB, from Python", "read, 64 KiB records", RTMW, ""),
            ("the same in records of 200 B, from C", "read, 200 B records", RTMW_C, CHECKED),
            ("the same in records of 200 B, from Python, in batches", "read, 200 B records", RTMW_BATCHES, CHECKED),
        )
    ),
    Target(
        "reading records of 200 B one by one, from Python: at least 1 × the best library",
        ours("log_read", "read, 200 B records"),
        1.0,
        over=tuple(("log_read", "read, 200 B records", peer) for peer in LIBRARIES),
        at_least=True,
    ),
    Target(
        "Spark sums eight typed columns of a log: at least 1 × the same rows in a recording",
        ours("log_scan", "eight fields"),
        1.0,
        over=(("log_scan", "eight fields", RECORDING),),
        at_least=True,
    ),
)
