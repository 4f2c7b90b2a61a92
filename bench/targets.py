"""What rtmw means to reach, in ratios to other figures of the same run wherever there is something to compare with."""

from __future__ import annotations

from bench.cases import (
    BY_HAND,
    FUTEX,
    HANDOVER,
    MCAP,
    MEMCPY,
    MSGSPEC,
    ONE_PROCESSOR,
    ONE_SUBSCRIBER,
    PARQUET,
    READY,
    SOCKETPAIR,
    SPIN,
    WRITE,
)
from bench.link_targets import LINK_TARGETS
from bench.log_targets import LOG_TARGETS
from bench.peers import ALL, ZENOH_TCP
from bench.relay_targets import RELAY_TARGETS
from bench.replica_targets import REPLICA_TARGETS
from bench.target import Target, ours
from bench.transfer_targets import TRANSFER_TARGETS

PEERS = ALL[1:]
POLLING = ours("round_trip", "64 B, copied")

SCANNING = (
    "processor time in Python: of 573 µs for a chunk of 12,600 messages LZ4 has 281, decoding 105, reading 58, making "
    "Arrow's arrays 32; sending them takes some 45 more. In the JVM's tasks, half of the time makes Spark's rows of "
    "Arrow columns and passes them on one by one. Batches that are ready, from Python, reach 1.1 × Parquet, so what is "
    "left is to decompress and to decode (2026-11-27)"
)
PACKED = "a chunk is decompressed as a whole, whichever column is asked for; Parquet keeps each column by itself"

FRAMES = (
    "by CPU time: IP divides datagrams into frames and joins them, which TCP leaves to the interface, so a byte "
    "costs UDP about three times as much (see the bare sockets; half of it with an MTU of 9000), most in the sending "
    "node; and four processes share two processors, where zenoh has two processes"
)

