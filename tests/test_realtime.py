"""Real time: memory that is there before it is needed, a real-time priority, and publishing and taking in silence."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

import rtmw
from rtmw import realtime
from tests.child import Spawn
from tests.page import programs

NOBODY = 65534

STRIPPED = f"""
    import errno, os, resource, rtmw, rtmw.shm.failures
    for what in (resource.RLIMIT_MEMLOCK, resource.RLIMIT_RTPRIO):
        resource.setrlimit(what, (0, 0))
    if os.geteuid() == 0:
        os.setgid({NOBODY}); os.setuid({NOBODY})
"""
"""A process without any right to real time."""


def locked_bytes() -> int:
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmLck:"))


def test_locked_memory_is_that_of_the_whole_region(domain: rtmw.Domain) -> None:
    before = locked_bytes()
    try:
        domain.lock_memory()
    except rtmw.NotPermitted as error:
        pytest.skip(str(error))
    assert locked_bytes() - before >= domain.region.mapped_bytes >= domain.pool
    domain.lock_memory()
    with rtmw.Publisher("t", domain=domain) as publisher, rtmw.Subscriber("t", domain=domain) as subscriber:
        publisher.publish(bytes(100_000))
        assert subscriber.receive(10).value == bytes(100_000)


def test_memory_that_may_not_be_locked_is_an_error_with_the_limit_and_how_to_raise_it(spawn: Spawn) -> None:
    child = spawn(
        STRIPPED
        + """
    with rtmw.Domain(int(os.environ["RTMW_DOMAIN"]), pool="1M") as domain:
        try:
            domain.lock_memory()
        except PermissionError as error:
            print(type(error).__name__, error)
        print(rtmw.Publisher("t", domain=domain).publish(b"still works"))
"""
    )
    told = child.line(30)
    assert told.startswith("NotPermitted")
    for part in ("this process may lock 0", "ulimit -l", "LimitMEMLOCK", "limits.conf"):
        assert part in told
    assert child.line(30) == "True"


def test_a_thread_becomes_a_real_time_one_where_that_is_allowed(spawn: Spawn) -> None:
    child = spawn(
        """
        import os, rtmw
        try:
            rtmw.realtime.run_fifo(7)
            print(os.sched_getscheduler(0) == os.SCHED_FIFO, os.sched_getparam(0).sched_priority)
        except rtmw.NotPermitted as error:
            print(error)
        """
    )
    told = child.line(30)
    if "may go up to" in told:
        pytest.skip(told)
    assert told == "True 7"


def test_a_priority_that_is_not_allowed_is_an_error_with_how_to_allow_it(spawn: Spawn) -> None:
    child = spawn(
        STRIPPED
        + """
    try:
        rtmw.realtime.run_fifo(50)
    except PermissionError as error:
        print(type(error).__name__, error)
"""
    )
    told = child.line(30)
    assert told.startswith("NotPermitted")
    for part in ("priority 50", "up to 0", "ulimit -r", "LimitRTPRIO", "limits.conf"):
        assert part in told


def test_the_program_of_the_page_runs(spawn: Spawn, domain_id: int) -> None:
    (program,) = programs(Path(__file__).parents[1] / "docs" / "realtime.md")
    assert "rtmw.Domain(0)" in program
    child = spawn(program.replace("rtmw.Domain(0)", f"rtmw.Domain({domain_id})"))
    assert child.wait(60) == 0, child.stderr


@pytest.mark.parametrize("priority", [0, 100, -1])
def test_a_priority_that_does_not_exist_is_refused(priority: int) -> None:
    with pytest.raises(ValueError, match="they go from 1 to 99"):
        realtime.run_fifo(priority)


SILENT = """
    import ctypes, gc, os, struct, sys, rtmw
    RETURN, ALLOW, KILL = 0x06, 0x7FFF0000, 0x80000000
    LOAD_NUMBER, IS = struct.pack("=HBBI", 0x20, 0, 0, 0), 0x15
    ALLOWED = {allowed}

    def forbid_system_calls():
        rules = LOAD_NUMBER + b"".join(
            struct.pack("=HBBI", IS, 0, 1, number) + struct.pack("=HBBI", RETURN, 0, 0, ALLOW) for number in ALLOWED
        ) + struct.pack("=HBBI", RETURN, 0, 0, KILL)
        buffer = ctypes.create_string_buffer(rules, len(rules))
        program = ctypes.create_string_buffer(struct.pack("@HP", len(rules) // 8, ctypes.addressof(buffer)))
        prctl = ctypes.CDLL(None).prctl
        prctl.argtypes = [ctypes.c_int, ctypes.c_ulong, ctypes.c_void_p, ctypes.c_ulong, ctypes.c_ulong]
        return prctl(38, 1, None, 0, 0) == 0 and prctl(22, 2, ctypes.addressof(program), 0, 0) == 0

    domain = rtmw.Domain(int(os.environ["RTMW_DOMAIN"]), pool="16M")
    pairs = [
        (rtmw.Publisher(kind.name, reliability=kind), rtmw.Subscriber(kind.name, reliability=kind, deadline=3600))
        for kind in rtmw.Reliability
    ]
    values = [bytes(size) for size in (1, 64, 128, 1000, 5000)]

    def work(turns):
        for turn in range(turns):
            for publisher, subscriber in pairs:
                assert publisher.publish(values[turn % 5])
                assert publisher.publish_many(values) == 5
                assert subscriber.take().value == values[turn % 5]
                assert len(subscriber.take_many(5)) == 5
                assert subscriber.take() is None

    work(1000)
    gc.disable()
    print(forbid_system_calls(), flush=True)
    {window}
    os._exit(0)
"""
ALLOWED = {
    "x86_64": {"exit_group": 231, "write": 1, "mmap": 9, "munmap": 11, "brk": 12, "madvise": 28},
    "aarch64": {"exit_group": 94, "write": 64, "mmap": 222, "munmap": 215, "brk": 214, "madvise": 233},
}
"""By machine: the end, the line that says that the filter is in place, and Python's own memory."""


def end_of(spawn: Spawn, window: str) -> int:
    """How a process ends that may make no other system call while it does this."""
    machine = os.uname().machine
    if machine not in ALLOWED:
        pytest.skip(f"the system calls of {machine} are not known here")
    child = spawn(SILENT.format(allowed=list(ALLOWED[machine].values()), window=window))
    if child.line(60) != "True":
        pytest.skip("seccomp filters are not permitted here")
    return child.wait(60)


# Proves G109.
def test_publishing_and_taking_from_python_make_no_system_call(spawn: Spawn) -> None:
    assert end_of(spawn, "work(1000)") == 0


def test_a_system_call_from_python_would_end_the_process(spawn: Spawn) -> None:
    assert end_of(spawn, "os.getppid()") == -signal.SIGSYS