TARGETS = (
    Target(
        "half round trip, 64 B, polling: at most 1.15 × (a publish and a take within one process, and one C spin)",
        POLLING,
        1.15,
        over=(ours("within", "64 B, copied"), ("round_trip", "64 B, copied", SPIN)),
        summed=True,
        limited_by="C spin hands over one line; a message is the link that the subscriber polls, the descriptor that "
        "it names and the bit of the holder in it, which the two processors write in turn",
    ),
    Target(
        "the same: 99 % of the round trips take at most 3 × as long as the median",
        POLLING,
        3.0,
        percentile="p99",
        limited_by="one publish in nine passes over 8 messages that were read, before it links its own, and waits for "
        "lines that the subscriber wrote last. A process that is preempted counts whole",
    ),
    Target(
        "the same: at most 0.7 µs where C spin is 0.2 µs",
        POLLING,
        0.7,
        yardstick=(("round_trip", "64 B, copied", SPIN), 0.2),
    ),
    Target(
        "half round trip, 4 MiB loaned: at most 1.25 × 64 B loaned, which is the same calls",
        ours("sizes", "64 B, loaned"),
        1.25,
    ),
    Target(
        "the same: at most 1.5 × 64 B copied",
        ours("sizes", "64 B, copied"),
        1.5,
        limited_by="the calls: 64 B loaned is 1.4 to 1.5 × 64 B copied. Timed one by one within a process, of 0.07 µs "
        "more, 0.055 are struct.pack_into, which writes the stamp, and 0.015 loan() and publish() beside publish(); "
        "the bench calls them in a function of its own. A block adds its first line, which the other processor reads",
    ),
    *(
        Target(
            f"half round trip, {size} copied, polling: at most 1 × iceoryx2",
            ours("round_trip", f"{size}, copied"),
            1.0,
            over=(("round_trip", f"{size}, copied", "iceoryx2"),),
        )
        for size in ("1 MiB", "4 MiB")
    ),
    Target(
        "half round trip, 1 MiB written and read in full: at most 1 × iceoryx2",
        ours("full_payload", "1 MiB"),
        1.0,
        over=(("full_payload", "1 MiB", "iceoryx2"),),
    ),
    Target(
        "the same: at most 1.1 × C handover",
        ours("full_payload", "1 MiB"),
        1.1,
        over=(("full_payload", "1 MiB", HANDOVER),),
    ),
    Target(
        "the same: at most 1.1 × two memcpys",
        ours("full_payload", "1 MiB"),
        1.1,
        over=(("full_payload", "1 MiB", MEMCPY),),
        limited_by="the same in C between two processes (`C handover`) misses it too: what one processor has written "
        "lies in its own cache, and comes to the other more slowly than a copy within one",
    ),
    Target(
        "half round trip, blocking, spin=0, two processors: at most 1.15 × C futex",
        ours("asleep", "two processors"),
        1.15,
        over=(("asleep", "two processors", FUTEX),),
        limited_by="perf: 74 % in the kernel, most of it the wake-up of the other processor, which the futex has too; "
        "15 % in the interpreter, 7 % in the core. Beside other programs, which keep both processors from being idle, "
        "it is 1.1 × (16.6 to 15.2 µs); what the way out of idleness adds to one and not to the other is not known. It "
        "is not the timeout with which a subscriber sleeps: with one, C futex takes 0.98 to 1.02 × as long there",
    ),
    Target(
        "the same, both on one processor: at most 1.6 × C futex",
        ours("asleep", "one processor"),
        1.6,
        over=(("asleep", "one processor", FUTEX),),
        limited_by="perf: 64 % in the kernel, which is what the bare futex takes in all; 15 % in the interpreter, 13 "
        "% in the core, 7 % in libc. A subscriber sleeps with a timeout, after which it looks by itself. With one, C "
        "futex takes 1.2 × as long (2.8 to 2.3 µs): that is 0.5 of the 1.0 to 1.6 µs that are more",
    ),
    Target(
        "half round trip, blocking with the default spin: at most 1.5 µs",
        ours("asleep", "default spin"),
        1.5,
        limited_by="perf: where the kernel puts both processes on one processor, which it does when the other one is "
        "busy, 42 % is switching between them: spinning cannot help there, and the spin learns it",
    ),
    Target(
        "half round trip, asyncio on uvloop: at most 1.3 × a bare socketpair",
        ours("asyncio_", "two processors"),
        1.3,
        over=(("asyncio_", "two processors", SOCKETPAIR),),
        limited_by="perf: 41 % in the interpreter (a future and a timer a wait), 39 % in the kernel, 8 % in uvloop, 2 "
        "% in the core",
    ),
    Target(
        "64 B one way, nothing lost, one call a message: at least 2 M/s",
        ours("one_way", "one call a message"),
        2.0,
        at_least=True,
        limited_by="perf: the publisher; finding a descriptor, evicting and holding touch lines that the subscriber's "
        "processor wrote last (publish and take within one process: 0.15 µs)",
    ),
    Target(
        "the same: at least 4 × the best peer",
        ours("one_way", "one call a message"),
        4.0,
        over=tuple(("one_way", "one call a message", peer) for peer in PEERS),
        at_least=True,
        limited_by="perf: the publisher, at 0.2 µs a message; finding a descriptor, evicting and holding touch lines "
        "that the subscriber's processor wrote last. The best peer hands many small messages over at a time",
    ),
    Target(
        "64 B one way, publish_many and take_many: at least 5 M/s",
        ours("one_way", "many"),
        5.0,
        at_least=True,
        limited_by="perf: 64 % in the core, of which queue_evict, descriptor_claim and hold_mine take half: the same "
        "lines as with one call a message; 26 % in the interpreter, in the subscriber's loop over the messages",
    ),
    Target(
        "a publish call beside 64 idle subscribers: at most 1.1 × beside one",
        ours("crowd", "64 idle"),
        1.1,
    ),
    Target(
        "a publish of 32 MiB that a full pool refuses, processor time: at most 2 × one of 4 KB that it refuses",
        ours("refused", "processor time"),
        2.0,
    ),
    Target(
        "a typed message of 8 fields, encode and decode: at most msgspec's MessagePack",
        ours("typed", "8 fields: 6 numbers, str, array of 16 doubles"),
        1.0,
        over=(("typed", "8 fields: 6 numbers, str, array of 16 doubles", MSGSPEC),),
    ),
    Target(
        "a take of a PatternSubscriber over 200 topics: at most 3 × that of one Subscriber",
        ours("pattern", "64 B, ten on each"),
        3.0,
        over=(("pattern", "64 B, ten on each", ONE_SUBSCRIBER),),
    ),
    Target(
        "the same where one of the 200 has messages: at most 3 ×",
        ours("pattern", "64 B, ten on one of them"),
        3.0,
        over=(("pattern", "64 B, ten on one of them", ONE_SUBSCRIBER),),
    ),
    Target(
        "a request of 64 B and its answer: at most 1.5 × two topics used by hand",
        ours("request", "64 B"),
        1.5,
        over=(("request", "64 B", BY_HAND),),
        limited_by="by hand a message each way is all there is; a call keeps a number, a timeout, who waits and who is "
        "cancelled, in Python on both sides: some 1 µs each, as much as the messages take there (2026-11-30)",
    ),
    Target(
        "the same of a service with 99 other clients that are idle: at most 1.2 × without them",
        ours("request", "64 B, and 99 clients that are idle"),
        1.2,
        over=(ours("request", "64 B"),),
    ),
    Target(
        "the same: quicker than the requests of every peer",
        ours("request", "64 B"),
        1.0,
        over=tuple(("request", "64 B", name) for name in ("eclipse-zenoh", "pynng", "pyzmq")),
    ),
    Target(
        "64 B from host to host, node to node, nothing lost: at least 4 × cyclonedds from program to program",
        ours("between_rate", "nothing lost"),
        4.0,
        over=(("between_rate", "nothing lost", "cyclonedds"),),
        at_least=True,
    ),
    Target(
        "the same: at least 1 × zenoh over TCP",
        ours("between_rate", "nothing lost"),
        1.0,
        over=(("between_rate", "nothing lost", ZENOH_TCP),),
        at_least=True,
        limited_by="by CPU time, the four processes take 1.5 µs of the two processors a message: program 0.35, node "
        "0.45 (half of it in the kernel, sending), node 0.39, program 0.32",
    ),
    Target(
        "half round trip from host to host, 64 B: at most 1.5 × cyclonedds",
        ours("between_trip", "64 B"),
        1.5,
        over=(("between_trip", "64 B", "cyclonedds"),),
    ),
    Target(
        "the same: at most 1 × zenoh over TCP",
        ours("between_trip", "64 B"),
        1.0,
        over=(("between_trip", "64 B", ZENOH_TCP),),
    ),
    Target(
        "1 MiB messages from host to host, nothing lost: at least 3 × the MiB/s of cyclonedds",
        ours("between_bulk", "nothing lost"),
        3.0,
        over=(("between_bulk", "nothing lost", "cyclonedds"),),
        at_least=True,
    ),
    Target(
        "the same: at least 1 × the MiB/s of zenoh over TCP",
        ours("between_bulk", "nothing lost"),
        1.0,
        over=(("between_bulk", "nothing lost", ZENOH_TCP),),
        at_least=True,
    ),
    Target(
        "half round trip from host to host, 1 MiB: at most 1/3 of cyclonedds",
        ours("between_trip", "1 MiB"),
        1 / 3,
        over=(("between_trip", "1 MiB", "cyclonedds"),),
        limited_by="perf: copies; 40 % of the sending node is the kernel's into datagrams, 22 % of the receiving one "
        "the kernel's out of them, and 29 % its own into the pool; two more are the programs'. And while an eighth of "
        "the pool is lent and not acknowledged, which takes DDS up to 100 ms, the library copies what it sends",
    ),
    *(
        Target(
            f"{size} from host to host over a cable, nothing lost: at least 1 × the MiB/s of zenoh over TCP",
            ours("cable_rate", size),
            1.0,
            over=(("cable_rate", size, ZENOH_TCP),),
            at_least=True,
            limited_by=FRAMES,
        )
        for size in ("64 B", "1 KiB", "64 KiB", "1 MiB")
    ),
    *(
        Target(
            f"half round trip over a cable, {size}: at most 1 × zenoh over TCP",
            ours("cable_trip", size),
            1.0,
            over=(("cable_trip", size, ZENOH_TCP),),
            limited_by=FRAMES,
        )
        for size in ("64 B", "64 KiB", "1 MiB")
    ),
    Target("attach and first message through, after import: at most 20 ms", ours("attach", "first message"), 20.0),
    Target("import rtmw: at most 60 ms", ours("attach", "import"), 60.0),
    *LINK_TARGETS,
    *LOG_TARGETS,
    *TRANSFER_TARGETS,
    *RELAY_TARGETS,
    *REPLICA_TARGETS,
    Target(
        "64 B from the bus to a recording: at least 3 × the Python writer of the MCAP project",
        ours("recording", "64 B"),
        3.0,
        over=(("recording", "64 B", MCAP),),
        at_least=True,
    ),
    Target(
        "1 MiB from the bus to a recording: at least 0.5 × plain writes of the same bytes",
        ours("recording", "1 MiB"),
        0.5,
        over=(("recording", "1 MiB", WRITE),),
        at_least=True,
        limited_by="three copies of each message, into the pool, the chunk and the file, where a plain write makes "
        "one; publisher, collector and writer share two processors",
    ),
    Target(
        "replay at rate 1: 99 % of the messages at most 200 µs late",
        ours("replay", "1 kHz, 64 B"),
        200.0,
        limited_by="other programs on the same processors, for which the player waits, as a loop that sleeps does in "
        "the same run; `rtmw.realtime.run_fifo` is the remedy. 20 µs of it are the waking up of the subscriber",
    ),
    Target(
        "Spark sums eight typed columns of a recording: at least 0.7 × the same rows in Parquet",
        ours("scan", "eight fields"),
        0.7,
        over=(("scan", "eight fields", PARQUET),),
        at_least=True,
        limited_by=SCANNING,
    ),
    Target(
        "the same: at least 0.5 × batches that are ready, which cost Python nothing",
        ours("scan", "eight fields"),
        0.5,
        over=(("scan", "eight fields", READY),),
        at_least=True,
        limited_by=SCANNING,
    ),
    Target(
        "the same: at least 20 × a loop over the messages with the Python reader of the MCAP project",
        ours("scan", "eight fields"),
        20.0,
        over=(("scan", "eight fields", MCAP),),
        at_least=True,
    ),
    Target(
        "the same with two processors: at least 1.5 × with one",
        ours("scan", "eight fields"),
        1.5,
        over=(("scan", "eight fields", ONE_PROCESSOR),),
        at_least=True,
        limited_by="what plans the query, and compiles it in the JVM, does not become faster by another processor",
    ),
    Target("1 % of a recording's time: at most 3 % of its bytes are read", ours("scan_slice", "1 % of the time"), 3.0),
    *(
        Target(
            f"Spark answers a query of {share} of the rows, by a number: at most 1 × the time of Parquet",
            ours("scan_some", f"{share} by a number"),
            1.0,
            over=(("scan_some", f"{share} by a number", PARQUET),),
            limited_by="what Spark needs to plan and begin a query is most of the time of both",
        )
        for share in ("1 %", "0.1 %")
    ),
    Target(
        "Spark sums one column of eight: at most 2 × the time of Parquet",
        ours("scan_some", "one column of eight"),
        2.0,
        over=(("scan_some", "one column of eight", PARQUET),),
        limited_by=PACKED,
    ),
)
